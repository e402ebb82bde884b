//! The dialects: all against their law, ACP against the protocol's own schema and against the fold.
//! Captured sessions are played by the crate of the agents.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod ag_ui;
mod ag_ui_client;
mod ai_sdk;
mod ai_sdk_client;
mod client;
mod ends;
mod judge;
mod laws;
mod mapping;
mod markdown;
mod opencode;
mod opencode_captures;
mod opencode_client;
mod opencode_order;
mod resume;

/// The machine, log and fold that the model's own tests use.
#[path = "../../../model/tests/it/support.rs"]
mod session;

use std::path::Path;
use turnstream_dialects::acp::{AcpEvent, Encoder};
use turnstream_model::event::Event;
use turnstream_model::fold::{Fold, State};

/// The logs of all captures of the real agent, with their names. They were kept without times.
fn captured_logs() -> Vec<(String, Vec<Event>)> {
    logs_in("../opencode-client/tests/opencode/logs")
}

/// Those of captures of Claude Code.
fn claude_logs() -> Vec<(String, Vec<Event>)> {
    logs_in("../agents/tests/claude/logs")
}

fn logs_in(directory: &str) -> Vec<(String, Vec<Event>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let mut paths: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 50, "only {} logs", paths.len());
    let read = |path: &Path| {
        let event = |line: &str| {
            let mut event: serde_json::Value = serde_json::from_str(line).unwrap();
            event["time"] = event["seq"].clone();
            Event::from_json(&event.to_string()).unwrap()
        };
        std::fs::read_to_string(path).unwrap().lines().map(event).collect()
    };
    paths.iter().map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), read(path))).collect()
}

/// What a session is after these events.
fn state_at(log: &[Event]) -> State {
    Fold::of(log).into_state()
}

/// What a whole log becomes.
fn encode(log: &[Event]) -> Vec<AcpEvent> {
    let (mut encoder, mut out) = (Encoder::new(), Vec::new());
    for event in log {
        encoder.encode(event, &mut out);
    }
    out
}

/// A log from its lines.
fn log(lines: &[&str]) -> Vec<Event> {
    let numbered = |(index, line): (usize, &&str)| {
        let line = format!(r#"{{"seq":{},"time":1,{}"#, index + 1, &line[1..]);
        Event::from_json(&line).unwrap()
    };
    lines.iter().enumerate().map(numbered).collect()
}

/// The messages of a log, as JSON.
fn messages(lines: &[&str]) -> Vec<String> {
    let out = encode(&log(lines));
    let judge = judge::Judge::get();
    out.iter().map(|event| judge.check(event)).collect()
}
