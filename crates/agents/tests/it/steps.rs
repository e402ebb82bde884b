//! What a script without faults leads to.

use crate::support::Keeper;
use serde_json::{Value, json};
use turnstream_model::event::{ErrorClass, ItemKind, Origin, Outcome, StopReason};
use turnstream_model::fold::ItemStage;

#[tokio::test]
async fn texts_reasoning_and_plans_become_items() {
    let mut keeper = Keeper::new().await;
    keeper
        .play_out(json!([
            {"do": "reasoning", "text": "Hm, let me see."},
            {"do": "plan", "text": "1. Look\n2. Say"},
            {"do": "text", "text": "Grüße aus dem Skript", "chunks": 3},
        ]))
        .await;
    let turn = keeper.turn();
    assert_eq!(
        (turn.origin, turn.outcome, turn.stop_reason),
        (Origin::Prompt, Some(Outcome::Completed), Some(StopReason::EndTurn))
    );
    let shown: Vec<_> =
        keeper.items().iter().map(|item| (item.kind, item.text.as_deref().unwrap(), item.state)).collect();
    assert_eq!(
        shown,
        [
            (ItemKind::Reasoning, "Hm, let me see.", ItemStage::Completed),
            (ItemKind::Plan, "1. Look\n2. Say", ItemStage::Completed),
            (ItemKind::Message, "Grüße aus dem Skript", ItemStage::Completed),
        ]
    );
}

#[tokio::test]
async fn tools_have_real_effects() {
    let mut keeper = Keeper::new().await;
    keeper
        .play_out(json!([
            {"do": "tool", "effect": {"write": {"path": "a.txt", "text": "one\n"}}},
            {"do": "tool", "effect": {"append": {"path": "a.txt", "text": "two\n"}}},
            {"do": "tool", "effect": {"count": {"path": "a.txt"}}},
            {"do": "tool", "effect": {"read": {"path": "a.txt"}}},
            {"do": "tool", "name": "make", "output": ["com", "piled"], "takes_ms": 1},
            {"do": "tool", "name": "break", "fail": "no such luck"},
        ]))
        .await;
    keeper.turn();
    assert_eq!(keeper.file("a.txt").unwrap(), "one\ntwo\n");
    let outputs: Vec<_> =
        keeper.items().iter().map(|item| (item.state, item.tool.clone().unwrap().output.unwrap())).collect();
    let done = ItemStage::Completed;
    assert_eq!(
        outputs,
        [
            (done, json!({"bytes": 4})),
            (done, json!({"bytes": 4})),
            (done, json!({"lines": 2})),
            (done, json!({"text": "one\ntwo\n"})),
            (done, json!("compiled")),
            (ItemStage::Failed, json!({"error": "no such luck"})),
        ]
    );
    assert_eq!(keeper.items()[4].output.as_deref(), Some("compiled"));
}

#[tokio::test]
async fn paths_that_lead_outside_fail_the_tool_and_not_the_turn() {
    let mut keeper = Keeper::new().await;
    keeper
        .play_out(json!([
            {"do": "tool", "effect": {"append": {"path": "../out.txt", "text": "x"}}},
            {"do": "tool", "effect": {"read": {"path": "/etc/hostname"}}},
        ]))
        .await;
    assert_eq!(keeper.turn().outcome, Some(Outcome::Completed));
    assert!(keeper.items().iter().all(|item| item.state == ItemStage::Failed), "{}", keeper.show());
    assert!(!keeper.cwd.path().parent().unwrap().join("out.txt").exists());
}

#[tokio::test]
async fn model_calls_are_shown_and_a_retry_voids_what_is_unfinished() {
    let mut keeper = Keeper::new().await;
    keeper
        .play_out(json!([
            {"do": "attempt", "model": "m"},
            {"do": "text", "text": "Half of", "unfinished": true},
            {"do": "retry", "attempt": 2, "reason": "overloaded", "wait_ms": 1},
            {"do": "text", "text": "All of it"},
            {"do": "attempt_end", "finish": "stop", "usage": {"input": 10, "output": 3}},
        ]))
        .await;
    let turn = keeper.turn();
    assert_eq!(turn.attempts.iter().map(|attempt| attempt.step).collect::<Vec<_>>(), [1, 1]);
    assert!(turn.attempts[0].superseded_by.is_some());
    assert_eq!(turn.attempts[1].model.as_deref(), Some("model-1"));
    assert_eq!(turn.usage.as_ref().unwrap().input, Some(10));
    let texts: Vec<_> = keeper.items().iter().map(|item| item.text.as_deref().unwrap()).collect();
    assert_eq!(texts, ["All of it"]);
}

