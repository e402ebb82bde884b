//! Plays a capture of an ACP agent. Its driver had its own request ids, so the agent's answers get ours.

use super::super::{Conversation, ConversationSettings};
use crate::playback::{Played, decoder};
use serde_json::{Map, Value};
use turnstream_model::event::ApprovalOutcome;

pub(super) const EPOCH: &str = "e1";

decoder!(Conversation, "acp", |native_id: Option<String>| {
    // Another process has another epoch.
    let epoch = if native_id.is_none() { EPOCH } else { "e2" }.to_owned();
    let cwd = "/workspace".to_owned();
    Conversation::new(ConversationSettings { cwd, native_id, epoch, ..ConversationSettings::default() })
});

/// A conversation with an ACP agent.
pub(super) type Desk = crate::playback::Desk<Conversation>;

/// A capture of an ACP agent.
pub(super) type Capture = crate::playback::Capture<Conversation>;

/// The requests of the driver: method and id.
#[derive(Default)]
pub(crate) struct Requests(Vec<(String, Value)>);

impl Played for Conversation {
    type Ids = Requests;

    fn drive(desk: &mut Desk, line: &Value, count: usize, requests: &mut Requests) {
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
            requests.0.push((method.to_owned(), id.clone()));
        }
    }

    /// The n-th request of a method is the n-th one that we have sent.
    fn answered(desk: &Desk, line: &Value, requests: &Requests) -> Value {
        let mut line = line.clone();
        if line.get("method").is_none() {
            let place = requests.0.iter().position(|(_, id)| *id == line["id"]);
            if let Some(place) = place {
                let method = &requests.0[place].0;
                let before = requests.0[..place].iter().filter(|(other, _)| other == method).count();
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
