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
