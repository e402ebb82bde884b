//! The real Claude Code in the libraries that editors and web apps have: a call that a person allows.

use super::{Lab, of_type, outcomes, shell};
use crate::real_agent::answers;
use crate::support::{Serving, ask, stdout};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use turnstream_fake_provider::{Completion, Part, Step};

/// The prompt of a subagent.
const ERRAND: &str = "You go north.";
const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");

fn lab() -> Lab {
    Lab::new([shell("touch made"), Step::text("It is made."), Step::text("Again.").always()])
}

/// The folder of `cargo xtask agents`.
fn installed() -> PathBuf {
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/agents");
    std::env::var_os("TURNSTREAM_AGENTS").map_or(usual, PathBuf::from)
}

/// A file of tests in Node, for a gateway that runs.
fn node(serving: &Serving, file: &str, libraries: &str) {
    let mut tests = Command::new("node");
    tests.args(["--test", "--test-force-exit", "--test-reporter=spec", file]).current_dir(TESTS);
    tests.env("TURNSTREAM_AGENTS", installed()).env("LIBRARIES", installed().join(libraries));
    tests.env("GATEWAY", &serving.address).env("TOKEN", crate::support::token_of(&serving.address));
    let done = tests.output().unwrap();
    assert!(done.status.success(), "{}\n{}", stdout(&done), String::from_utf8_lossy(&done.stderr));
}

/// The only session did the call once, after one answer of a person. Returns what the agent said.
#[track_caller]
fn assert_made(lab: &Lab, serving: &Serving) -> Vec<String> {
    let (_, listed) = ask(&serving.address, "GET", "/v1/sessions", &Value::Null);
    let session = listed["sessions"][0]["id"].as_str().unwrap();
    let log = lab.ended(session, 1);
    assert_eq!(outcomes(&log), ["completed"], "{log:#?}");
    let resolved: Vec<&Value> =
        of_type(&log, "approval.resolved").iter().map(|one| &one["outcome"]).collect();
    assert_eq!(resolved, ["allow_once"]);
    assert!(lab.home.path("work/made").exists());
    answers(serving, session)
}

#[test]
fn acpx_allows_a_call_of_claude_code() {
    let (lab, turnstream) = (lab(), env!("CARGO_BIN_EXE_turnstream"));
    let serving = lab.serve();
    let mut acpx = Command::new(installed().join("acp-clients/node_modules/.bin/acpx"));
    acpx.arg("--cwd").arg(lab.home.path("work")).args(["--format", "json", "--no-fs", "--no-terminal"]);
    acpx.args(["--approve-all", "--agent", &format!("{turnstream} acp --agent claude"), "exec", "Make it."]);
    acpx.current_dir(lab.home.path("work")).stdin(Stdio::null()).env_clear();
    acpx.env("HOME", lab.home.path("")).env("TURNSTREAM_DATA", lab.home.path("data"));
    acpx.env("TURNSTREAM_CONFIG", lab.home.path("turnstream.toml"));
    acpx.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let done: Output = acpx.output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let messages: Vec<Value> =
        stdout(&done).lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let updates = |kind: &'static str| {
        let updates = messages.iter().map(|message| &message["params"]["update"]);
        updates.filter(move |update| update["sessionUpdate"] == kind)
    };
    let stop = messages.iter().rev().find_map(|message| message["result"].get("stopReason"));
    assert_eq!(stop, Some(&json!("end_turn")), "{done:?}");
    assert_eq!(updates("tool_call").count(), 1, "{messages:#?}");
    assert_eq!(updates("tool_call_update").next_back().unwrap()["status"], "completed");
    let text: String =
        updates("agent_message_chunk").filter_map(|update| update["content"]["text"].as_str()).collect();
    assert_eq!(text, assert_made(&lab, &serving).concat());
}

#[test]
fn a_page_with_the_ai_sdk_allows_a_call_of_claude_code() {
    let lab = lab();
    let serving = lab.serve();
    node(&serving, "ai_sdk/real_agent.test.mjs", "ai-sdk/7.0.169");
    assert_eq!(assert_made(&lab, &serving), ["I run it.", "It is made."]);
}

#[test]
fn a_page_with_ag_ui_allows_a_call_of_claude_code_and_sees_its_subagent() {
    let errand = json!({"description": "Go north", "prompt": ERRAND, "subagent_type": "general-purpose"});
    let lab = Lab::new([
        shell("ls").for_any_user_text(ERRAND),
        Step::text("The north is cold.").for_any_user_text(ERRAND),
        shell("touch made"),
        Step::new(Completion::of([Part::tool_call("Task", errand)])),
        Step::text("It is made."),
        Step::text("Again.").always(),
    ]);
    let serving = lab.serve();
    node(&serving, "ag_ui/real_agent.test.mjs", "ag-ui/1.0.0");
    assert_eq!(assert_made(&lab, &serving), ["I run it.", "It is made."]);
}
