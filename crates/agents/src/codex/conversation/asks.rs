//! Permissions and questions of the server, and their answers. Their names are those of the turn and of the
//! server's request, which stay the same on a new connection.

use super::Conversation;
use super::lines::read;
use crate::codex::tools;
use crate::codex::wire::{AskParams, AskedQuestion};
use crate::form::Form;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use turnstream_model::event::{
    ApprovalOption, ApprovalOutcome, Choice, ItemState, OptionKind, Question, QuestionOutcome, Tool, ToolKind,
};
use turnstream_model::id::Key;
use turnstream_model::signal::Signal;

/// The ids of the options that every permission has.
pub(super) const ONCE: &str = "once";
pub(super) const SESSION: &str = "session";
pub(super) const REJECT: &str = "reject";
const STOP: &str = "stop";

/// JSON-RPC's code for a method that does not exist.
const UNKNOWN_METHOD: i64 = -32601;

/// A request of the server that waits for an answer.
pub(super) struct OpenAsk {
    key: Key,
    /// The id to answer with.
    request: Value,
    pub(super) turn: String,
    /// The call it is about.
    pub(super) item: Option<Key>,
    wants: Wants,
}

/// What kind of answer the server expects.
pub(super) enum Wants {
    /// One of these results, by the ids of the options. Each has one for [`ONCE`] and one for [`REJECT`].
    Choice(Vec<(String, Value)>),
    /// Answers by the ids of questions.
    Answers,
    /// Answers to the fields of a form.
    Form(Form),
}

impl Conversation {
    /// A request of the server. One that is not known is refused: the server would wait for ever.
    pub(super) fn server_request(&mut self, method: &str, id: Value, params: Option<&RawValue>) {
        let answer = match method {
            "item/commandExecution/requestApproval" => Self::command_asked,
            "item/fileChange/requestApproval" => Self::file_change_asked,
            "item/permissions/requestApproval" => Self::permissions_asked,
            "item/tool/requestUserInput" => Self::questions_asked,
            "mcpServer/elicitation/request" => {
                return match read(params) {
                    Some(params) => self.elicited(id, params),
                    None => self.unreadable_request(method, &id),
                };
            }
            method => {
                self.unknown(&format!("request {method}"), params);
                return self.refuse_request(&id, &format!("the request {method:?} is not supported"));
            }
        };
        match read(params) {
            Some(params) => answer(self, id, params),
            None => self.unreadable_request(method, &id),
        }
    }

    fn unreadable_request(&mut self, method: &str, id: &Value) {
        self.gap(format!("a request {method:?} could not be read"));
        self.refuse_request(id, "the request could not be read");
    }

    fn refuse_request(&mut self, id: &Value, message: &str) {
        self.write(&json!({"id": id, "error": {"code": UNKNOWN_METHOD, "message": message}}));
    }

    fn command_asked(&mut self, id: Value, params: AskParams) {
        let mut decisions = decisions();
        let offered = params.available_decisions.as_deref().unwrap_or_default();
        // Rules that Codex keeps in a file, for all sessions.
        let rules = offered.iter().filter(|decision| decision.is_object());
        let mut options = options();
        for (place, decision) in rules.enumerate() {
            let Some(name) = covers(decision) else { continue };
            let id = format!("rule-{}", place + 1);
            options.insert(2, option(&id, OptionKind::AllowAlways, &name));
            decisions.push((id, json!({"decision": decision})));
        }
        let mut tool = match &params.network_approval_context {
            Some(network) => tools::asked_connection(&network.host, network.protocol.as_deref()),
            None => {
                let command = params.command.as_deref().unwrap_or_default();
                let actions = params.command_actions.as_deref().unwrap_or_default();
                tools::asked_command(command, params.cwd.as_deref(), actions)
            }
        };
        add_reason(&mut tool, params.reason.as_deref());
        self.asked(id, &params, (tool, options), decisions);
    }

    /// The request has no diff: the item has it, and comes before (capture `d_file_change_accept`).
    fn file_change_asked(&mut self, id: Value, params: AskParams) {
        let title = match &params.grant_root {
            Some(root) => format!("Change files below {root}"),
            None => "Change files".to_owned(),
        };
        let mut tool = Tool { kind: Some(ToolKind::Edit), title: Some(title), ..Tool::default() };
        add_reason(&mut tool, params.reason.as_deref());
        self.asked(id, &params, (tool, options()), decisions());
    }

