//! What the tests with a real agent behind the real binary have in common.

use crate::support::{Home, Serving, ask, stdout, wait_for};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::Path;
use turnstream_testkit::lawful::{Tail, assert_lawful};

/// On a busy machine an agent takes its time to start and to begin.
pub(crate) const PATIENT: &str =
    "[timeouts]\nconnect = \"5m\"\nstart = \"5m\"\nrecovery = \"5m\"\ncancel = \"5m\"\n";

/// A gateway with the configuration of this home, which stops at this failpoint.
pub(crate) fn serve_armed(home: &Home, failpoint: Option<&str>) -> Serving {
    let config = home.path("turnstream.toml").display().to_string();
    home.serve_armed(&["--config", &config], |command| {
        if let Some(failpoint) = failpoint {
            command.env("TURNSTREAM_FAILPOINT", failpoint);
        }
    })
}

/// Creates a session with these members, and with the working directory of this home.
pub(crate) fn create_session(home: &Home, serving: &Serving, members: Value) -> String {
    let mut body = json!({"cwd": home.path("work"), "permissions": "allow"});
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    let (head, answer) = ask(&serving.address, "POST", "/v1/sessions", &body);
    assert!(head.starts_with("http/1.1 201 "), "{head} {answer}");
    answer["id"].as_str().unwrap().to_owned()
}

/// Sends a prompt under a key.
pub(crate) fn prompt_at(address: &str, session: &str, key: &str, text: &str) -> (String, Value) {
    let body = json!({"content": [{"type": "text", "text": text}], "key": key});
    ask(address, "POST", &format!("/v1/sessions/{session}/prompts"), &body)
}

/// The log of a session.
pub(crate) fn log(home: &Home, session: &str) -> Vec<Value> {
    let tail = home.run(&["tail", session, "--json", "--no-follow"]);
    assert_lawful(stdout(&tail).lines(), Tail::Live);
    stdout(&tail).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The log of a session with so many turns that have ended, once it is idle.
pub(crate) fn ended(home: &Home, session: &str, turns: usize) -> Vec<Value> {
    wait_for(|| {
        let log = log(home, session);
        let is_idle = statuses(&log).last().is_some_and(|status| *status == "idle");
        (is_idle && of_type(&log, "turn.ended").len() >= turns).then_some(log)
    })
}

/// A file in the working directory, as far as it is there.
pub(crate) fn work(home: &Home, name: &str) -> String {
    std::fs::read_to_string(home.path("work").join(name)).unwrap_or_default()
}

/// Processes with this `HOME`: an agent, and what it has started.
pub(crate) fn processes(home: &Path) -> Vec<(i32, String)> {
    let home = format!("HOME={}", home.display());
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let process = |entry: std::fs::DirEntry| {
        let id: i32 = entry.file_name().to_str()?.parse().ok()?;
        let environment = std::fs::read(entry.path().join("environ")).ok()?;
        let is_ours = environment.split(|byte| *byte == 0).any(|variable| variable == home.as_bytes());
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        // A zombie has no command line.
        (is_ours && !line.is_empty()).then(|| (id, String::from_utf8_lossy(&line).replace('\0', " ")))
    };
    entries.filter_map(process).collect()
}

pub(crate) fn of_type<'a>(log: &'a [Value], name: &str) -> Vec<&'a Value> {
    log.iter().filter(|event| event["type"] == name).collect()
}

pub(crate) fn statuses(log: &[Value]) -> Vec<&str> {
    of_type(log, "session.status").iter().map(|event| event["status"].as_str().unwrap()).collect()
}

pub(crate) fn outcomes(log: &[Value]) -> Vec<&str> {
    of_type(log, "turn.ended").iter().map(|end| end["outcome"].as_str().unwrap()).collect()
}

/// The items of a session, as clients see them.
pub(crate) fn items(serving: &Serving, session: &str) -> Vec<Value> {
    let path = format!("/v1/sessions/{session}/snapshot");
    let (_, snapshot) = ask(&serving.address, "GET", &path, &Value::Null);
    snapshot["items"].as_array().unwrap().clone()
}

/// The texts of the assistant's completed messages.
pub(crate) fn answers(serving: &Serving, session: &str) -> Vec<String> {
    let items = items(serving, session).into_iter();
    let messages = items.filter(|item| item["kind"] == "message" && item["role"] == "assistant");
    let whole = messages.filter(|item| item["state"] == "completed");
    whole.map(|item| item["text"].as_str().unwrap().to_owned()).collect()
}

pub(crate) fn signal(process: i32, signal: Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(process).unwrap(), signal).unwrap();
}
