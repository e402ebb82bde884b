//! Quiet sessions leave memory, and nothing that was promised leaves with them.

use crate::puppet::within;
use crate::support::*;
use serde_json::json;
use std::time::Duration;
use turnstream_gateway::{Gateway, NewSession, Settings};

/// Waits until at most so many keepers run.
async fn until_awake(gateway: &Gateway, most: usize) {
    within(Duration::from_secs(300), "quiet sessions leave memory", async {
        while gateway.awake() > most {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_quiet_sessions_only_a_few_stay_in_memory_and_all_can_be_used() {
    let mut home = Home::new();
    home.settings = Settings { quiet_sessions: 2, ..home.settings };
    let gateway = home.open().await;
    let new = NewSession { key: Some("first".to_owned()), ..new_session(&home, "scripted") };
    let mut ids = vec![id_of(&gateway.create(new.clone()).await.unwrap())];
    for _ in 0..7 {
        ids.push(session(&gateway, &home, "scripted").await);
    }
    until_awake(&gateway, 2).await;
    assert_eq!(id_of(&gateway.create(new).await.unwrap()), ids[0], "a repeat by key");
    // All at once: the wakeups of some meet the ends of others.
    let steps = json!([{"do": "text", "text": "here"}]);
    let mut prompts = Vec::new();
    for id in ids.clone() {
        let (gateway, prompt) = (gateway.clone(), keyed("k", steps.clone()));
        prompts.push(tokio::spawn(async move { gateway.prompt(&id, prompt).await.unwrap().prompt }));
    }
    let mut accepted = Vec::new();
    for prompt in prompts {
        accepted.push(prompt.await.unwrap());
    }
    for (id, prompt) in ids.iter().zip(&accepted) {
        assert_eq!(said(&settled(&gateway, id, 1).await), ["here"]);
        let again = gateway.prompt(id, keyed("k", steps.clone())).await.unwrap();
        assert_eq!(again.prompt, *prompt);
        assert_eq!(settled(&gateway, id, 1).await.state.turns.len(), 1);
    }
    home.close(gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_something_open_stays() {
    let mut home = Home::new();
    home.settings = Settings { quiet_sessions: 0, ..home.settings };
    let gateway = home.open().await;
    let id = session(&gateway, &home, "scripted").await;
    until_awake(&gateway, 0).await;
    prompt(&gateway, &id, json!([{"do": "text", "text": "x"}, {"do": "stall"}])).await;
    until(&gateway, &id, "the turn", |snapshot| !said(snapshot).is_empty()).await;
    prompt(&gateway, &id, json!([{"do": "text", "text": "y"}])).await;
    for _ in 0..3 {
        session(&gateway, &home, "scripted").await;
    }
    until_awake(&gateway, 1).await;
    gateway.cancel(&id, Cancel::Any).await.unwrap();
    assert_eq!(outcomes(&settled(&gateway, &id, 2).await), ["cancelled", "completed end_turn"]);
    home.close(gateway).await;
}