#[tokio::test]
async fn a_retry_without_a_visible_call_cuts_off_what_is_unfinished() {
    let mut keeper = Keeper::new().await;
    keeper
        .play_out(json!([
            {"do": "text", "text": "Half of", "unfinished": true},
            {"do": "retry"},
            {"do": "text", "text": "All of it"},
        ]))
        .await;
    keeper.turn();
    let states: Vec<_> = keeper.items().iter().map(|item| item.state).collect();
    assert_eq!(states, [ItemStage::Abandoned, ItemStage::Completed]);
}

#[tokio::test]
async fn usage_cost_and_context_are_reported() {
    let mut keeper = Keeper::new().await;
    keeper
        .play_out(json!([
            {"do": "text", "text": "x"},
            {"do": "usage", "usage": {"input": 7}, "cost": {"amount": 0.5, "currency": "EUR"}, "context": {"used": 7, "size": 100}},
        ]))
        .await;
    let turn = keeper.turn();
    assert_eq!(turn.usage.as_ref().unwrap().input, Some(7));
    assert_eq!(turn.cost.as_ref().unwrap().amount, 0.5);
    assert_eq!(keeper.fold.state().session.context.as_ref().unwrap().size, Some(100));
}

async fn ending(steps: Value) -> (Option<Outcome>, Option<StopReason>, Option<ErrorClass>) {
    let mut keeper = Keeper::new().await;
    keeper.play_out(steps).await;
    let turn = keeper.turn();
    (turn.outcome, turn.stop_reason, turn.error.as_ref().map(|error| error.class))
}

#[tokio::test]
async fn turns_end_as_the_script_says() {
    let completed = |reason| (Some(Outcome::Completed), Some(reason), None);
    let failed = |class| (Some(Outcome::Failed), None, Some(class));
    assert_eq!(ending(json!([])).await, completed(StopReason::EndTurn));
    assert_eq!(
        ending(json!([{"do": "end", "stop_reason": "refusal"}])).await,
        completed(StopReason::Refusal)
    );
    let text = json!({"do": "text", "text": "x"});
    assert_eq!(ending(json!([text, {"do": "idle"}])).await, completed(StopReason::EndTurn));
    assert_eq!(
        ending(json!([text, {"do": "idle", "stop_reason": "max_tokens"}])).await,
        completed(StopReason::MaxTokens)
    );
    let why = |r#do| json!({"do": r#do, "class": "overloaded", "message": "try later"});
    assert_eq!(ending(json!([text, why("fail")])).await, failed(ErrorClass::Overloaded));
    assert_eq!(ending(json!([text, why("error"), {"do": "idle"}])).await, failed(ErrorClass::Overloaded));
    assert_eq!(
        ending(json!([{"do": "refuse", "class": "auth", "message": "log in"}])).await,
        failed(ErrorClass::Auth)
    );
    assert_eq!(
        ending(json!([{"do": "sleep", "ms": 1}, {"do": "begin"}, text])).await,
        completed(StopReason::EndTurn)
    );
}

#[tokio::test]
async fn a_burst_is_all_there() {
    let mut keeper = Keeper::new().await;
    keeper
        .play_out(json!([
            {"do": "burst", "count": 5000, "bytes": 8},
            {"do": "burst", "count": 20, "bytes": 1, "per_second": 1000},
            {"do": "burst", "count": 7, "bytes": 2, "messages": 2},
        ]))
        .await;
    keeper.turn();
    let sizes: Vec<_> = keeper.items().iter().map(|item| item.text.as_ref().unwrap().len()).collect();
    assert_eq!(sizes, [40_000, 20, 8, 6]);
    assert_eq!(keeper.count("item.delta"), 5_027);
}

#[tokio::test]
async fn every_piece_of_a_stamped_burst_says_which_it_is_and_when_it_was_sent() {
    let mut keeper = Keeper::new().await;
    keeper.play_out(json!([{"do": "burst", "count": 12, "bytes": 30, "stamp": true}])).await;
    keeper.turn();
    let text = keeper.items()[0].text.clone().unwrap();
    let mut before = 0;
    for (number, piece) in text.as_bytes().chunks(30).enumerate() {
        let piece = std::str::from_utf8(piece).unwrap();
        assert!(piece.starts_with(&format!("@{number:08}:")) && piece.ends_with(";xxx"), "{piece}");
        let micros: u64 = piece[10..26].parse().unwrap();
        assert!(before <= micros && micros > 0, "{piece}");
        before = micros;
    }
    assert_eq!(text.len(), 12 * 30);
}
