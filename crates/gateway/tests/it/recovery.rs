//! A gateway that stops in the middle, and the one after it.

use crate::support::*;
use serde_json::json;
use turnstream_model::event::ApprovalOutcome;
use turnstream_model::fold::ItemStage;

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_of_an_agent_that_dies_with_the_gateway_is_lost_once() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    prompt(&gateway, &id, json!([{"do": "text", "text": "half"}, {"do": "tool", "ask": true}])).await;
    prompt(&gateway, &id, json!([{"do": "text", "text": "after"}])).await;
    until(&gateway, &id, "the ask", |snapshot| !snapshot.state.approvals.is_empty()).await;
    gateway.close().await;
    let gateway = home.open().await;
    let snapshot = settled(&gateway, &id, 2).await;
    assert_eq!(outcomes(&snapshot), ["lost agent_exited", "completed end_turn"]);
    assert_eq!(snapshot.state.approvals[0].outcome, Some(ApprovalOutcome::Lost));
    assert_eq!(said(&snapshot), ["half", "after"]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_waits_over_a_restart_and_its_answer_reaches_the_agent() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "lasting").await;
    let tool = json!({"do": "tool", "ask": true, "effect": {"append": {"path": "runs", "text": "one\n"}}});
    prompt(&gateway, &id, json!([{"do": "text", "text": "before"}, tool, {"do": "text", "text": "behind"}]))
        .await;
    let snapshot = until(&gateway, &id, "the ask", |snapshot| !snapshot.state.approvals.is_empty()).await;
    let ask = snapshot.state.approvals[0].approval.clone();
    gateway.close().await;

    let gateway = home.open().await;
    until(&gateway, &id, "the recovery", |snapshot| snapshot.state.session.status.to_string() == "waiting")
        .await;
    gateway.resolve(&id, &ask, allow()).await.unwrap();
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(outcomes(&snapshot), ["completed end_turn"]);
    assert_eq!(said(&snapshot), ["before", "behind"]);
    assert_eq!(snapshot.state.approvals.len(), 1);
    assert_eq!(home.lines_of("runs"), ["one"]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_that_waited_run_after_the_restart_without_any_client() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "lasting").await;
    prompt(&gateway, &id, json!([{"do": "tool", "ask": true}])).await;
    until(&gateway, &id, "the ask", |snapshot| !snapshot.state.approvals.is_empty()).await;
    for name in ["a", "b"] {
        let effect = json!({"append": {"path": "runs", "text": format!("{name}\n")}});
        prompt(&gateway, &id, json!([{"do": "tool", "effect": effect}])).await;
    }
    gateway.close().await;
    let gateway = home.open().await;
    until(&gateway, &id, "the recovery", |snapshot| snapshot.state.session.status.to_string() == "waiting")
        .await;
    gateway.cancel(&id, Cancel::Any).await.unwrap();
    let snapshot = settled(&gateway, &id, 3).await;
    assert_eq!(outcomes(&snapshot), ["cancelled", "completed end_turn", "completed end_turn"]);
    assert_eq!(home.lines_of("runs"), ["a", "b"]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_runs_on_without_the_gateway_is_complete_afterwards() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "lasting").await;
    let steps = json!([{"do": "text", "text": "one two three four", "pace_ms": 10}, {"do": "tool"},
                       {"do": "text", "text": "five six seven", "pace_ms": 10}]);
    for round in 1..=4 {
        prompt(&gateway, &id, steps.clone()).await;
        until(&gateway, &id, "the turn", |snapshot| snapshot.state.turns.len() >= round).await;
        if round == 4 {
            break;
        }
        settled(&gateway, &id, round).await;
    }
    gateway.close().await;
    let gateway = home.open().await;
    let snapshot = settled(&gateway, &id, 4).await;
    assert_eq!(outcomes(&snapshot), vec!["completed end_turn"; 4]);
    assert!(snapshot.state.items.iter().all(|item| item.state != ItemStage::Streaming));
    assert!(said(&snapshot).iter().all(|text| text == "one two three four" || text == "five six seven"));
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_agent_or_directory_is_gone_says_so() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    std::fs::remove_dir_all(home.work()).unwrap();
    prompt(&gateway, &id, json!([])).await;
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(outcomes(&snapshot), ["failed unreachable"]);
    let error = snapshot.state.turns[0].error.clone().unwrap();
    assert!(error.message.contains("no longer exists"), "{}", error.message);
    home.close(gateway).await;
}
