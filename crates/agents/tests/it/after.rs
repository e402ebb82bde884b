//! What comes after the end of a turn, and turns that nobody here asked for.

use crate::support::Keeper;
use serde_json::json;
use turnstream_model::check::Tail;
use turnstream_model::event::{Origin, Outcome, Role};
use turnstream_model::fold::ItemStage;
use turnstream_model::signal::Signal;

#[tokio::test]
async fn late_news_of_a_turn_starts_nothing_and_ends_nothing() {
    let mut keeper = Keeper::new().await;
    keeper
        .play_out(json!([
            {"do": "text", "text": "x"},
            {"do": "tool", "name": "slow"},
            {"do": "late", "what": "tool"},
            {"do": "late", "what": "text"},
            {"do": "late", "what": "idle"},
            {"do": "late", "what": "done", "after_ms": 1},
        ]))
        .await;
    keeper.until_signal(|signal| matches!(signal, Signal::TurnDone { .. })).await;
    assert_eq!(keeper.turn().outcome, Some(Outcome::Completed));
    assert_eq!(keeper.count("item.revised"), 1);
    assert_eq!(keeper.notices(), ["late"]);
    keeper.play_out(json!([{"do": "text", "text": "y"}])).await;
    keeper.assert_lawful(Tail::Settled);
    assert_eq!(keeper.count("turn.ended"), 2);
}

#[tokio::test]
async fn a_stale_idle_does_not_end_the_next_turn() {
    let mut keeper = Keeper::new().await;
    keeper
        .play_out(json!([{"do": "text", "text": "x"}, {"do": "late", "what": "idle", "at": "next_turn"}]))
        .await;
    keeper.play_out(json!([{"do": "sleep", "ms": 60}, {"do": "text", "text": "whole"}])).await;
    keeper.assert_lawful(Tail::Settled);
    assert_eq!(keeper.turns().len(), 2);
    let last = keeper.items().last().unwrap();
    assert_eq!((last.text.as_deref(), last.state), (Some("whole"), ItemStage::Completed));
    assert_eq!(last.turn.as_ref(), Some(&keeper.turns()[1].turn));
}

#[tokio::test]
async fn an_agent_that_wakes_up_has_a_turn_of_its_own() {
    let mut keeper = Keeper::new().await;
    keeper.play_out(json!([{"do": "text", "text": "x"}, {"do": "wake", "after_ms": 5, "steps": [{"do": "text", "text": "by myself"}]}])).await;
    keeper.until_signal(|signal| matches!(signal, Signal::TurnBegan { .. })).await;
    keeper.until_quiet().await.unwrap();
    keeper.assert_lawful(Tail::Settled);
    let turn = &keeper.turns()[1];
    assert_eq!((turn.origin, turn.prompts.len(), turn.outcome), (Origin::Agent, 0, Some(Outcome::Completed)));
    assert_eq!(keeper.items()[1].text.as_deref(), Some("by myself"));
}

#[tokio::test]
async fn another_clients_prompt_begins_a_foreign_turn() {
    let mut keeper = Keeper::new().await;
    keeper
        .play_out(json!([{"do": "foreign", "prompt": "from elsewhere", "steps": [{"do": "text", "text": "for them"}]}]))
        .await;
    keeper.until_signal(|signal| matches!(signal, Signal::TurnBegan { .. })).await;
    keeper.until_quiet().await.unwrap();
    keeper.assert_lawful(Tail::Settled);
    assert_eq!(keeper.turns()[1].origin, Origin::Foreign);
    let said: Vec<_> = keeper.items().iter().map(|item| (item.role, item.text.as_deref().unwrap())).collect();
    assert_eq!(said, [(Some(Role::User), "from elsewhere"), (Some(Role::Assistant), "for them")]);
}

#[tokio::test]
async fn background_work_is_below_its_tool_and_in_no_turn() {
    let mut keeper = Keeper::new().await;
    keeper.play_out(json!([{"do": "tool", "name": "subagent"}, {"do": "background", "text": "still at it", "after_ms": 1}])).await;
    keeper.until_signal(|signal| matches!(signal, Signal::ItemEnded { .. })).await;
    keeper.turn();
    let item = &keeper.items()[1];
    assert_eq!((item.turn.as_ref(), item.parent.as_ref()), (None, Some(&keeper.items()[0].id)));
    assert_eq!((item.text.as_deref(), item.state), (Some("still at it"), ItemStage::Completed));
}

#[tokio::test]
async fn merged_prompts_are_named_by_one_turn() {
    let mut keeper = Keeper::new().await;
    let first = keeper.play(json!([{"do": "merge"}])).await.unwrap();
    let second = keeper.play(json!([{"do": "text", "text": "for both"}])).await.unwrap();
    keeper.until_quiet().await.unwrap();
    let turn = keeper.turn();
    assert_eq!((turn.origin, &turn.prompts), (Origin::Prompt, &vec![first, second]));
}

#[tokio::test]
async fn prompts_that_come_while_a_turn_runs_are_played_after_it() {
    let mut keeper = Keeper::new().await;
    for text in ["one", "two", "three"] {
        keeper.play(json!([{"do": "text", "text": text}, {"do": "sleep", "ms": 2}])).await.unwrap();
    }
    keeper.until_quiet().await.unwrap();
    keeper.assert_lawful(Tail::Settled);
    let texts: Vec<_> = keeper.items().iter().map(|item| item.text.as_deref().unwrap()).collect();
    assert_eq!(texts, ["one", "two", "three"]);
}
