//! Prompts while the opencode that the gateway supervises is not there for a moment.

use super::{LONG, Lab, ended, of_type, outcomes, prompt, session, signal};
use crate::support::wait_for;
use rustix::process::Signal;
use serde_json::Value;
use turnstream_fake_provider::{Delivery, Step};

/// The process of the opencode that the gateway has started, by its record.
fn opencode(lab: &Lab) -> i32 {
    wait_for(|| {
        let record = std::fs::read(lab.home.path("data/agents/opencode/opencode.json")).ok()?;
        let record: Value = serde_json::from_slice(&record).ok()?;
        record["process"]["id"].as_i64().map(|id| i32::try_from(id).unwrap())
    })
}

#[test]
fn a_prompt_that_is_sent_while_opencode_restarts_waits_for_it_and_runs_once() {
    let lab = Lab::new([Step::text("It answers.").always()]);
    let serving = lab.serve();
    let session = session(&serving, &lab.home.path("work"));
    prompt(&serving, &session, "First");
    ended(|| lab.log_of(&session), 1);
    let killed = opencode(&lab);
    signal(killed, Signal::KILL);
    prompt(&serving, &session, "Second");
    let log = ended(|| lab.log_of(&session), 2);
    assert_eq!(outcomes(&log), ["completed", "completed"], "{log:#?}");
    assert_eq!((of_type(&log, "prompt.sent").len(), lab.calls()), (2, 2), "each ran once");
    // It waited in the queue until there was somebody to send it to.
    let seq = |kind: &str, nth: usize| of_type(&log, kind)[nth]["seq"].as_u64().unwrap();
    assert!(seq("prompt.accepted", 1) < seq("prompt.sent", 1));
    assert_ne!(opencode(&lab), killed);
    let (status, _) = serving.end(Signal::TERM);
    assert!(status.success());
    assert_eq!(lab.left_over(), [""; 0]);
}

#[test]
fn a_prompt_that_was_sent_when_opencode_was_killed_is_sent_to_the_next_one() {
    // The model is never asked by the one that is killed: it stands still before the prompt comes.
    let lab = Lab::new([Step::text("It answers.").always()]);
    let serving = lab.serve();
    let session = session(&serving, &lab.home.path("work"));
    prompt(&serving, &session, "First");
    ended(|| lab.log_of(&session), 1);
    let killed = opencode(&lab);
    signal(killed, Signal::STOP);
    prompt(&serving, &session, "Second");
    wait_for(|| Some(()).filter(|()| of_type(&lab.log_of(&session), "prompt.sent").len() == 2));
    signal(killed, Signal::KILL);
    let log = ended(|| lab.log_of(&session), 2);
    assert_eq!(outcomes(&log), ["completed", "completed"], "{log:#?}");
    assert_eq!((of_type(&log, "prompt.sent").len(), lab.calls()), (2, 2), "each ran once");
    serving.end(Signal::TERM);
}

#[test]
fn a_session_that_is_made_right_after_opencode_was_killed_gets_its_answer() {
    let lab = Lab::new([Step::text("It answers.").always()]);
    let serving = lab.serve();
    let first = session(&serving, &lab.home.path("work"));
    prompt(&serving, &first, "First");
    ended(|| lab.log_of(&first), 1);
    signal(opencode(&lab), Signal::KILL);
    let second = session(&serving, &lab.home.path("work"));
    prompt(&serving, &second, "Second");
    let log = ended(|| lab.log_of(&second), 1);
    assert_eq!(outcomes(&log), ["completed"], "{log:#?}");
    serving.end(Signal::TERM);
}

#[test]
fn an_opencode_that_was_left_and_is_stopped_goes_on_with_its_turn_under_the_next_gateway() {
    let slow = Delivery { before_delta_ms: 150, ..Delivery::default() };
    let lab = Lab::new([Step::text(LONG).delivered(slow), Step::text("It answers.").always()]);
    let serving = lab.serve();
    let session = session(&serving, &lab.home.path("work"));
    prompt(&serving, &session, "Take your time");
    // One is enough: on a busy machine neighbouring deltas come as one.
    wait_for(|| Some(()).filter(|()| !of_type(&lab.log_of(&session), "item.delta").is_empty()));
    let left = opencode(&lab);
    serving.end(Signal::KILL);
    signal(left, Signal::STOP);
    let serving = lab.serve();
    // Until that is settled no prompt is taken.
    ended(|| lab.log_of(&session), 1);
    prompt(&serving, &session, "Second");
    let log = ended(|| lab.log_of(&session), 2);
    assert_eq!(outcomes(&log), ["completed", "completed"], "{log:#?}");
    assert_eq!((opencode(&lab), lab.calls()), (left, 2), "the same opencode, and each prompt ran once");
    serving.end(Signal::TERM);
    assert_eq!(lab.left_over(), [""; 0]);
}
