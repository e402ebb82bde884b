//! Plays a capture: what its driver wrote becomes commands, what the agent printed is read, with faults.

use super::super::{Conversation, ConversationSettings};
use crate::playback::{Played, decoder};
use serde_json::{Map, Value};
use std::collections::HashMap;
use turnstream_adapter::Command;
use turnstream_model::event::ApprovalOutcome;

decoder!(Conversation, "claude", |_: Option<String>| {
    let native_id = "a8b7c6d5-0000-4000-8000-000000000000".to_owned();
    Conversation::new(ConversationSettings { native_id })
});

/// A conversation with Claude Code.
pub(super) type Desk = crate::playback::Desk<Conversation>;

impl Played for Conversation {
    /// Our ids of requests, by those of the capture.
    type Ids = HashMap<String, String>;

    fn drive(desk: &mut Desk, line: &Value, count: usize, requests: &mut Self::Ids) {
        drive(desk, line, count, requests);
    }

    fn answered(_desk: &Desk, line: &Value, requests: &Self::Ids) -> Value {
        answered(line, requests)
    }
}

/// A capture of Claude Code.
pub(super) type Capture = crate::playback::Capture<Conversation>;

/// What the driver of the capture wrote, as a command of the keeper.
fn drive(desk: &mut Desk, line: &Value, count: usize, requests: &mut HashMap<String, String>) {
    let before = desk.written.len();
    match line["type"].as_str() {
        Some("user") => {
            let name = line["uuid"].as_str().map_or_else(|| format!("prompt-{count}"), str::to_owned);
            desk.prompt(&name, line["message"]["content"].as_array().unwrap().clone());
        }
        Some("control_request") => {
            let request = &line["request"];
            let text = |member: &str| request[member].as_str().map(str::to_owned);
            match request["subtype"].as_str().unwrap() {
                "interrupt" => desk.cancel(),
                "cancel_async_message" => desk.cancel_prompt(&text("message_uuid").unwrap()),
                "set_model" | "set_permission_mode" => {
                    let (model, mode, permissions) = (text("model"), text("mode"), None);
                    desk.command(Command::Change { model, mode, permissions });
                }
                _ => {}
            }
            if let Some(written) = desk.written.get(before) {
                let id = |line: &Value| line["request_id"].as_str().unwrap().to_owned();
                requests.insert(id(line), id(written));
            }
        }
        Some("control_response") => {
            let key = line["response"]["request_id"].as_str().unwrap();
            let answer = &line["response"]["response"];
            let is_question = answer["updatedInput"]["answers"].is_object();
            let always = answer["updatedPermissions"].is_array();
            match answer["behavior"].as_str().unwrap() {
                "allow" if is_question => desk.answer(key, Some(by_place(&answer["updatedInput"]))),
                "allow" if always => desk.approve(key, ApprovalOutcome::AllowAlways, None),
                "allow" => desk.approve(key, ApprovalOutcome::AllowOnce, None),
                _ => {
                    // The one that is no question, or no permission, changes nothing.
                    desk.answer(key, None);
                    desk.approve(key, ApprovalOutcome::Reject, None);
                }
            }
        }
        // A driver wrote a line that is no JSON.
        _ => {}
    }
}

fn by_place(input: &Value) -> Map<String, Value> {
    let questions = input["questions"].as_array().unwrap().iter().enumerate();
    let answer = |question: &Value| input["answers"][question["question"].as_str().unwrap()].clone();
    questions.map(|(place, question)| (place.to_string(), answer(question))).collect()
}

/// The line with our id of the request that it answers.
fn answered(line: &Value, requests: &HashMap<String, String>) -> Value {
    let mut line = line.clone();
    if let Some(ours) = line["response"]["request_id"].as_str().and_then(|id| requests.get(id)) {
        line["response"]["request_id"] = Value::from(ours.as_str());
    }
    line
}