    fn permissions_asked(&mut self, id: Value, params: AskParams) {
        let wanted = params.permissions.clone().unwrap_or_default();
        let title = Some("Get more permissions".to_owned());
        let input = Some(wanted.clone());
        let mut tool = Tool { kind: Some(ToolKind::Other), title, input, ..Tool::default() };
        add_reason(&mut tool, params.reason.as_deref());
        let options = vec![
            option(ONCE, OptionKind::AllowOnce, "Allow for this turn"),
            option(SESSION, OptionKind::AllowAlways, "Allow for this session"),
            option(REJECT, OptionKind::RejectOnce, "Reject"),
        ];
        let results = [(ONCE, &wanted, "turn"), (SESSION, &wanted, "session"), (REJECT, &json!({}), "turn")]
            .map(|(id, granted, scope)| (id.to_owned(), json!({"permissions": granted, "scope": scope})));
        self.asked(id, &params, (tool, options), results.into());
    }

    fn questions_asked(&mut self, id: Value, mut params: AskParams) {
        let questions = std::mem::take(&mut params.questions).into_iter().map(question).collect();
        self.begin_turn_of(&params);
        if let Some(key) = self.keep_ask(id, &params, None, Wants::Answers) {
            self.signal(Signal::Question { key, item: None, questions });
        }
    }

    /// A permission: what it is for, its options, and the results of these.
    fn asked(
        &mut self,
        id: Value,
        params: &AskParams,
        (tool, options): (Tool, Vec<ApprovalOption>),
        results: Vec<(String, Value)>,
    ) {
        self.begin_turn_of(params);
        let item = self.open_item(&params.turn_id, &params.item_id);
        self.ask(id, params, item, (tool, options), results);
    }

    /// Asks for a permission in a turn that has begun.
    pub(super) fn ask(
        &mut self,
        id: Value,
        params: &AskParams,
        item: Option<Key>,
        (tool, options): (Tool, Vec<ApprovalOption>),
        results: Vec<(String, Value)>,
    ) {
        let Some(key) = self.keep_ask(id, params, item.clone(), Wants::Choice(results)) else { return };
        self.signal(Signal::Ask { key, item, tool: Some(tool), options });
    }

    /// The turn ends, and with it its open requests. What was not allowed did not run.
    pub(super) fn end_asks(&mut self, turn: &str) {
        let of_turn = self.asks.extract_if(|_, ask| ask.turn == turn);
        let items: Vec<Key> = of_turn.filter_map(|(_, ask)| ask.item).collect();
        for key in items {
            let (state, reason) = (ItemState::Abandoned, Some("not allowed".to_owned()));
            self.signal(Signal::ItemEnded { key, state, reason });
        }
    }

    pub(super) fn begin_turn_of(&mut self, params: &AskParams) {
        if params.thread_id == self.thread && !self.has_ended(&params.turn_id) {
            self.begin_turn(&params.turn_id, None);
        }
    }

    /// Keeps a request. `None` for one that was repeated, or that is of a turn that has ended.
    pub(super) fn keep_ask(
        &mut self,
        request: Value,
        params: &AskParams,
        item: Option<Key>,
        wants: Wants,
    ) -> Option<Key> {
        let name = request.to_string();
        if self.has_ended(&params.turn_id) || self.asks.contains_key(&name) {
            return None;
        }
        let key = Key::from(format!("{}:ask-{name}", params.turn_id));
        let turn = params.turn_id.clone();
        self.asks.insert(name, OpenAsk { key: key.clone(), request, turn, item, wants });
        Some(key)
    }

    /// The server no longer waits for an answer. If we gave one, the request is not open any more.
    pub(super) fn resolved(&mut self, request: &Value) {
        let Some(ask) = self.asks.remove(&request.to_string()) else { return };
        match ask.wants {
            Wants::Answers | Wants::Form(_) => {
                let outcome = QuestionOutcome::Cancelled;
                self.signal(Signal::QuestionClosed { key: ask.key, outcome, answers: None });
            }
            Wants::Choice(_) => {
                self.signal(Signal::AskClosed { key: ask.key, outcome: ApprovalOutcome::Cancelled });
            }
        }
    }

    fn take_ask(&mut self, key: &Key) -> Option<OpenAsk> {
        let name = self.asks.iter().find(|(_, ask)| ask.key == *key)?.0.clone();
        self.asks.remove(&name)
    }

    pub(super) fn approve(&mut self, key: &Key, outcome: ApprovalOutcome, option: Option<&str>) {
        // An answer that is late or repeated is for nobody.
        let Some(ask) = self.take_ask(key) else { return };
        let usual = match outcome {
            ApprovalOutcome::AllowOnce => ONCE,
            ApprovalOutcome::AllowAlways => SESSION,
            ApprovalOutcome::Reject | ApprovalOutcome::Expired | ApprovalOutcome::Lost => REJECT,
            ApprovalOutcome::Cancelled => STOP,
        };
        let Wants::Choice(results) = ask.wants else { return };
        let least = match outcome {
            ApprovalOutcome::AllowOnce | ApprovalOutcome::AllowAlways => ONCE,
            ApprovalOutcome::Reject
            | ApprovalOutcome::Expired
            | ApprovalOutcome::Lost
            | ApprovalOutcome::Cancelled => REJECT,
        };
        let find = |id| results.iter().find(|(option, _)| option == id);
        let chosen = [option.unwrap_or(usual), usual, least].into_iter().find_map(find);
        if let Some((_, result)) = chosen {
            self.write(&json!({"id": ask.request, "result": result}));
        }
    }

