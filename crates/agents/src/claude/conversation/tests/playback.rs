//! What the drivers of Claude Code's captures did, as commands of a keeper.

use super::desk::Desk;
use crate::claude::conversation::Conversation;
use crate::desk::Driver;
use serde_json::{Map, Value};
use std::collections::HashMap;
use turnstream_adapter::Command;
use turnstream_model::event::ApprovalOutcome;
use turnstream_model::time::Time;

pub(super) use crate::desk::Fault;

/// Drives a capture.
#[derive(Default)]
pub(super) struct Playback {
    /// Our ids of requests, by those of the capture.
    requests: HashMap<String, String>,
}

/// A capture of Claude Code.
pub(super) struct Capture(crate::desk::Capture);

impl Capture {
    pub(super) fn load(name: &str) -> Self {
        Self(crate::desk::Capture::load::<Playback>(name))
    }

    pub(super) fn into_outputs(self) -> Vec<Value> {
        self.0.into_outputs()
    }

    pub(super) fn outputs(&self) -> usize {
        self.0.outputs()
    }

    /// How many lines the agent printed before its first result.
    pub(super) fn place_of_first_result(&self) -> usize {
        self.0.place_of(|line| line["type"] == "result").unwrap()
    }

    pub(super) fn play(&self, fault: Fault) -> Desk {
        self.0.play::<Playback>(fault)
    }

    pub(super) fn play_open(&self, fault: Fault) -> Desk {
        self.0.play_open::<Playback>(fault)
    }
}

impl Driver for Playback {
    type Conversation = Conversation;
    const FOLDER: &'static str = "claude";
    const GARBAGE: &'static str = "{\"type\":\"assis";

    fn desk() -> Desk {
        Desk::new()
    }

    fn drive(&mut self, desk: &mut Desk, line: &Value, place: usize) {
        drive(desk, line, place, &mut self.requests);
    }

    fn answered(&self, _desk: &Desk, line: &Value) -> Value {
        answered(line, &self.requests)
    }

    fn oversized(desk: &mut Desk, bytes: u64) {
        desk.conversation.oversized(bytes, Time(desk.now));
    }
}

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
