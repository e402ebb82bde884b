//! Claude Code works on a file, ends its turn, loses its process, and takes another turn.

use super::CLAUDE_2_1_197;
use super::drive::Play;
use super::exit::{Act, Exit, Permissions, Runs, Says, Sign, StageNeeds, Tool};
use super::judge;
use super::stage::Stage;
use crate::support::wait_for;
use rustix::process::Signal;
use serde_json::Value;

const README: &str = "README.md";

/// Two turns. The first one has two calls.
const STORY: Exit = Exit {
    name: "readme",
    what: "Not on the page.",
    runs: Runs::Always,
    stage: StageNeeds::Alone,
    permissions: Permissions::Allow,
    model: &[
        Says::Call(Tool::Read(README)),
        Says::Call(Tool::Edit { file: README, from: "First line.", to: "Second line." }),
        Says::Text("It says second now."),
        Says::Text("It was the first line."),
    ],
    acts: &[],
};

/// Claude Code reads README.md, edits it and answers: one turn, two tools, one end; process exit adds
/// nothing; a second turn has its own end.
#[test]
fn claude_code_edits_readme_one_turn_two_tools_one_end_process_exit_adds_nothing_a_second_turn_has_its_own() {
    let stage = Stage::open(&CLAUDE_2_1_197, [&STORY]);
    let mut play = Play::begin(&stage, &STORY);
    play.act(Act::Prompt("Change the first line."));
    play.act(Act::Until(Sign::Ended(1)));
    let first = play.read_log().to_vec();
    assert_eq!(count(&first, "turn.started"), 1, "{first:#?}");
    assert_eq!(tools(&play.snapshot()), ["Read completed", "Edit completed"]);
    let written = std::fs::read_to_string(play.cwd().join(README)).unwrap();
    assert_eq!(written, "# Demo\n\nSecond line.\n");
    assert_eq!(judge::cell(&play), "`completed` (end_turn); equal");

    stage.signal_agent(Signal::TERM);
    // A prompt that is written to a dying process may be lost with it.
    wait_for(|| stage.has_no_link().then_some(()));
    play.act(Act::Prompt("What was it before?"));
    play.act(Act::Until(Sign::Ended(2)));
    let log = play.read_log().to_vec();
    assert_eq!(
        log[first.len()]["type"],
        "prompt.accepted",
        "the exit of the process added {:#?}",
        log[first.len()]
    );
    let second = &log[first.len()..];
    let ends = "`completed` (end_turn), then `completed` (end_turn); equal";
    assert_eq!(judge::cell(&play), ends, "{second:#?}\n{}", stage.gateway_errors());
    let calls = stage.calls();
    assert_eq!(calls.len(), 4);
    let remembered = &calls[3].user_texts;
    assert!(remembered.iter().any(|text| text.contains("Change the first line.")), "{remembered:#?}");
}

fn count(log: &[Value], kind: &str) -> usize {
    log.iter().filter(|event| event["type"] == kind).count()
}

/// Names and states of the calls in a snapshot.
fn tools(snapshot: &Value) -> Vec<String> {
    let items = snapshot["items"].as_array().unwrap().iter().filter(|item| item["kind"] == "tool");
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    items.map(|item| format!("{} {}", word(&item["tool"]["name"]), word(&item["state"]))).collect()
}
