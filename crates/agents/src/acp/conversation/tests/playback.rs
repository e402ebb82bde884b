//! Plays a capture of an ACP agent. Its driver had its own request ids, so the agent's answers get ours.

use super::super::{Conversation, ConversationSettings};
use crate::desk::{Driver, talks};
use serde_json::{Map, Value};
use turnstream_model::event::ApprovalOutcome;
use turnstream_model::time::Time;

pub(super) const EPOCH: &str = "e1";

talks!(Conversation);

/// A conversation with an ACP agent.
pub(super) type Desk = crate::desk::Desk<Conversation>;

/// The requests of the driver: method and id.
#[derive(Default)]
pub(super) struct Playback(Vec<(String, Value)>);

/// A conversation that begins a session, or goes on with one.
pub(super) fn conversation(native_id: Option<String>, epoch: &str) -> Conversation {
    let (cwd, epoch) = ("/workspace".to_owned(), epoch.to_owned());
    Conversation::new(ConversationSettings { cwd, native_id, epoch, ..ConversationSettings::default() })
}

impl Desk {
    pub(super) fn new() -> Self {
        Self::with("acp", || conversation(None, EPOCH))
    }
}

impl Driver for Playback {
    type Conversation = Conversation;
    const FOLDER: &'static str = "acp";
    const GARBAGE: &'static str = "{\"jsonrpc\":\"2.";

    fn desk() -> Desk {
        Desk::new()
    }

    /// Another process has another epoch, and goes on with the session.
    fn next_process(&mut self, desk: &mut Desk) {
        desk.exit();
        desk.conversation = conversation(desk.state().session.native_id, "e2");
        desk.drain();
    }

    fn oversized(desk: &mut Desk, bytes: u64) {
        desk.conversation.oversized(bytes, Time(desk.now));
    }

    fn drive(&mut self, desk: &mut Desk, line: &Value, count: usize) {
        let params = &line["params"];
        match line["method"].as_str() {
            Some("session/prompt") => {
                desk.prompt(&format!("prompt-{count}"), params["prompt"].as_array().unwrap().clone());
            }
            Some("session/cancel") => desk.cancel(),
            // The conversation begins by itself.
            Some(_) => {}
            None => respond(desk, &line["id"], &line["result"]),
        }
        if let (Some(method), Some(id)) = (line["method"].as_str(), line.get("id")) {
            // A driver may load what we resume.
            let method = if method == "session/load" { "session/resume" } else { method };
            self.0.push((method.to_owned(), id.clone()));
        }
    }

    /// The n-th request of a method is the n-th one that we have sent.
    fn answered(&self, desk: &Desk, line: &Value) -> Value {
        let mut line = line.clone();
        if line.get("method").is_none() {
            let place = self.0.iter().position(|(_, id)| *id == line["id"]);
            if let Some(place) = place {
                let method = &self.0[place].0;
                let before = self.0[..place].iter().filter(|(other, _)| other == method).count();
                let mut ours = desk.written.iter().filter(|line| line["method"] == method.as_str());
                // Not sent yet: an answer that is for nobody.
                line["id"] = ours.nth(before).map_or(Value::from("none"), |line| line["id"].clone());
            }
        }
        line
    }
}

/// The driver's answer to a permission or a form.
fn respond(desk: &mut Desk, id: &Value, result: &Value) {
    let key = format!("{EPOCH}:request:{id}");
    let outcome = &result["outcome"];
    match outcome["optionId"].as_str() {
        Some(option) => {
            let outcome = match option {
                "allow_always" | "always" => ApprovalOutcome::AllowAlways,
                "allow" | "approved" | "once" | "allow_once" => ApprovalOutcome::AllowOnce,
                _ => ApprovalOutcome::Reject,
            };
            desk.approve(&key, outcome, Some(option));
        }
        None if outcome.is_object() => desk.approve(&key, ApprovalOutcome::Cancelled, None),
        None => {
            let answers = (result["action"] == "accept").then(|| answers(&result["content"]));
            desk.answer(&key, answers);
        }
    }
}

fn answers(content: &Value) -> Map<String, Value> {
    let list =
        |value: &Value| if value.is_array() { value.clone() } else { Value::from(vec![value.clone()]) };
    let content = content.as_object().into_iter().flatten();
    content.map(|(name, value)| (name.clone(), list(value))).collect()
}
