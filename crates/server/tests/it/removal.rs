//! Deleted and trimmed sessions as clients see them.

use crate::support::{Rig, Seen, options};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::time::Duration;
use tokio_tungstenite::tungstenite::Message;
use turnstream_gateway::{Retention, Settings};
use turnstream_testkit::diagnostics::{Capture, Level, Line};

const GONE: &str = r#"{"type":"stream","outcome":"gone"}"#;

fn types(seen: &[Seen]) -> Vec<&str> {
    seen.iter().map(|seen| seen.event.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_says_that_the_bytes_are_gone_and_readers_hear_the_end() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    rig.play(&id, json!([{"do": "text", "text": "half"}, {"do": "stall"}])).await;
    rig.until(&id, |snapshot| snapshot["items"][0]["text"] == "half").await;
    let path = format!("/v1/sessions/{id}");
    let mut stream = rig.stream(&format!("{path}/events")).await;
    let socket = format!("ws://{}{path}/ws", rig.address);
    let (mut socket, _) = tokio_tungstenite::connect_async(socket).await.unwrap();

    let deleted = rig.ask("DELETE", &path, None).await;
    assert_eq!((deleted.status, deleted.body), (200, json!({"session": id, "removed": true})));
    let mut seen = Vec::new();
    while let Some(event) = stream.more().await {
        seen.push(event);
    }
    let seen_types = types(&seen);
    assert_eq!(seen_types[seen_types.len() - 2..], ["session.ended", "stream"], "{seen_types:?}");
    assert!(seen_types.contains(&"turn.ended"));
    let last = seen.last().unwrap();
    assert_eq!((last.id.as_deref(), last.data.as_str()), (None, GONE));
    let mut texts = Vec::new();
    let mut close = None;
    while let Some(Ok(message)) = socket.next().await {
        match message {
            Message::Text(text) => texts.push(text.to_string()),
            Message::Close(frame) => close = frame,
            _ => {}
        }
    }
    assert_eq!(texts.last().map(String::as_str), Some(GONE));
    assert_eq!(texts.len(), seen.len(), "the same frames");
    assert_eq!(close.unwrap().reason.as_str(), "the session was deleted");

    for (method, path) in [
        ("GET", path.clone()),
        ("GET", format!("{path}/snapshot")),
        ("GET", format!("{path}/events")),
        ("POST", format!("{path}/cancel")),
    ] {
        let answer = rig.ask(method, &path, None).await;
        assert_eq!(
            (answer.status, &answer.body["type"]),
            (404, &json!("urn:turnstream:problem:unknown-session")),
            "{method} {path}"
        );
    }
    let again = rig.ask("DELETE", &path, None).await;
    assert_eq!((again.status, &again.body["removed"]), (200, &json!(true)));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_made_again_by_its_key_is_told_from_the_old_one() {
    let rig = Rig::start().await;
    let new = json!({"agent": "scripted", "cwd": rig.work(), "key": "k"});
    let old = rig.post("/v1/sessions", new.clone()).await.body;
    let path = format!("/v1/sessions/{}", old["id"].as_str().unwrap());
    // A reader that does not read while the session is replaced.
    let mut stream = rig.stream(&format!("{path}/events")).await;
    assert_eq!(rig.ask("DELETE", &path, None).await.status, 200);
    let made = rig.post("/v1/sessions", new).await.body;
    assert_eq!(made["id"], old["id"]);
    assert_ne!(made["generation"], old["generation"]);
    let cursor = format!("{}:{}", old["generation"].as_str().unwrap(), old["head"]);
    let mut replaced = rig.stream(&format!("{path}/events?after={cursor}")).await;
    let first = replaced.next().await.json();
    assert_eq!(
        (&first["outcome"], &first["reason"], &first["oldest"]),
        (&json!("reset"), &json!("generation"), &json!(1))
    );
    let created = replaced.next().await;
    assert!(created.id.unwrap().starts_with(made["generation"].as_str().unwrap()));
    let mut last = None;
    while let Some(seen) = stream.more().await {
        assert!(
            seen.id.as_ref().is_none_or(|id| id.starts_with(old["generation"].as_str().unwrap())),
            "{seen:?}"
        );
        last = Some(seen.data);
    }
    assert_eq!(last.as_deref(), Some(GONE));
    rig.stop().await;
}

fn only_turns(turns: u64) -> Settings {
    let every = Duration::from_millis(30);
    let retention = Retention { max_turns: Some(turns), every, ..Retention::default() };
    Settings { retention, ..Settings::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_before_the_oldest_event_is_reset_and_goes_on_at_the_oldest() {
    let rig = Rig::start_retaining(options(), only_turns(1)).await;
    let id = rig.session().await;
    let events = format!("/v1/sessions/{id}/events");
    let generation =
        rig.get(&format!("/v1/sessions/{id}")).await.body["generation"].as_str().unwrap().to_owned();
    for text in ["one", "two", "three"] {
        rig.play(&id, json!([{"do": "text", "text": text}])).await;
        rig.until(&id, |snapshot| {
            snapshot["items"][0]["text"] == text && snapshot["session"]["status"] == "idle"
        })
        .await;
    }
    // A round of retention between the two streams may remove what came before the last turn. Then both are
    // read again; the last turn stays, so there are few such rounds.
    loop {
        let mut stream = rig.stream(&format!("{events}?after={generation}:2")).await;
        let reset = stream.next().await;
        let oldest = reset.json()["oldest"].as_u64().unwrap();
        let head = rig.head(&id).await;
        let wanted = json!({"type": "stream", "outcome": "reset", "generation": generation, "reason": "trimmed",
            "oldest": oldest, "head": head});
        assert_eq!((reset.id.clone(), reset.json()), (None, wanted));
        let mut lines = Vec::new();
        for seq in oldest..=head {
            let seen = stream.next().await;
            assert_eq!(seen.json()["seq"], seq);
            lines.push(seen.data);
        }
        turnstream_testkit::lawful::assert_lawful(
            lines.iter().map(String::as_str),
            turnstream_testkit::lawful::Tail::Settled,
        );
        let mut exact = rig.stream(&format!("{events}?after={generation}:{}", oldest - 1)).await;
        let outcome = exact.next().await.json();
        if outcome["oldest"].as_u64().is_some_and(|now| now > oldest) {
            continue;
        }
        assert_eq!(outcome["outcome"], "replayed", "nothing was missed by one event");
        break;
    }
    let snapshot = rig.get(&format!("/v1/sessions/{id}/snapshot")).await.body;
    assert_eq!((snapshot["turns"].as_array().unwrap().len(), &snapshot["counters"]["turns"]), (1, &json!(3)));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_is_overtaken_by_retention_is_reset_in_the_middle() {
    let capture = Capture::start();
    let rig = Rig::start_retaining(options(), only_turns(1)).await;
    let id = rig.session().await;
    let mut stream = rig.stream(&format!("/v1/sessions/{id}/events")).await;
    assert_eq!(stream.next().await.json()["outcome"], "replayed");
    // More than its socket and the gateway's buffers take; it reads nothing meanwhile.
    let large = "x".repeat(4 << 20);
    for _ in 0..4 {
        let turns = rig.get(&format!("/v1/sessions/{id}/snapshot")).await.body["counters"]["turns"].clone();
        rig.play(&id, json!([{"do": "text", "text": large}])).await;
        rig.until(&id, |snapshot| {
            snapshot["counters"]["turns"] != turns && snapshot["session"]["status"] == "idle"
        })
        .await;
    }
    rig.until(&id, |snapshot| snapshot["turns"].as_array().is_some_and(|turns| turns.len() == 1)).await;
    let head = rig.head(&id).await;
    let (mut next, mut resets) = (1, 0);
    while next <= head {
        let seen = stream.next().await;
        let json: Value = seen.json();
        match seen.id {
            Some(_) => {
                assert_eq!(json["seq"], next, "no hole but where it was said");
                next += 1;
            }
            None => {
                assert_eq!((&json["outcome"], &json["reason"]), (&json!("reset"), &json!("trimmed")));
                assert!(json["oldest"].as_u64().unwrap() > next, "{json}");
                next = json["oldest"].as_u64().unwrap();
                resets += 1;
            }
        }
    }
    assert!(resets > 0, "it was overtaken");
    let warned = |line: &Line| line.message == "a slow reader was overtaken by retention";
    let warning = capture.until(warned).await;
    assert_eq!((warning.level, warning.field("session")), (Level::WARN, Some(id.as_str())));
    rig.stop().await;
}
