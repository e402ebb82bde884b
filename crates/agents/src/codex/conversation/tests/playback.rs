//! What the drivers of Codex's captures did, as commands of a keeper.

use super::super::{Conversation, ConversationSettings};
use crate::desk::{Driver, talks};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use turnstream_adapter::Command;
use turnstream_model::event::ApprovalOutcome;
use turnstream_model::time::Time;

pub(super) type Desk = crate::desk::Desk<Conversation>;

talks!(Conversation);

/// Drives a capture.
#[derive(Default)]
pub(super) struct Playback {
    /// Our ids of requests, by those of the capture.
    requests: HashMap<u64, u64>,
    /// The thread of the capture.
    thread: Option<String>,
}

pub(super) fn conversation() -> Conversation {
    let settings = ConversationSettings { cwd: "/workspace".to_owned(), ..ConversationSettings::default() };
    Conversation::new(settings)
}

impl Driver for Playback {
    type Conversation = Conversation;
    const FOLDER: &'static str = "codex";
    const GARBAGE: &'static str = "{\"method\":\"item/st";

    fn desk() -> Desk {
        Desk::with("codex", conversation)
    }

    fn drive(&mut self, desk: &mut Desk, line: &Value, place: usize) {
        let params = &line["params"];
        let text = |member: &str| params[member].as_str().map(str::to_owned);
        let thread = text("threadId");
        let before = desk.written.len();
        let sent = match line["method"].as_str() {
            Some("initialize") => {
                desk.conversation.open(self.thread.clone(), Time(desk.now));
                desk.drain();
                before
            }
            // The conversation has sent it when the server had answered.
            Some("thread/start") if self.thread.is_none() => before.saturating_sub(1),
            Some("thread/resume") => before.saturating_sub(1),
            Some("turn/start") if self.thread.is_none() || thread == self.thread => {
                self.thread = thread;
                let name = text("clientUserMessageId").unwrap_or_else(|| format!("prompt-{place}"));
                desk.prompt(&name, params["input"].as_array().unwrap().iter().map(block).collect());
                before
            }
            Some("turn/interrupt") => {
                desk.cancel();
                before
            }
            // Another thread, or a request that a keeper never sends.
            Some(_) => return,
            None => return self.answer(desk, line),
        };
        let ours = desk.written.get(sent).and_then(|written| written["id"].as_u64());
        if let (Some(of_capture), Some(ours)) = (line["id"].as_u64(), ours) {
            self.requests.insert(of_capture, ours);
        }
    }

    fn answered(&self, _desk: &Desk, line: &Value) -> Value {
        let mut line = line.clone();
        let is_response = line["method"].is_null();
        let ours = line["id"].as_u64().filter(|_| is_response).map(|id| self.requests.get(&id));
        if let Some(ours) = ours {
            // A response to a request that we did not send is for nobody.
            line["id"] = ours.map_or_else(|| Value::from(u32::MAX), |id| Value::from(*id));
        }
        line
    }

    fn next_process(&mut self, desk: &mut Desk) {
        desk.exit();
        desk.restart();
        self.requests.clear();
    }

    fn oversized(desk: &mut Desk, bytes: u64) {
        panic!("a message of {bytes} bytes breaks the connection of {:?}", desk.now);
    }
}

impl Playback {
    /// The driver answered a request of the server.
    fn answer(&self, desk: &mut Desk, line: &Value) {
        let Some(key) = desk.conversation.key_of_ask(&line["id"]) else { return };
        let (key, result) = (key.as_str().to_owned(), &line["result"]);
        if desk.question(&key).is_some() {
            return desk.answer(&key, answers(result));
        }
        let decision = if result["decision"].is_null() { &result["action"] } else { &result["decision"] };
        let persist = result["_meta"]["persist"].as_str();
        match decision.as_str() {
            Some("accept") if persist.is_some() => desk.approve(&key, ApprovalOutcome::AllowAlways, persist),
            Some("accept") => desk.approve(&key, ApprovalOutcome::AllowOnce, None),
            Some("acceptForSession") => desk.approve(&key, ApprovalOutcome::AllowAlways, None),
            Some("decline") => desk.approve(&key, ApprovalOutcome::Reject, None),
            Some("cancel") => desk.approve(&key, ApprovalOutcome::Reject, Some("stop")),
            Some(other) => panic!("the decision {other}"),
            None if decision.is_object() => desk.approve(&key, ApprovalOutcome::AllowAlways, Some("rule-1")),
            None => {
                assert_eq!(result["scope"], "turn");
                desk.approve(&key, ApprovalOutcome::AllowOnce, None);
            }
        }
    }
}

/// A part of a prompt in the form of the log. Codex has images as addresses.
fn block(part: &Value) -> Value {
    let image = part["url"].as_str().and_then(|url| url.strip_prefix("data:")?.split_once(";base64,"));
    match image {
        Some((kind, data)) => json!({"type": "image", "mimeType": kind, "data": data}),
        None => part.clone(),
    }
}

/// The answers that a person gave to questions, or to the fields of a form; `None` for one that was declined.
fn answers(result: &Value) -> Option<Map<String, Value>> {
    let label = |value: &Value| match value {
        Value::Bool(true) => Value::from("Yes"),
        Value::Bool(false) => Value::from("No"),
        Value::String(text) => Value::from(text.as_str()),
        other => Value::from(other.to_string()),
    };
    if let Some(content) = result["content"].as_object() {
        return Some(content.iter().map(|(name, value)| (name.clone(), label(value))).collect());
    }
    let answers = result["answers"].as_object()?.iter();
    Some(answers.map(|(id, answer)| (id.clone(), answer["answers"].clone())).collect())
}

/// What the keeper asks for.
pub(super) fn change(model: Option<&str>, mode: Option<&str>) -> Command {
    let (model, mode) = (model.map(str::to_owned), mode.map(str::to_owned));
    Command::Change { model, mode, permissions: None }
}
