//! Permissions and questions of the agent, and their answers. Their ids are the agent's request ids.

use super::{Conversation, KnownCall};
use crate::claude::tools::Call;
use crate::claude::wire::{ControlRequest, Line};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use turnstream_model::event::{
    ApprovalOption, ApprovalOutcome, Choice, OptionKind, Question, QuestionOutcome, ToolStatus,
};
use turnstream_model::id::Key;
use turnstream_model::signal::Signal;

/// The tool whose permission is a question.
const QUESTION_TOOL: &str = "AskUserQuestion";

/// A request of the agent that waits for an answer.
pub(super) struct OpenAsk {
    tool_use_id: Option<String>,
    input: Value,
    /// What may be allowed beyond this call, in the order of the options.
    suggestions: Vec<Value>,
    is_question: bool,
}

impl OpenAsk {
    /// Whether it is about one of these calls.
    pub(super) fn is_of(&self, calls: &HashMap<String, KnownCall>) -> bool {
        self.tool_use_id.as_ref().is_some_and(|call| calls.contains_key(call))
    }
}

/// A question as the agent writes it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AskedQuestion {
    question: String,
    header: String,
    options: Vec<AskedChoice>,
    #[serde(rename = "multiSelect")]
    multiple: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AskedChoice {
    label: String,
    description: String,
}

impl Conversation {
    pub(super) fn control_request(&mut self, line: Line<'_>) {
        let (Some(id), Some(request)) = (line.request_id, line.request) else { return };
        if request.subtype == "can_use_tool" {
            self.asked(id, request);
        } else {
            self.unknown(format!("control_request/{}", request.subtype));
            self.refuse_request(&id, &format!("the request {:?} is not supported", request.subtype));
        }
    }

    /// Answers a request of the agent with an error.
    pub(super) fn refuse_request(&mut self, id: &str, error: &str) {
        let response = json!({"subtype": "error", "request_id": id, "error": error});
        self.write(&json!({"type": "control_response", "response": response}));
    }

    fn asked(&mut self, id: String, request: ControlRequest) {
        let ControlRequest { tool_name, input, permission_suggestions, tool_use_id, agent_id, .. } = request;
        let call = Call::new(&tool_name, Some(input.clone()));
        let tool = call.describe(ToolStatus::Pending);
        match &tool_use_id {
            // The permission may come before the line that shows the call (capture j_subagent_permission).
            Some(call_id) if !self.calls.contains_key(call_id) => {
                let parent = agent_id.as_ref().and_then(|task| self.tasks.get(task)).cloned();
                if parent.is_none() {
                    self.begin_turn();
                }
                self.see_call(&Key::from(call_id.as_str()), call, ToolStatus::Pending, parent);
            }
            Some(_) => {}
            None => self.begin_turn(),
        }
        let (key, item) = (Key::from(id.as_str()), tool_use_id.as_deref().map(Key::from));
        let questions = (tool_name == QUESTION_TOOL).then(|| questions(&input)).flatten();
        let suggestions: Vec<Value> =
            permission_suggestions.into_iter().filter(|suggestion| covers(suggestion).is_some()).collect();
        let options = options(&suggestions);
        let is_question = questions.is_some();
        self.asks.insert(id, OpenAsk { tool_use_id, input, suggestions, is_question });
        match questions {
            Some(questions) => self.signal(Signal::Question { key, item, questions }),
            None => self.signal(Signal::Ask { key, item, tool: Some(tool), options }),
        }
    }

    /// The agent no longer waits for the answer.
    pub(super) fn ask_withdrawn(&mut self, id: &str) {
        let Some(ask) = self.asks.remove(id) else { return };
        let key = Key::from(id);
        if ask.is_question {
            let outcome = QuestionOutcome::Cancelled;
            self.signal(Signal::QuestionClosed { key, outcome, answers: None });
        } else {
            self.signal(Signal::AskClosed { key, outcome: ApprovalOutcome::Cancelled });
        }
        self.never_runs(ask.tool_use_id);
    }

    pub(super) fn approve(
        &mut self,
        key: &Key,
        outcome: ApprovalOutcome,
        option: Option<&str>,
        message: Option<String>,
    ) {
        // An answer that is late or repeated is for nobody.
        let Some(ask) = self.asks.remove(key.as_str()) else { return };
        match outcome {
            ApprovalOutcome::AllowOnce => self.allow(key, ask, None),
            ApprovalOutcome::AllowAlways => {
                let chosen =
                    option.and_then(|option| (0..ask.suggestions.len()).find(|at| always(*at) == option));
                let rule = ask.suggestions.get(chosen.unwrap_or(0)).cloned();
                self.allow(key, ask, rule);
            }
            ApprovalOutcome::Reject => self.deny(key, ask, message, "The user rejected this tool use."),
            ApprovalOutcome::Cancelled => self.deny(key, ask, message, "The user cancelled the turn."),
            ApprovalOutcome::Expired => self.deny(key, ask, message, "Nobody answered in time."),
            ApprovalOutcome::Lost => self.deny(key, ask, message, "The request was lost."),
        }
    }