    pub(super) fn answer(
        &mut self,
        key: &Key,
        outcome: QuestionOutcome,
        answers: Option<Map<String, Value>>,
    ) {
        let Some(ask) = self.take_ask(key) else { return };
        if let Wants::Form(form) = &ask.wants {
            let answer = form.answer(outcome, &answers.unwrap_or_default());
            let result = json!({"action": answer["action"], "content": answer["content"], "_meta": null});
            return self.write(&json!({"id": ask.request, "result": result}));
        }
        let given = match outcome {
            QuestionOutcome::Answered => answers.unwrap_or_default(),
            QuestionOutcome::Rejected
            | QuestionOutcome::Cancelled
            | QuestionOutcome::Expired
            | QuestionOutcome::Lost => Map::new(),
        };
        let list = |answer: Value| match answer {
            Value::Array(labels) => json!({"answers": labels}),
            label => json!({"answers": [label]}),
        };
        let answers: Map<String, Value> = given.into_iter().map(|(id, answer)| (id, list(answer))).collect();
        self.write(&json!({"id": ask.request, "result": {"answers": answers}}));
    }

    /// The name of a request of the server that is open.
    #[cfg(test)]
    pub(super) fn key_of_ask(&self, request: &Value) -> Option<Key> {
        self.asks.get(&request.to_string()).map(|ask| ask.key.clone())
    }

    /// Whether a request with this name is open.
    pub(super) fn waits_for(&self, key: &Key) -> bool {
        self.asks.values().any(|ask| ask.key == *key)
    }
}

/// The decisions that every permission for a command or a file takes, also when Codex does not list them
/// (capture `d_command_decline`).
fn decisions() -> Vec<(String, Value)> {
    let decision = |id: &str, word: &str| (id.to_owned(), json!({"decision": word}));
    vec![
        decision(ONCE, "accept"),
        decision(SESSION, "acceptForSession"),
        decision(REJECT, "decline"),
        decision(STOP, "cancel"),
    ]
}

fn options() -> Vec<ApprovalOption> {
    vec![
        option(ONCE, OptionKind::AllowOnce, "Allow once"),
        option(SESSION, OptionKind::AllowAlways, "Allow for this session"),
        option(REJECT, OptionKind::RejectOnce, "Reject"),
        option(STOP, OptionKind::RejectOnce, "Reject, and stop the turn"),
    ]
}

pub(super) fn option(id: &str, kind: OptionKind, name: &str) -> ApprovalOption {
    ApprovalOption { id: id.to_owned(), kind, name: name.to_owned(), extra: Map::new() }
}

/// What a rule allows from now on; `None` for one that this version cannot describe.
fn covers(decision: &Value) -> Option<String> {
    let words = |list: &Value| {
        let words: Vec<&str> = list.as_array()?.iter().filter_map(Value::as_str).collect();
        Some(words.join(" ")).filter(|words| !words.is_empty())
    };
    if let Some(rule) = decision.get("acceptWithExecpolicyAmendment") {
        let command = words(rule.get("execpolicy_amendment")?)?;
        return Some(format!("Always allow commands that begin with {command}"));
    }
    let rule = decision.get("applyNetworkPolicyAmendment")?.get("network_policy_amendment")?;
    let allows = rule.get("action")?.as_str()? == "allow";
    allows.then(|| Some(format!("Always allow connections to {}", rule.get("host")?.as_str()?)))?
}

pub(super) fn add_reason(tool: &mut Tool, reason: Option<&str>) {
    if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
        let text = json!({"type": "text", "text": reason});
        tool.content = Some(vec![json!({"type": "content", "content": text})]);
    }
}

fn question(asked: AskedQuestion) -> Question {
    let with = |name: &str, text: String| {
        let mut extra = Map::new();
        if !text.is_empty() {
            extra.insert(name.to_owned(), Value::from(text));
        }
        extra
    };
    let mut extra = with("header", asked.header);
    if asked.is_secret {
        extra.insert("secret".to_owned(), Value::Bool(true));
    }
    let options = asked.options.unwrap_or_default().into_iter();
    let options: Vec<Choice> = options
        .map(|choice| Choice { label: choice.label, extra: with("description", choice.description) })
        .collect();
    let custom = asked.is_other || options.is_empty();
    Question { id: asked.id, text: asked.question, options, multiple: false, custom, extra }
}
