//! Turns that are stopped: by a cancel, by dropping the stream. The next message starts cleanly.

use crate::lab::{Lab, slowly};
use crate::seen::Seen;
use crate::support::{ANSWER, within};
use serde_json::json;
use std::time::Duration;
use turnstream_dialects::acp::AcpEvent;
use turnstream_fake_provider::{Completion, Ended, Part, Step};
use turnstream_opencode_client::SessionRef;

const ENDLESS: &str = "On and on it goes, and on and on, and nobody knows when it will ever come to an end, \
    because there is always a little more to say, and then a little more, and another word, and one more.";

fn script() -> Vec<Step> {
    let bash = |command: &str| {
        Step::new(Completion::of([Part::tool_call(
            "bash",
            json!({"command": command, "description": "As scripted"}),
        )]))
    };
    vec![
        // The message before, which has no answer, comes with it.
        Step::text(ANSWER).for_user_text("Say hello").always(),
        Step::text(ENDLESS).delivered(slowly(2_000)).for_user_text("Go on").always(),
        bash("echo begun > begun.txt; sleep 300").for_user_text("Sleep"),
        bash("touch never.txt").for_user_text("Ask me"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_that_are_stopped() {
    let lab = Lab::start(script()).await;
    // In a directory that was just opened, opencode 1.18.33 loads its models in the first turn. If that
    // turn is aborted, all turns that wait for the models fail with "All fibers interrupted without error".
    next_is_clean(&lab, &lab.session().await).await;
    tokio::join!(
        cancelled_after_a_while(&lab, Duration::ZERO),
        cancelled_after_a_while(&lab, Duration::from_millis(100)),
        cancelled_after_a_while(&lab, Duration::from_millis(500)),
        cancelled_in_the_middle_of_its_text(&lab),
        cancelled_in_the_middle_of_a_tool(&lab),
        cancelled_while_it_waits_for_a_person(&lab),
        dropped_before_it_began(&lab),
        dropped_in_the_middle(&lab),
        dropped_while_it_waits_for_its_turn(&lab),
    );
}

/// The next message is answered, and nothing of the last one shows in it.
async fn next_is_clean(lab: &Lab, session: &SessionRef) {
    let seen = lab.ask(session, "Say hello").ended().await;
    assert_eq!((seen.text().as_str(), seen.end().as_str()), (ANSWER, "end_turn"));
    assert_eq!(seen.calls(), []);
    let status = lab.client.status(&session.directory).await.unwrap();
    assert_eq!(status.get(&session.id), None, "nothing runs on");
}

fn is_cancelled(seen: &Seen) {
    assert_eq!(seen.end(), "cancelled", "{:?}", seen.events);
}

async fn cancelled_after_a_while(lab: &Lab, after: Duration) {
    let session = lab.session().await;
    let watch = lab.ask(&session, "Go on");
    tokio::time::sleep(after).await;
    watch.turn.cancel();
    is_cancelled(&watch.ended().await);
    next_is_clean(lab, &session).await;
}

async fn cancelled_in_the_middle_of_its_text(lab: &Lab) {
    let session = lab.session().await;
    let mut watch = lab.ask(&session, "Go on");
    watch.until_text().await;
    watch.turn.cancel();
    // Twice is not more than once.
    watch.turn.cancel();
    let seen = watch.ended().await;
    is_cancelled(&seen);
    assert!(!seen.text().is_empty() && ENDLESS.starts_with(&seen.text()), "{}", seen.text());
    next_is_clean(lab, &session).await;
}

async fn cancelled_in_the_middle_of_a_tool(lab: &Lab) {
    let session = lab.session().await;
    let watch = lab.ask(&session, "Sleep");
    let begun = session.directory.as_path().join("begun.txt");
    within(|| begun.exists().then_some(())).await;
    watch.turn.cancel();
    let seen = watch.ended().await;
    is_cancelled(&seen);
    assert_eq!(seen.calls().len(), 1);
    next_is_clean(lab, &session).await;
}

async fn cancelled_while_it_waits_for_a_person(lab: &Lab) {
    let session = lab.session_with(&json!({"permission": {"bash": "ask"}})).await;
    let mut watch = lab.ask(&session, "Ask me");
    watch.until(|event| matches!(event, AcpEvent::Permission(_))).await;
    watch.turn.cancel();
    let seen = watch.ended().await;
    is_cancelled(&seen);
    assert_eq!(seen.open_asks(), 0);
    next_is_clean(lab, &session).await;
    // opencode keeps what nobody answers (capture d5).
    assert_eq!(lab.asks(&session).await, 0);
    assert!(!session.directory.as_path().join("never.txt").exists());
}

async fn dropped_before_it_began(lab: &Lab) {
    let session = lab.session().await;
    let watch = lab.ask(&session, "Go on");
    within(|| (lab.prompts(&session) == 1).then_some(())).await;
    drop(watch);
    next_is_clean(lab, &session).await;
}

async fn dropped_in_the_middle(lab: &Lab) {
    let session = lab.session().await;
    let mut watch = lab.ask(&session, "Go on, but not for me");
    watch.until_text().await;
    drop(watch);
    next_is_clean(lab, &session).await;
    assert_eq!(lab.aborts(&session), 1);
    let calls = lab.provider.calls();
    let mut left = calls.iter().filter(|call| call.asked.user_text.contains("but not for me"));
    assert_eq!(left.next().unwrap().ended, Ended::ClientLeft, "the model was left alone");
}

async fn dropped_while_it_waits_for_its_turn(lab: &Lab) {
    let session = lab.session().await;
    let mut first = lab.ask(&session, "Go on");
    let second = lab.ask(&session, "Never sent");
    first.until_text().await;
    drop(second);
    // It has nothing to stop: the first goes on.
    first.until_text().await;
    first.turn.cancel();
    is_cancelled(&first.ended().await);
    next_is_clean(lab, &session).await;
    assert_eq!((lab.prompts(&session), lab.model_calls("Never sent")), (2, 0));
}
