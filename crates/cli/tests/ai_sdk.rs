//! The AI SDK's own clients against the real binary. The tests are in `ai_sdk/`, run by Node;
//! `cargo xtask agents` installs the versions of the SDK.
#![cfg(feature = "real-agents")]
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use turnstream_dialects::FrameSink;
use turnstream_dialects::ai_sdk::{Encoder, Profile, UiMessage};
use turnstream_model::event::Event;
use turnstream_model::fold::State;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ai_sdk");
const AGENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/agents");

/// Versions that are tested by default, and those of full runs: old clients, which refuse more.
const VERSIONS: [&str; 3] = ["7.0.169", "6.0.326", "5.0.277"];
const OLD_VERSIONS: [&str; 2] = ["6.0.125", "5.0.108"];

fn is_full() -> bool {
    std::env::var_os("TURNSTREAM_FULL").is_some()
}

fn agents() -> PathBuf {
    std::env::var_os("TURNSTREAM_AGENTS").map_or_else(|| PathBuf::from(AGENTS), PathBuf::from)
}

/// A file of tests, with one version of the SDK.
fn node(file: &str, version: &str) -> Command {
    let folder = agents().join("ai-sdk").join(version);
    assert!(folder.exists(), "there is no {}; run `cargo xtask agents`", folder.display());
    let mut tests = Command::new("node");
    tests.args(["--test", "--test-force-exit", "--test-reporter=spec", file]).current_dir(HERE);
    tests.env("TURNSTREAM_BIN", env!("CARGO_BIN_EXE_turnstream"));
    tests.env("TURNSTREAM_AGENTS", agents()).env("AI_SDK", version);
    tests
}

fn run(mut tests: Command) {
    let output = tests.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{tests:?}: {}\n{out}\n{err}", output.status);
}

#[test]
fn version_7_never_loses_or_doubles_a_part() {
    run(node("judge.test.mjs", VERSIONS[0]));
}

#[test]
fn version_6_never_loses_or_doubles_a_part() {
    run(node("judge.test.mjs", VERSIONS[1]));
}

#[test]
fn version_5_never_loses_or_doubles_a_part() {
    run(node("judge.test.mjs", VERSIONS[2]));
}

#[test]
fn old_versions_never_lose_or_double_a_part() {
    for version in OLD_VERSIONS.iter().filter(|_| is_full()) {
        run(node("judge.test.mjs", version));
    }
}

#[test]
fn the_page_of_the_example_is_used_in_a_browser() {
    run(node("page.test.mjs", VERSIONS[0]));
}

/// The chunks of single turns.
#[derive(Default)]
struct Turns(Vec<Vec<Value>>);

impl FrameSink for Turns {
    fn frame(&mut self, _: Option<&str>, json: &[u8]) {
        let chunk: Value = serde_json::from_slice(json).unwrap();
        if chunk["type"] == "start" {
            self.0.push(Vec::new());
        }
        // News of a turn that is over is in no response.
        if let Some(turn) = self.0.last_mut().filter(|_| chunk["type"] != "data-revised") {
            turn.push(chunk);
        }
    }
}

/// The logs of all captures of real agents.
fn corpus() -> Vec<(String, Vec<Event>)> {
    let folders = [
        "opencode-client/tests/opencode/logs",
        "agents/tests/claude/logs",
        "agents/tests/codex/logs",
        "agents/tests/acp/logs",
    ];
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut logs = Vec::new();
    for folder in folders {
        for entry in std::fs::read_dir(crates.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            // They were kept without times.
            let event = |line: &str| {
                let mut event: Value = serde_json::from_str(line).unwrap();
                event["time"] = event["seq"].clone();
                Event::from_json(&event.to_string()).unwrap()
            };
            logs.push((path.display().to_string(), text.lines().map(event).collect()));
        }
    }
    logs.sort_by(|one, other| one.0.cmp(&other.0));
    assert!(logs.len() > 150, "only {} logs", logs.len());
    logs
}

/// Every turn of the corpus as its chunks, and as the message that we say a client makes of them.
#[test]
fn every_version_reads_every_log_of_the_corpus_as_we_do() {
    let corpus = corpus();
    let old = OLD_VERSIONS.iter().filter(|_| is_full());
    for version in VERSIONS.iter().chain(old) {
        let profile = Profile::of_version(version[..1].parse().unwrap()).unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for (name, log) in &corpus {
            let (mut encoder, mut turns) = (Encoder::resume(&State::default(), profile), Turns::default());
            for event in log {
                encoder.encode(event, &mut turns);
            }
            for chunks in turns.0 {
                let mut message = UiMessage::default();
                chunks.iter().for_each(|chunk| message.take(chunk));
                let line = json!({"name": name, "chunks": chunks, "message": message.into_json()});
                writeln!(file, "{line}").unwrap();
            }
        }
        let mut tests = node("corpus.test.mjs", version);
        tests.env("CORPUS", file.path());
        run(tests);
    }
}
