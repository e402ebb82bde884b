//! Turns that are stopped by a limit of ours: each is aborted first and ends with its own error.

use crate::lab::{Lab, slowly};
use crate::seen::Seen;
use crate::support::ANSWER;
use serde_json::json;
use std::time::Duration;
use turnstream_dialects::acp::AcpEvent;
use turnstream_fake_provider::{Completion, Fault, Finish, Part, Step};
use turnstream_opencode_client::conversation::Budget;
use turnstream_opencode_client::{SessionRef, TurnSettings};

fn script() -> Vec<Step> {
    let silent = Fault::Stall { after: 600, lasts_ms: None, comment_every_ms: Some(200) };
    let touch = Part::tool_call("bash", json!({"command": "touch never.txt", "description": "As scripted"}));
    vec![
        // The message before, which has no answer, comes with it.
        Step::text(ANSWER).for_user_text("Say hello").always(),
        Step::new(Completion::text("Again. ").finished(Finish::Missing)).for_user_text("Never stop").always(),
        Step::text(ANSWER).fault(silent).for_user_text("Say no more").always(),
        Step::text(&"And more of it. ".repeat(100)).delivered(slowly(200)).for_user_text("Take long"),
        Step::new(Completion::of([touch])).for_user_text("Ask me"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_that_reach_a_limit() {
    let lab = Lab::start(script()).await;
    // In a directory that was just opened, opencode 1.18.33 loads its models in the first turn. If that
    // turn is aborted, all turns that wait for the models fail with "All fibers interrupted without error".
    // A limit does that on a slow machine. After a first turn with an answer there is nothing left to load.
    let first = lab.ask(&lab.session().await, "Say hello").ended().await;
    assert_eq!((first.text().as_str(), first.end().as_str()), (ANSWER, "end_turn"));
    tokio::join!(
        a_model_that_never_says_why_it_stopped_is_stopped_by_the_budget(&lab),
        silence_stops_a_turn(&lab),
        a_turn_that_takes_too_long_is_stopped(&lab),
        waiting_for_a_person_is_no_silence_but_takes_its_time(&lab),
    );
}

/// The server was told to stop before the turn had its end, and the next message is answered.
async fn is_over(lab: &Lab, session: &SessionRef, seen: &Seen, expected: (i32, &str)) {
    let fault = seen.fault();
    assert_eq!((fault.code, fault.class.as_str()), expected, "{fault:?}");
    assert!(lab.aborts(session) >= 1, "aborted first");
    let status = lab.client.status(&session.directory).await.unwrap();
    assert_eq!(status.get(&session.id), None, "nothing runs on");
    let next = lab.ask(session, "Say hello").ended().await;
    assert_eq!((next.text().as_str(), next.end().as_str()), (ANSWER, "end_turn"));
}

async fn a_model_that_never_says_why_it_stopped_is_stopped_by_the_budget(lab: &Lab) {
    let session = lab.session().await;
    let budget = Budget { steps: Some(5), ..Budget::default() };
    let seen =
        lab.send(&session, "Never stop", TurnSettings { budget, ..TurnSettings::default() }).ended().await;
    assert!(seen.text().starts_with("Again. Again. Again. Again. Again. "), "{}", seen.text());
    assert_eq!(seen.notices(), ["budget"]);
    is_over(lab, &session, &seen, (-2, "budget")).await;
    let calls = lab.model_calls("Never stop");
    assert!((5..20).contains(&calls), "{calls} calls");
}

async fn silence_stops_a_turn(lab: &Lab) {
    let session = lab.session().await;
    let settings = TurnSettings {
        inactivity: Duration::from_secs(4),
        keep_alive: Some(Duration::from_millis(500)),
        ..TurnSettings::default()
    };
    let seen = lab.send(&session, "Say no more", settings).ended().await;
    let alive = seen.events.iter().filter(|event| **event == AcpEvent::KeepAlive).count();
    assert!(alive >= 2, "{:?}", seen.events);
    assert!(ANSWER.starts_with(&seen.text()), "{}", seen.text());
    is_over(lab, &session, &seen, (-1, "timeout")).await;
}

async fn a_turn_that_takes_too_long_is_stopped(lab: &Lab) {
    let session = lab.session().await;
    let settings = TurnSettings { wall_clock: Some(Duration::from_secs(5)), ..TurnSettings::default() };
    let seen = lab.send(&session, "Take long", settings).ended().await;
    is_over(lab, &session, &seen, (-1, "timeout")).await;
}

async fn waiting_for_a_person_is_no_silence_but_takes_its_time(lab: &Lab) {
    let session = lab.session_with(&json!({"permission": {"bash": "ask"}})).await;
    // The first turn of a directory takes longer.
    lab.ask(&session, "Say hello").ended().await;
    let settings = TurnSettings {
        inactivity: Duration::from_secs(12),
        wall_clock: Some(Duration::from_secs(25)),
        ..TurnSettings::default()
    };
    let seen = lab.send(&session, "Ask me", settings).ended().await;
    assert!(seen.events.iter().any(|event| matches!(event, AcpEvent::Permission(_))), "{:?}", seen.events);
    assert!(seen.fault().message.contains("longer than 25 seconds"), "{:?}", seen.fault());
    assert_eq!(seen.open_asks(), 0);
    is_over(lab, &session, &seen, (-1, "timeout")).await;
    assert_eq!(lab.asks(&session).await, 0);
}
