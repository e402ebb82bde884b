//! The gateway is killed at named places while the real Claude Code works. No prompt is lost or run twice,
//! every turn has one end, and what Claude Code could finish is not lost.

use super::{Lab, accepted, of_type, outcomes, prompt, shell};
use crate::support::{Serving, is_full, read, wait_for};
use rustix::process::Signal;
use serde_json::Value;
use turnstream_fake_provider::{Delivery, Step};

const MARKER: &str = "TURNSTREAM_FAILPOINT_REACHED";
const ANSWER: &str = "It was run, once and only once.";

/// Where the gateway stops, and how often it has passed there before.
const POINTS: &[(&str, &[u32])] = &[
    ("keeper.connected", &[1]),
    ("keeper.durable", &[2, 1]),
    ("keeper.told", &[1, 2]),
    ("keeper.append", &[5, 3, 9]),
    ("log.after_sync", &[6, 4, 8]),
    ("log.published", &[4, 3, 5]),
];

/// Where a gateway that recovers stops.
const RECOVERY_POINTS: &[&str] = &["keeper.caught_up", "keeper.recovering", "keeper.claimed"];

/// A command that leaves a line each time it runs.
const RUNS: &str = "echo run >> runs.txt";
/// The same command, which then waits for a file.
const RUNS_AND_WAITS: &str = "echo run >> runs.txt; until [ -e go.txt ]; do sleep 0.1; done";

/// A command, and an answer.
fn lab(command: &str) -> Lab {
    let slow = Delivery { before_delta_ms: 40, ..Delivery::default() };
    Lab::new([shell(command), Step::text(ANSWER).delivered(slow), Step::text("Again.").always()])
}

/// The items in the fold of a session.
fn items(serving: &Serving, session: &str) -> Vec<Value> {
    let path = format!("/v1/sessions/{session}/snapshot");
    let (_, snapshot) = crate::support::ask(&serving.address, "GET", &path, &Value::Null);
    snapshot["items"].as_array().unwrap().clone()
}

/// How often the command ran, by the end of its call in the log.
fn runs_by_log(items: &[Value]) -> usize {
    let calls: Vec<&Value> = items.iter().filter(|item| item["kind"] == "tool").collect();
    let [call] = calls[..] else { panic!("one call: {calls:#?}") };
    match call["state"].as_str().unwrap() {
        "completed" => 1,
        // Its permission was open when the gateway was killed, and died with it: the command did not run.
        "failed" => 0,
        other => panic!("Claude Code has told how the call ended, and the log says {other}: {call:#}"),
    }
}

/// The texts of the assistant's messages.
fn answers(items: &[Value]) -> Vec<String> {
    let items = items.iter();
    let messages = items.filter(|item| item["kind"] == "message" && item["role"] == "assistant");
    let whole = messages.filter(|item| item["state"] == "completed");
    whole.map(|item| item["text"].as_str().unwrap().to_owned()).collect()
}

/// Kills the gateway where it has stopped at its failpoint. How many commits a turn takes depends on time:
/// if it is over before the chosen one, the gateway is killed then.
fn kill_at_failpoint(lab: &Lab, serving: Serving) {
    let (out, lines) = (lab.home.path("serve.out"), lab.home.path("serve.err"));
    wait_for(|| (read(&out).contains(MARKER) || read(&lines).contains("turn ended")).then_some(()));
    serving.end(Signal::KILL);
}

/// After a kill: the prompt has one turn with one end, the command ran as often as the log says, and the
/// session goes on.
fn assert_recovered(lab: &Lab, session: &str, at: &str) {
    let serving = lab.serve();
    // The prompt may not have been accepted before the kill. Under its key it runs once.
    wait_for(|| prompt(&serving, session, "Run it").0.starts_with("http/1.1 2").then_some(()));
    let log = lab.ended(session, 1);
    let runs = lab.work("runs.txt").lines().count();
    match outcomes(&log)[..] {
        ["completed"] => {
            let items = items(&serving, session);
            assert_eq!(runs, runs_by_log(&items), "{at}: {log:#?}");
            assert_eq!(answers(&items), ["I run it.", ANSWER], "{at}: {log:#?}");
        }
        ref other => panic!("{at}: {other:?}, and Claude Code could finish it: {log:#?}"),
    }
    accepted(&serving, session, "Again");
    let log = lab.ended(session, 2);
    assert_eq!(outcomes(&log), ["completed", "completed"], "{at}: {log:#?}");
    assert_eq!(of_type(&log, "turn.started").len(), 2, "{at}");
    serving.end(Signal::TERM);
    wait_for(|| lab.processes().is_empty().then_some(()));
}

#[test]
fn a_gateway_that_is_killed_anywhere_loses_no_turn_that_claude_code_can_finish() {
    let points = POINTS.iter().flat_map(|(name, times)| {
        let times = if is_full() { times } else { &times[..1] };
        times.iter().map(move |nth| format!("{name}:{nth}"))
    });
    for point in points {
        let lab = lab(RUNS);
        // The session is created before the failpoint is armed.
        let serving = lab.serve();
        let session = lab.session(&serving);
        serving.end(Signal::TERM);
        let serving = lab.serve_armed(Some(&point));
        let address = serving.address.clone();
        let sent = session.clone();
        // The answer may never come.
        let sender = std::thread::spawn(move || {
            let body = serde_json::json!({"content": [{"type": "text", "text": "Run it"}], "key": "Run it"});
            let path = format!("/v1/sessions/{sent}/prompts");
            std::panic::catch_unwind(|| crate::support::ask(&address, "POST", &path, &body)).is_ok()
        });
        kill_at_failpoint(&lab, serving);
        let _answered = sender.join();
        assert_recovered(&lab, &session, &point);
    }
}

#[test]
fn a_gateway_that_is_killed_while_it_recovers_is_recovered_from_as_well() {
    let points = if is_full() { RECOVERY_POINTS } else { &RECOVERY_POINTS[..1] };
    for point in points {
        let lab = lab(RUNS_AND_WAITS);
        let serving = lab.serve();
        let session = lab.session(&serving);
        accepted(&serving, &session, "Run it");
        wait_for(|| (lab.work("runs.txt") == "run\n").then_some(()));
        serving.end(Signal::KILL);
        std::fs::write(lab.home.path("work/go.txt"), "").unwrap();
        let serving = lab.serve_armed(Some(point));
        kill_at_failpoint(&lab, serving);
        assert_recovered(&lab, &session, point);
    }
}
