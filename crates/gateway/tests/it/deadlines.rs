//! Agents that never answer, never begin or never stop: every wait has an end.

use crate::support::*;
use serde_json::json;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_the_agent_swallows_gets_a_failed_turn() {
    let mut home = Home::new();
    home.settings.start = Duration::from_millis(60);
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    prompt(&gateway, &id, json!([{"do": "silent"}])).await;
    prompt(&gateway, &id, json!([{"do": "text", "text": "next"}])).await;
    let snapshot = settled(&gateway, &id, 2).await;
    assert_eq!(outcomes(&snapshot), ["failed not_started", "completed end_turn"]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_agent_is_asked_and_then_stopped() {
    let mut home = Home::new();
    home.settings.inactivity = Duration::from_millis(80);
    home.settings.truth = Duration::from_millis(40);
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    prompt(&gateway, &id, json!([{"do": "text", "text": "half"}, {"do": "stall"}])).await;
    prompt(&gateway, &id, json!([{"do": "text", "text": "next"}])).await;
    let snapshot = settled(&gateway, &id, 2).await;
    assert_eq!(outcomes(&snapshot), ["failed stalled", "completed end_turn"]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_activity_renews_the_wait_and_a_person_stops_it() {
    let mut home = Home::new();
    home.settings.inactivity = Duration::from_millis(150);
    home.settings.truth = Duration::from_millis(20);
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    // Several times as long as the agent may be silent, and never silent for so long.
    let words: Vec<_> =
        (0..12).map(|number| json!({"do": "text", "text": number.to_string(), "chunks": 1})).collect();
    let mut steps = Vec::new();
    for word in words {
        steps.extend([word, json!({"do": "sleep", "ms": 40})]);
    }
    steps.push(json!({"do": "tool", "ask": true}));
    prompt(&gateway, &id, json!(steps)).await;
    let snapshot = until(&gateway, &id, "the ask", |snapshot| !snapshot.state.approvals.is_empty()).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    let ask = snapshot.state.approvals[0].approval.clone();
    gateway.resolve(&id, &ask, allow()).await.unwrap();
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(outcomes(&snapshot), ["completed end_turn"]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_by_the_agent_itself_is_kept_like_any_other() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    let woken = json!([{"do": "text", "text": "by itself"}]);
    prompt(
        &gateway,
        &id,
        json!([{"do": "text", "text": "first"}, {"do": "wake", "after_ms": 20, "steps": woken}]),
    )
    .await;
    let snapshot = settled(&gateway, &id, 2).await;
    assert_eq!(said(&snapshot), ["first", "by itself"]);
    assert_eq!(snapshot.state.turns[1].origin.to_string(), "agent");
    home.close(gateway).await;
}
