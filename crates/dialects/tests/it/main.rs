//! The ACP dialect: against the protocol's own schema and against the fold. Captured sessions are played by the crate of
//! the agents.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod client;
mod ends;
mod judge;
mod laws;
mod mapping;
mod markdown;

/// The machine, log and fold that the model's own tests use.
#[path = "../../../model/tests/support/mod.rs"]
mod session;

use turnstream_dialects::acp::{AcpEvent, Encoder};
use turnstream_model::event::Event;

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
