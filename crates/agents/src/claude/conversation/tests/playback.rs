//! Plays a capture: what its driver wrote becomes commands, what the agent printed is read, with faults.

use super::desk::Desk;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::path::Path;
use turnstream_adapter::Command;
use turnstream_model::event::ApprovalOutcome;
use turnstream_testkit::lawful::Tail;

/// What is done to the agent's output, by the place of the line.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    None,
    Drop(usize),
    Repeat(usize),
    /// Nothing comes from that line on: the process ends there.
    Cut(usize),
    /// A line that is no JSON comes before that line.
    Garbage(usize),
    /// That line is too long to keep.
    Oversized(usize),
}

/// A capture of the real agent.
pub(super) struct Capture {
    lines: Vec<Captured>,
}

struct Captured {
    millis: u64,
    process: u64,
    is_output: bool,
    line: Value,
}

/// The names of all captures.
pub(super) fn names() -> Vec<String> {
    let folder = std::fs::read_dir(fixtures()).unwrap();
    let names = folder.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> =
        names.filter_map(|name| name.strip_suffix(".ndjson").map(str::to_owned)).collect();
    names.sort();
    names
}

fn fixtures() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/claude")
}

impl Capture {
    pub(super) fn load(name: &str) -> Self {
        let text = std::fs::read_to_string(fixtures().join(format!("{name}.ndjson"))).unwrap();
        let read = |line: &str| {
            let mut captured: Value = turnstream_json::from_str(line).unwrap();
            Captured {
                millis: captured["t_ms"].as_u64().unwrap(),
                process: captured["proc"].as_u64().unwrap_or(0),
                is_output: captured["dir"] == "out",
                line: captured["line"].take(),
            }
        };
        Self { lines: text.lines().map(read).collect() }
    }

    /// The lines that the agent printed.
    pub(super) fn into_outputs(self) -> Vec<Value> {
        self.lines.into_iter().filter(|captured| captured.is_output).map(|captured| captured.line).collect()
    }

    /// The number of lines that the agent printed.
    pub(super) fn outputs(&self) -> usize {
        self.lines.iter().filter(|captured| captured.is_output).count()
    }

    /// How many lines the agent printed before its first result.
    pub(super) fn place_of_first_result(&self) -> usize {
        let mut outputs = self.lines.iter().filter(|captured| captured.is_output);
        outputs.position(|captured| captured.line["type"] == "result").unwrap()
    }

    /// Plays it to the end of its process, and checks the laws.
    pub(super) fn play(&self, fault: Fault) -> Desk {
        let mut desk = self.play_open(fault);
        desk.exit();
        desk.assert_lawful(Tail::Settled);
        desk
    }

    /// Plays it, and leaves open what is open then.
    pub(super) fn play_open(&self, fault: Fault) -> Desk {
        let mut desk = Desk::new();
        let start = desk.now;
        let (mut process, mut place) = (0, 0);
        let mut requests = HashMap::new();
        for (count, captured) in self.lines.iter().enumerate() {
            if captured.process != process {
                process = captured.process;
                desk.exit();
                desk.restart();
            }
            desk.pass((start + captured.millis).saturating_sub(desk.now));
            if let Fault::Cut(at) = fault
                && place >= at
                && (captured.is_output || at > 0)
            {
                break;
            }
            if !captured.is_output {
                drive(&mut desk, &captured.line, count, &mut requests);
                continue;
            }
            let line = answered(&captured.line, &requests).to_string();
            match fault {
                Fault::Drop(at) if at == place => {}
                Fault::Repeat(at) if at == place => {
                    desk.line(&line);
                    desk.line(&line);
                }
                Fault::Garbage(at) if at == place => {
                    desk.line("{\"type\":\"assis");
                    desk.line(&line);
                }
                Fault::Oversized(at) if at == place => {
                    desk.conversation.oversized(1 << 30, turnstream_model::time::Time(desk.now));
                }
                Fault::None
                | Fault::Drop(_)
                | Fault::Repeat(_)
                | Fault::Cut(_)
                | Fault::Garbage(_)
                | Fault::Oversized(_) => desk.line(&line),
            }
            place += 1;
        }
        desk
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
