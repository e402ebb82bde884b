//! Permissions of the agent, and their answers. Agents count their request ids from zero in each process, so
//! the key has the epoch in it.

use super::Conversation;
use super::lines::BAD_PARAMS;
use super::tool_keys::Mention;
use crate::acp::{tools, wire};
use serde_json::{Map, Value, json};
use turnstream_model::event::{
    ApprovalOption, ApprovalOutcome, NoticeCode, OptionKind, QuestionOutcome, ToolStatus,
};
use turnstream_model::id::Key;
use turnstream_model::signal::Signal;

/// A permission that waits for an answer.
pub(super) struct OpenAsk {
    /// The agent's request id.
    id: Value,
    options: Vec<ApprovalOption>,
}

impl Conversation {
    /// The key of a request of the agent.
    pub(super) fn key_of(&self, id: &Value) -> Key {
        Key::from(format!("{}:request:{id}", self.settings.epoch))
    }

    pub(super) fn permission(&mut self, id: Value, mut params: Map<String, Value>) {
        let call = match params.remove("toolCall") {
            Some(Value::Object(call)) => call,
            Some(_) | None => {
                return self.refuse(&id, BAD_PARAMS, "the request has no toolCall".to_owned());
            }
        };
        // A history has no requests.
        self.end_history();
        let options = options(params.get("options"));
        let key = self.key_of(&id);
        if self.asks.contains_key(&key) {
            return;
        }
        let call_id = wire::text(&call, "toolCallId").map(str::to_owned);
        let item = call_id.as_deref().map(|id| self.tool_key(id, Mention::Announcement));
        let parent = tools::parent(&call).map(|parent| self.tool_key(parent, Mention::Update));
        // The call may be shown only here (capture codex_permission_reject).
        let tool = tools::tool(call, Some(ToolStatus::Pending));
        if let Some(key) = item.clone() {
            if parent.is_none() {
                self.end_text();
            }
            let mut seen = tool.clone();
            // A call that is known may run already.
            if call_id.is_some_and(|id| self.running_tools.contains(&id)) {
                seen.status = None;
            }
            self.signal(Signal::ToolSeen { key, parent, tool: seen });
        }
        if self.is_cancelled() {
            return self.respond(&id, Ok(json!({"outcome": {"outcome": "cancelled"}})));
        }
        self.asks.insert(key.clone(), OpenAsk { id, options: options.clone() });
        self.signal(Signal::Ask { key, item, tool: Some(tool), options });
    }

    pub(super) fn approve(&mut self, key: &Key, outcome: ApprovalOutcome, option: Option<&str>) {
        // An answer that is late or repeated is for nobody.
        let Some(ask) = self.asks.remove(key) else { return };
        let first = |kinds: &[OptionKind]| {
            kinds.iter().find_map(|kind| ask.options.iter().find(|option| option.kind == *kind))
        };
        let chosen = option.and_then(|id| ask.options.iter().find(|option| option.id == id));
        let chosen = chosen.or_else(|| match outcome {
            ApprovalOutcome::AllowOnce => first(&[OptionKind::AllowOnce]),
            ApprovalOutcome::AllowAlways => first(&[OptionKind::AllowAlways, OptionKind::AllowOnce]),
            ApprovalOutcome::Reject => first(&[OptionKind::RejectOnce, OptionKind::RejectAlways]),
            ApprovalOutcome::Cancelled | ApprovalOutcome::Expired | ApprovalOutcome::Lost => None,
        });
        if outcome == ApprovalOutcome::Reject
            && let Some(prompt) = &mut self.prompt
        {
            prompt.rejected = true;
        }
        let answer = match chosen {
            Some(option) => json!({"outcome": "selected", "optionId": option.id}),
            None => {
                if matches!(outcome, ApprovalOutcome::AllowOnce | ApprovalOutcome::AllowAlways) {
                    let message =
                        "the agent offers no option that allows this once; it was told \"cancelled\"";
                    self.notice(NoticeCode::Degraded, message.to_owned());
                }
                json!({"outcome": "cancelled"})
            }
        };
        self.respond(&ask.id, Ok(json!({"outcome": answer})));
    }

    /// The prompt was cancelled. A request that crosses the cancel is answered at once, as open ones were.
    pub(super) fn is_cancelled(&self) -> bool {
        self.prompt.as_ref().is_some_and(|prompt| prompt.cancelled)
    }

    /// Answers everything that is open, because the turn is cancelled or over.
    pub(super) fn cancel_asks(&mut self) {
        for (_, ask) in std::mem::take(&mut self.asks) {
            self.respond(&ask.id, Ok(json!({"outcome": {"outcome": "cancelled"}})));
        }
        for (_, form) in std::mem::take(&mut self.forms) {
            self.respond(form.id(), Ok(json!({"action": "cancel"})));
        }
    }

    /// The agent no longer waits for the answer.
    pub(super) fn ask_withdrawn(&mut self, id: &Value) {
        let key = self.key_of(id);
        if self.asks.remove(&key).is_some() {
            self.signal(Signal::AskClosed { key, outcome: ApprovalOutcome::Cancelled });
        } else if self.forms.remove(&key).is_some() {
            let (outcome, answers) = (QuestionOutcome::Cancelled, None);
            self.signal(Signal::QuestionClosed { key, outcome, answers });
        }
    }
}

/// The options. One of a kind that is not known cannot be chosen by an outcome, and is left out.
fn options(options: Option<&Value>) -> Vec<ApprovalOption> {
    let option = |option: &Value| {
        let kind = match option["kind"].as_str()? {
            "allow_once" => OptionKind::AllowOnce,
            "allow_always" => OptionKind::AllowAlways,
            "reject_once" => OptionKind::RejectOnce,
            "reject_always" => OptionKind::RejectAlways,
            _ => return None,
        };
        let id = option["optionId"].as_str()?.to_owned();
        let name = option["name"].as_str().unwrap_or(&id).to_owned();
        let extra = wire::others(option, &["optionId", "name", "kind"]);
        Some(ApprovalOption { id, kind, name, extra })
    };
    options.and_then(Value::as_array).into_iter().flatten().filter_map(option).collect()
}
