//! Agents that never answer, never begin or never stop: every wait has an end.

use crate::puppet::*;
use crate::support::*;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use turnstream_agents::Command;

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_the_agent_swallows_gets_a_failed_turn() {
    let mut home = Home::new();
    // A prompt that the agent takes begins within milliseconds.
    home.settings.start = Duration::from_secs(1);
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
    home.settings.inactivity = Duration::from_secs(1);
    home.settings.status_probe = Duration::from_millis(40);
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
    home.settings.inactivity = Duration::from_secs(2);
    home.settings.status_probe = Duration::from_millis(20);
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    // Longer than the agent may be silent, and each pause is a tenth of that.
    let words: Vec<_> =
        (0..12).map(|number| json!({"do": "text", "text": number.to_string(), "chunks": 1})).collect();
    let mut steps = Vec::new();
    for word in words {
        steps.extend([word, json!({"do": "sleep", "ms": 200})]);
    }
    steps.push(json!({"do": "tool", "ask": true}));
    prompt(&gateway, &id, json!(steps)).await;
    let snapshot = until(&gateway, &id, "the ask", |snapshot| !snapshot.state.approvals.is_empty()).await;
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let ask = snapshot.state.approvals[0].approval.clone();
    gateway.resolve(&id, &ask, allow()).await.unwrap();
    let snapshot = settled(&gateway, &id, 1).await;
    assert_eq!(outcomes(&snapshot), ["completed end_turn"]);
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_can_be_merged_into_a_turn_that_nobody_here_asked_for() {
    let home = Home::new();
    let gateway = home.open().await;
    for (agent, origin) in [("scripted", "wake"), ("lasting", "wake"), ("scripted", "foreign")] {
        let id = session(&gateway, &home, agent).await;
        let mut later = json!({"do": origin, "after_ms": 400, "steps": [{"do": "text", "text": "for both"}]});
        if origin == "foreign" {
            later["prompt"] = json!("from elsewhere");
        }
        prompt(&gateway, &id, json!([{"do": "text", "text": "first"}, later])).await;
        let merged = prompt(&gateway, &id, json!([{"do": "merge"}])).await;
        let snapshot = settled(&gateway, &id, 2).await;
        assert_eq!(outcomes(&snapshot), ["completed end_turn", "completed end_turn"]);
        let turn = &snapshot.state.turns[1];
        assert_eq!((turn.origin.to_string().as_str(), &turn.prompts), ("prompt", &vec![merged]));
        assert_eq!(said(&snapshot), ["first", "for both"]);
    }
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_of_another_client_is_kept_like_any_other() {
    let home = Home::new();
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    let foreign = json!({"do": "foreign", "prompt": "from elsewhere", "after_ms": 20,
                         "steps": [{"do": "text", "text": "for them"}]});
    prompt(&gateway, &id, json!([{"do": "text", "text": "first"}, foreign])).await;
    let snapshot = settled(&gateway, &id, 2).await;
    let turn = &snapshot.state.turns[1];
    assert_eq!((turn.origin.to_string().as_str(), turn.prompts.len()), ("foreign", 0));
    let items = snapshot.state.items.iter().filter(|item| item.turn.as_ref() == Some(&turn.turn));
    let texts: Vec<_> = items.map(|item| item.text.clone().unwrap()).collect();
    assert_eq!(texts, ["from elsewhere", "for them"]);
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

/// Counts while it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>, most: &AtomicUsize) -> Self {
        most.fetch_max(count.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_does_not_end_is_ended_before_the_next_one_begins() {
    let mut home = Home::new();
    home.settings.start = Duration::from_secs(1);
    home.settings.cancel = Duration::from_millis(50);
    let (alive, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (count, high) = (alive.clone(), most.clone());
    let gateway = stage(&home, false, move |_, mut commands, observer| {
        let (count, high) = (count.clone(), high.clone());
        async move {
            let _alive = Counted::new(&count, &high);
            while let Some(command) = commands.recv().await {
                let Command::Prompt { native_id, content } = command else { continue };
                if content[0]["text"].as_str().unwrap().contains("begin") {
                    began(&observer, &native_id, &[&native_id]).await;
                }
            }
            // It was told to end and does not.
            std::future::pending::<()>().await;
        }
    })
    .await;
    let id = session(&gateway, &home, "puppet").await;
    prompt(&gateway, &id, json!(["never"])).await;
    prompt(&gateway, &id, json!(["begin"])).await;
    prompt(&gateway, &id, json!(["never"])).await;
    until(&gateway, &id, "the second turn", |snapshot| snapshot.state.turns.len() == 2).await;
    gateway.cancel(&id, Cancel::Any).await.unwrap();
    let snapshot = settled(&gateway, &id, 3).await;
    assert_eq!(outcomes(&snapshot), ["failed not_started", "cancelled", "failed not_started"]);
    home.close(gateway).await;
    assert_eq!((alive.load(Ordering::SeqCst), most.load(Ordering::SeqCst)), (0, 1));
}
