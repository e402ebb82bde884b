//! Asks, questions and cancels.

use crate::support::{Keeper, People};
use serde_json::json;
use std::time::Duration;
use turnstream_agents::Command;
use turnstream_model::check::Tail;
use turnstream_model::event::{ApprovalOutcome, Outcome, StopReason};
use turnstream_model::fold::ItemStage;
use turnstream_model::id::Key;
use turnstream_model::signal::Signal;

#[tokio::test]
async fn an_allowed_tool_runs_once_however_often_it_is_allowed() {
    let mut keeper = Keeper::new().await;
    keeper.people = People::Away;
    let ran = json!({"append": {"path": "n", "text": "ran\n"}});
    keeper
        .play(json!([{"do": "tool", "ask": true, "effect": ran}, {"do": "sleep", "ms": 20}]))
        .await
        .unwrap();
    keeper.until_signal(|signal| matches!(signal, Signal::Ask { .. })).await;
    let key = Key::from("ses_1.p1/1?");
    let unknown = Command::Approve {
        key: Key::from("no such"),
        outcome: ApprovalOutcome::AllowOnce,
        option: None,
        message: None,
    };
    keeper.tell(unknown).await.unwrap();
    assert!(keeper.quiet_for(Duration::from_millis(20)).await.is_none());
    assert!(keeper.file("n").is_none());
    for _ in 0..3 {
        keeper.answer(&key, People::Allow).await.unwrap();
    }
    keeper.until_quiet().await.unwrap();
    assert_eq!(keeper.turn().outcome, Some(Outcome::Completed));
    assert_eq!(keeper.file("n").unwrap(), "ran\n");
}

#[tokio::test]
async fn a_rejected_tool_fails_and_the_turn_goes_on() {
    let mut keeper = Keeper::new().await;
    keeper.people = People::Reject;
    keeper
        .play_out(json!([
            {"do": "tool", "ask": true, "effect": {"write": {"path": "a", "text": "x"}}},
            {"do": "text", "text": "yes", "when": "allowed"},
            {"do": "text", "text": "no", "when": "rejected"},
        ]))
        .await;
    assert_eq!(keeper.turn().stop_reason, Some(StopReason::EndTurn));
    assert_eq!(keeper.items()[0].state, ItemStage::Failed);
    assert_eq!(keeper.items()[1].text.as_deref(), Some("no"));
    assert_eq!(keeper.items().len(), 2);
    assert!(keeper.file("a").is_none());
}

#[tokio::test]
async fn a_rejection_ends_the_turn_where_the_script_or_the_person_says_so() {
    for (people, if_rejected) in [(People::Reject, "stop"), (People::RejectAndStop, "go_on")] {
        let mut keeper = Keeper::new().await;
        keeper.people = people;
        keeper
            .play_out(
                json!([{"do": "tool", "ask": true, "if_rejected": if_rejected}, {"do": "text", "text": "x"}]),
            )
            .await;
        let turn = keeper.turn();
        assert_eq!((turn.outcome, turn.stop_reason), (Some(Outcome::Completed), Some(StopReason::Rejected)));
        assert_eq!(keeper.items().len(), 1);
    }
}

#[tokio::test]
async fn a_question_waits_for_its_answer() {
    let question = json!({"do": "question", "questions": [{"id": "0", "text": "Which?", "options": [{"label": "this"}], "custom": true}]});
    for (people, said) in [(People::Allow, "thanks"), (People::Reject, "pity")] {
        let mut keeper = Keeper::new().await;
        keeper.people = people;
        let (thanks, pity) = (
            json!({"do": "text", "text": "thanks", "when": "allowed"}),
            json!({"do": "text", "text": "pity", "when": "rejected"}),
        );
        keeper.play_out(json!([question, thanks, pity])).await;
        keeper.turn();
        assert_eq!(
            keeper.items().iter().map(|item| item.text.as_deref().unwrap()).collect::<Vec<_>>(),
            [said]
        );
    }
}

