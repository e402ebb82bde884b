//! Claude Code seen through opencode's API.

use super::Lab;
use crate::support::{PATIENCE, ask, token_of};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use turnstream_fake_provider::{Completion, Part, Step};

/// The events of all sessions, one at a time.
struct Events(BufReader<TcpStream>);

impl Events {
    fn open(address: &str) -> Self {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let token = token_of(address);
        let head = format!(
            "GET /opencode/global/event HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).unwrap();
        let mut events = Self(BufReader::new(socket));
        assert_eq!(events.next()["type"], "server.connected");
        events
    }

    fn next(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the stream goes on");
            if let Some(data) = line.strip_prefix("data: ") {
                return serde_json::from_str::<Value>(data).unwrap()["payload"].clone();
            }
        }
    }

    /// What happens in a session up to its idle, in a few words, without deltas.
    fn turn(&mut self, session: &str) -> Vec<String> {
        let mut told: Vec<String> = Vec::new();
        loop {
            let event = self.next();
            let (kind, properties) = (event["type"].as_str().unwrap(), &event["properties"]);
            if properties["sessionID"] != session {
                continue;
            }
            let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let part = &properties["part"];
            let said = match kind {
                "session.status" => format!("status {}", word(&properties["status"]["type"])),
                "message.updated" if properties["info"]["time"]["completed"].is_number() => {
                    "completed".to_owned()
                }
                "message.updated" => format!("message {}", word(&properties["info"]["role"])),
                "message.part.updated" => match part["type"].as_str().unwrap() {
                    "tool" => format!("{} {}", word(&part["tool"]), word(&part["state"]["status"])),
                    "text" if part["text"] != "" => word(&part["text"]),
                    _ => continue,
                },
                "session.idle" => "session.idle".to_owned(),
                _ => continue,
            };
            let is_over = said == "session.idle";
            if told.last() != Some(&said) {
                told.push(said);
            }
            if is_over {
                return told;
            }
        }
    }
}

#[test]
fn claude_code_reads_a_file_edits_it_and_answers_busy_once_and_idle_once_also_in_a_second_turn() {
    // The script of the provider has the path of the file, so the file comes first.
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("README.md");
    std::fs::write(&path, "# Sample\n").unwrap();
    let step = |text: &str, tool: &str, input: Value| {
        Step::new(Completion::of([Part::text(text), Part::tool_call(tool, input)]))
    };
    let read = step("I read it.", "Read", json!({"file_path": path}));
    let change = json!({"file_path": path, "old_string": "# Sample", "new_string": "# Changed"});
    let edit = step("I edit it.", "Edit", change);
    let lab = Lab::new([read, edit, Step::text("Done."), Step::text("Again.").always()]);
    let serving = lab.serve();
    let mut events = Events::open(&serving.address);
    lab.session(&serving);
    let (_, listed) = ask(&serving.address, "GET", "/opencode/session", &Value::Null);
    assert_eq!(listed[0]["agent"], "claude");
    let id = listed[0]["id"].as_str().unwrap().to_owned();
    let prompt = |text: &str| {
        let body = json!({"parts": [{"type": "text", "text": text}]});
        ask(&serving.address, "POST", &format!("/opencode/session/{id}/message"), &body);
    };
    prompt("Read README.md and edit it");
    let told = events.turn(&id);
    let places = |what: &str| told.iter().filter(|said| *said == what).count();
    let want = [
        "message user",
        "Read README.md and edit it",
        "status busy",
        "message assistant",
        "I read it.",
        "read pending",
        "read running",
        "read completed",
        "I edit it.",
        "edit pending",
        "edit running",
        "edit completed",
        "Done.",
        "completed",
        "status idle",
        "session.idle",
    ];
    let mut rest = told.iter();
    for said in want {
        assert!(rest.any(|event| event == said), "{said} is not in its place: {told:#?}");
    }
    assert_eq!(
        (places("status busy"), places("status idle"), places("session.idle")),
        (1, 1, 1),
        "{told:#?}"
    );
    prompt("And again");
    let again = events.turn(&id);
    assert_eq!(again.iter().filter(|said| *said == "status busy").count(), 1, "{again:#?}");
    assert!(again.contains(&"Again.".to_owned()), "{again:#?}");
}
