//! What goes wrong on purpose.

use crate::support::Keeper;
use serde_json::json;
use std::time::Duration;
use turnstream_agents::{Command, Observed};
use turnstream_model::check::Tail;
use turnstream_model::event::{ErrorClass, Outcome};
use turnstream_model::fold::ItemStage;
use turnstream_model::id::{Key, TurnId};
use turnstream_model::signal::{Need, ProbedStatus, Signal};

#[tokio::test]
async fn a_crash_is_said_and_ends_the_link() {
    let mut keeper = Keeper::new().await;
    keeper.play_out(json!([{"do": "text", "text": "x"}, {"do": "tool", "takes_ms": 0}, {"do": "crash", "message": "out of luck"}])).await;
    let turn = keeper.turn();
    assert_eq!(turn.outcome, Some(Outcome::Lost));
    let error = turn.error.as_ref().unwrap();
    assert_eq!((error.class, error.message.as_str()), (ErrorClass::AgentExited, "out of luck"));
    assert!(keeper.observe().await.unwrap().is_none());
}

#[tokio::test]
async fn a_vanished_agent_says_nothing() {
    let mut keeper = Keeper::new().await;
    keeper.play_out(json!([{"do": "text", "text": "x"}, {"do": "vanish"}])).await;
    assert!(!keeper.is_linked());
    keeper.assert_lawful(Tail::Live);
    assert_eq!(keeper.count("turn.ended"), 0);
    keeper.restart().await;
    keeper.until_quiet().await.unwrap();
    assert_eq!(keeper.turn().outcome, Some(Outcome::Lost));
}

#[tokio::test]
async fn a_silent_agent_has_the_prompt_and_never_starts() {
    let mut keeper = Keeper::new().await;
    let prompt = keeper.play(json!([{"do": "silent"}])).await.unwrap();
    assert!(keeper.quiet_for(Duration::from_millis(30)).await.is_none());
    keeper.step(|machine, step| machine.never_started(&prompt, step)).unwrap();
    assert_eq!(keeper.turn().error.as_ref().unwrap().class, ErrorClass::NotStarted);
    keeper.play_out(json!([{"do": "text", "text": "x"}])).await;
    assert_eq!(keeper.turns()[1].outcome, Some(Outcome::Completed));
}

#[tokio::test]
async fn garbage_is_noted_and_the_turn_goes_on() {
    let mut keeper = Keeper::new().await;
    keeper.play_out(json!([{"do": "garbage"}, {"do": "text", "text": "x"}])).await;
    assert_eq!(keeper.turn().outcome, Some(Outcome::Completed));
    assert_eq!(keeper.notices(), ["corrupt"]);
}

#[tokio::test]
async fn a_gap_is_mended_by_snapshots_and_a_status_probe() {
    let mut keeper = Keeper::new().await;
    keeper
        .play_out(json!([
            {"do": "text", "text": "before"},
            {"do": "gap", "text": "half of this was missed"},
            {"do": "text", "text": "after"},
        ]))
        .await;
    assert_eq!(keeper.turn().outcome, Some(Outcome::Completed));
    assert_eq!(keeper.notices(), ["gap"]);
    let texts: Vec<_> =
        keeper.items().iter().map(|item| (item.text.as_deref().unwrap(), item.state)).collect();
    let done = ItemStage::Completed;
    assert_eq!(texts, [("before", done), ("half of this was missed", done), ("after", done)]);
    let probed = |observed: &&Observed| {
        matches!(observed, Observed::Signal(Signal::StatusProbed { status: ProbedStatus::Busy, .. }))
    };
    assert_eq!(keeper.observed.iter().filter(probed).count(), 1);
}

#[tokio::test]
async fn duplicates_change_nothing() {
    let mut keeper = Keeper::new().await;
    keeper
        .play_out(json!([
            {"do": "attempt"},
            {"do": "text", "text": "a b"},
            {"do": "tool", "ask": true, "effect": {"append": {"path": "n", "text": "ran\n"}}},
            {"do": "attempt_end", "finish": "stop"},
            {"do": "duplicate", "count": 50},
        ]))
        .await;
    let turn = keeper.turn();
    assert_eq!((turn.outcome, turn.attempts.len()), (Some(Outcome::Completed), 1));
    assert_eq!(keeper.items().len(), 2);
    assert_eq!(keeper.items()[0].text.as_deref(), Some("a b"));
    assert_eq!(keeper.file("n").unwrap(), "ran\n");
    assert_eq!(keeper.count("approval.requested"), 1);
}

#[tokio::test]
async fn needs_are_always_answered() {
    let mut keeper = Keeper::new().await;
    let probed = |status| Signal::StatusProbed { turn: TurnId::from("t9"), status };
    keeper.tell(Command::Fetch(Need::StatusProbe(TurnId::from("t9")))).await.unwrap();
    keeper.until_signal(|signal| *signal == probed(ProbedStatus::Idle)).await;
    keeper.tell(Command::Fetch(Need::Item(Key::from("nothing")))).await.unwrap();
    keeper.until_signal(|signal| *signal == Signal::ItemRemoved(Key::from("nothing"))).await;
    keeper.play(json!([{"do": "text", "text": "x"}, {"do": "stall"}])).await.unwrap();
    keeper.until_signal(|signal| matches!(signal, Signal::ItemEnded { .. })).await;
    keeper.tell(Command::Fetch(Need::StatusProbe(TurnId::from("t9")))).await.unwrap();
    keeper.until_signal(|signal| *signal == probed(ProbedStatus::Busy)).await;
    keeper.tell(Command::Fetch(Need::Item(Key::from("ses_1.p1/1")))).await.unwrap();
    keeper
        .until_signal(|signal| matches!(signal, Signal::ItemSeen(seen) if seen.key.as_str() == "ses_1.p1/1"))
        .await;
    keeper.tell(Command::Cancel).await.unwrap();
    keeper.until_quiet().await.unwrap();
    keeper.turn();
}

#[tokio::test]
async fn a_link_that_is_stopped_ends_in_good_order() {
    let mut keeper = Keeper::new().await;
    keeper.play(json!([{"do": "stall"}])).await.unwrap();
    keeper.until_signal(|signal| matches!(signal, Signal::TurnBegan { .. })).await;
    // It stalls for ever unless it is told to end, and is ended by force after ten seconds.
    tokio::time::timeout(Duration::from_secs(300), keeper.stop()).await.expect("it ends");
}