    pub(super) fn answer(
        &mut self,
        key: &Key,
        outcome: QuestionOutcome,
        answers: Option<Map<String, Value>>,
    ) {
        let Some(mut ask) = self.asks.remove(key.as_str()) else { return };
        match outcome {
            QuestionOutcome::Answered => {
                let answers = by_question(&ask.input, &answers.unwrap_or_default());
                if let Some(input) = ask.input.as_object_mut() {
                    input.insert("answers".to_owned(), Value::Object(answers));
                }
                self.allow(key, ask, None);
            }
            QuestionOutcome::Rejected | QuestionOutcome::Cancelled => {
                self.deny(key, ask, None, "The user declined to answer.");
            }
            QuestionOutcome::Expired | QuestionOutcome::Lost => {
                self.deny(key, ask, None, "Nobody answered in time.");
            }
        }
    }

    fn allow(&mut self, key: &Key, ask: OpenAsk, rule: Option<Value>) {
        let mut response = json!({"behavior": "allow", "updatedInput": ask.input});
        if let (Some(members), Some(rule)) = (response.as_object_mut(), rule) {
            members.insert("updatedPermissions".to_owned(), json!([rule]));
        }
        self.respond(key, ask.tool_use_id, response);
    }

    fn deny(&mut self, key: &Key, ask: OpenAsk, message: Option<String>, reason: &str) {
        let message = message.filter(|message| !message.is_empty()).unwrap_or_else(|| reason.to_owned());
        self.never_runs(ask.tool_use_id.clone());
        self.respond(key, ask.tool_use_id, json!({"behavior": "deny", "message": message}));
    }

    fn respond(&mut self, key: &Key, tool_use_id: Option<String>, mut response: Value) {
        if let (Some(members), Some(id)) = (response.as_object_mut(), tool_use_id) {
            members.insert("toolUseID".to_owned(), Value::from(id));
        }
        let response = json!({"subtype": "success", "request_id": key.as_str(), "response": response});
        self.write(&json!({"type": "control_response", "response": response}));
    }

    fn never_runs(&mut self, tool_use_id: Option<String>) {
        if let (Some(turn), Some(id)) = (&mut self.turn, tool_use_id) {
            turn.refused.insert(id);
        }
    }
}

/// The id of the option for the suggestion at this place.
fn always(place: usize) -> String {
    match place {
        0 => "always".to_owned(),
        _ => format!("always-{}", place + 1),
    }
}

fn options(suggestions: &[Value]) -> Vec<ApprovalOption> {
    let option = |id: String, kind, name: String| ApprovalOption { id, kind, name, extra: Map::new() };
    let mut options = vec![option("once".to_owned(), OptionKind::AllowOnce, "Allow once".to_owned())];
    let names = suggestions.iter().filter_map(covers);
    options
        .extend(names.enumerate().map(|(place, name)| option(always(place), OptionKind::AllowAlways, name)));
    options.push(option("reject".to_owned(), OptionKind::RejectOnce, "Reject".to_owned()));
    options
}

/// What a suggestion allows from now on; `None` for one that this version cannot describe.
fn covers(suggestion: &Value) -> Option<String> {
    let text = |member: &str| suggestion.get(member).and_then(Value::as_str);
    let list = |member: &str| suggestion.get(member).and_then(Value::as_array);
    // Other destinations are files, which later sessions read too.
    let scope = if text("destination") == Some("session") { " in this session" } else { "" };
    match text("type")? {
        "addRules" if text("behavior") == Some("allow") => {
            let rule = |rule: &Value| {
                let tool = rule.get("toolName")?.as_str()?;
                let content = rule.get("ruleContent").and_then(Value::as_str);
                Some(content.map_or_else(|| tool.to_owned(), |content| format!("{tool}({content})")))
            };
            let rules: Vec<String> = list("rules")?.iter().filter_map(rule).collect();
            (!rules.is_empty()).then(|| format!("Always allow {}{scope}", rules.join(", ")))
        }
        "addDirectories" => {
            let paths: Vec<&str> = list("directories")?.iter().filter_map(Value::as_str).collect();
            (!paths.is_empty()).then(|| format!("Allow access to {}{scope}", paths.join(", ")))
        }
        "setMode" => Some(format!("Switch to the mode {}{scope}", text("mode")?)),
        _ => None,
    }
}

fn asked_questions(input: &Value) -> Option<Vec<AskedQuestion>> {
    input.get("questions").map(Vec::<AskedQuestion>::deserialize)?.ok().filter(|asked| !asked.is_empty())
}

/// The questions. Their ids are their places.
fn questions(input: &Value) -> Option<Vec<Question>> {
    let with = |name: &str, text: String| {
        let mut extra = Map::new();
        if !text.is_empty() {
            extra.insert(name.to_owned(), Value::from(text));
        }
        extra
    };
    let choice =
        |choice: AskedChoice| Choice { label: choice.label, extra: with("description", choice.description) };
    let question = |(place, asked): (usize, AskedQuestion)| Question {
        id: place.to_string(),
        text: asked.question,
        options: asked.options.into_iter().map(choice).collect(),
        multiple: asked.multiple,
        custom: true,
        extra: with("header", asked.header),
    };
    Some(asked_questions(input)?.into_iter().enumerate().map(question).collect())
}

/// The answers by the text of their question. Several labels are one text.
fn by_question(input: &Value, answers: &Map<String, Value>) -> Map<String, Value> {
    let label = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let answer = |(place, asked): (usize, AskedQuestion)| {
        let given = answers.get(&place.to_string())?;
        let text = match given {
            Value::Array(labels) => labels.iter().map(label).collect::<Vec<_>>().join(", "),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                label(given)
            }
        };
        Some((asked.question, Value::from(text)))
    };
    asked_questions(input).unwrap_or_default().into_iter().enumerate().filter_map(answer).collect()
}