#[tokio::test]
async fn several_asks_are_open_at_once_and_answered_in_any_order() {
    let mut keeper = Keeper::new().await;
    keeper.people = People::Away;
    let tool =
        |path: &str| json!({"do": "tool", "ask": true, "effect": {"write": {"path": path, "text": "x"}}});
    let question = json!({"do": "question", "questions": [{"id": "0", "text": "Which?"}]});
    keeper.play(json!([{"do": "at_once", "steps": [tool("a"), question, tool("b")]}, {"do": "text", "text": "done", "when": "rejected"}])).await.unwrap();
    keeper
        .until_signal(|signal| matches!(signal, Signal::Ask { key, .. } if key.as_str().ends_with(".3?")))
        .await;
    let key = |part: &str| Key::from(format!("ses_1.p1/1{part}"));
    keeper.answer(&key(".3?"), People::Reject).await.unwrap();
    keeper.answer(&key(".2"), People::Allow).await.unwrap();
    assert!(keeper.quiet_for(Duration::from_millis(20)).await.is_none());
    assert!(keeper.file("a").is_none());
    keeper.answer(&key(".1?"), People::Allow).await.unwrap();
    keeper.until_quiet().await.unwrap();
    keeper.turn();
    assert_eq!((keeper.file("a").is_some(), keeper.file("b").is_some()), (true, false));
    assert_eq!(keeper.items().last().unwrap().text.as_deref(), Some("done"));
}

#[tokio::test]
async fn a_cancel_ends_the_turn_at_any_moment_and_closes_what_waits() {
    let asks =
        json!({"do": "at_once", "steps": [{"do": "tool", "ask": true}, {"do": "question", "questions": []}]});
    let scripts = [
        json!([asks]),
        json!([{"do": "stall"}]),
        json!([{"do": "text", "text": "x"}, {"do": "sleep", "ms": 60_000}]),
        json!([{"do": "sleep", "ms": 60_000}, {"do": "begin"}]),
        json!([{"do": "tool", "takes_ms": 60_000}]),
        json!([{"do": "text", "text": "a b c d e f", "pace_ms": 60_000}]),
        json!([{"do": "burst", "count": 1_000, "bytes": 1, "per_second": 1}]),
        json!([{"do": "attempt"}, {"do": "retry", "wait_ms": 60_000}]),
    ];
    for (script, pause) in scripts.iter().flat_map(|script| [(script, 0), (script, 5)]) {
        let mut keeper = Keeper::new().await;
        keeper.people = People::Away;
        keeper.play(script.clone()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(pause)).await;
        keeper.tell(Command::Cancel).await.unwrap();
        keeper.until_quiet().await.unwrap();
        let turn = keeper.turn();
        assert_eq!(turn.outcome, Some(Outcome::Cancelled), "{script}");
        // The agent is not stuck: it plays the next prompt.
        keeper.play_out(json!([])).await;
        assert_eq!(keeper.turns()[1].outcome, Some(Outcome::Completed));
        keeper.assert_lawful(Tail::Settled);
    }
}

#[tokio::test]
async fn asks_of_a_cancelled_turn_are_closed_by_the_agent_first() {
    let mut keeper = Keeper::new().await;
    keeper.people = People::Away;
    keeper.play(json!([{"do": "tool", "ask": true}])).await.unwrap();
    keeper.until_signal(|signal| matches!(signal, Signal::Ask { .. })).await;
    keeper.tell(Command::Cancel).await.unwrap();
    keeper
        .until_signal(|signal| {
            matches!(signal, Signal::AskClosed { outcome: ApprovalOutcome::Cancelled, .. })
        })
        .await;
    keeper.until_quiet().await.unwrap();
    assert_eq!(keeper.turn().outcome, Some(Outcome::Cancelled));
}

#[tokio::test]
async fn a_cancel_when_nothing_runs_cancels_nothing() {
    let mut keeper = Keeper::new().await;
    keeper.tell(Command::Cancel).await.unwrap();
    keeper.play_out(json!([{"do": "text", "text": "x"}])).await;
    assert_eq!(keeper.turn().outcome, Some(Outcome::Completed));
}

#[tokio::test]
async fn a_changed_model_is_used_from_then_on() {
    let mut keeper = Keeper::new().await;
    keeper
        .tell(Command::Change { model: Some("other".to_owned()), mode: None, permissions: None })
        .await
        .unwrap();
    keeper.play_out(json!([{"do": "attempt"}, {"do": "attempt_end", "finish": "stop"}])).await;
    assert_eq!(keeper.turn().attempts[0].model.as_deref(), Some("other"));
}
