//! The states of all sessions in one stream.

use crate::support::Rig;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn all_sessions_are_shown_first_and_then_what_changes() {
    let rig = Rig::start().await;
    let mut empty = rig.stream("/v1/events").await;
    assert_eq!(empty.next().await.json(), json!({"type": "stream", "outcome": "caught_up"}));
    let (first, second) = (rig.session().await, rig.session().await);
    let mut stream = rig.stream("/v1/events").await;
    let shown = stream.until("stream").await;
    let mut sessions: Vec<String> = Vec::new();
    for seen in &shown[..2] {
        let status = seen.json();
        assert_eq!((seen.event.as_str(), seen.id.as_deref()), ("session.status", None));
        assert_eq!((&status["type"], &status["status"]), (&json!("session.status"), &json!("idle")));
        assert_eq!((&status["agent"], &status["cwd"]), (&json!("scripted"), &json!(rig.work())));
        sessions.push(status["session"].as_str().unwrap().to_owned());
    }
    sessions.sort();
    let mut made = vec![first.clone(), second.clone()];
    made.sort();
    assert_eq!(sessions, made);

    rig.play(&first, json!([{"do": "tool", "ask": true}])).await;
    loop {
        let status = stream.next().await.json();
        assert_eq!(status["session"], first.as_str());
        if status["status"] == "waiting" {
            break;
        }
    }
    rig.ask("PATCH", &format!("/v1/sessions/{second}"), Some(json!({"title": "New"}))).await;
    let titled = stream.next().await.json();
    assert_eq!((&titled["session"], &titled["title"]), (&json!(second), &json!("New")));
    rig.ask("DELETE", &format!("/v1/sessions/{second}"), None).await;
    let ended = stream.next().await.json();
    assert_eq!((&ended["session"], &ended["ended"]), (&json!(second), &json!("deleted")));

    let reading = tokio::spawn(async move { (stream.until("stream").await, stream.more().await) });
    rig.stop().await;
    let (seen, after) = reading.await.unwrap();
    assert_eq!(seen.last().unwrap().json()["outcome"], "closing");
    assert_eq!(after, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_has_the_cost_and_the_bad_end_of_the_last_turn() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    let cost = json!({"amount": 0.5, "currency": "USD"});
    let usage = json!({"do": "usage", "usage": {"input": 1}, "cost": cost});
    let state = async || {
        let mut stream = rig.stream("/v1/events").await;
        stream.until("stream").await[0].json()
    };
    rig.played(&id, json!([{"do": "text", "text": "Hi"}, usage])).await;
    let fine = state().await;
    assert_eq!((&fine["cost"], fine.get("last")), (&cost, None));
    rig.played(&id, json!([{"do": "fail", "class": "rate_limited", "message": "slow down"}])).await;
    let failed = state().await;
    assert_eq!(failed["last"], json!({"outcome": "failed", "class": "rate_limited"}));
    assert_eq!(rig.get(&format!("/v1/sessions/{id}")).await.body["last"], failed["last"]);
    rig.played(&id, json!([{"do": "text", "text": "Well again."}])).await;
    assert_eq!(state().await.get("last"), None);
    rig.stop().await;
}
