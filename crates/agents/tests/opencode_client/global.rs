//! The stream of the whole server, with the numbers of durable events.

use crate::fake::{Fake, directory, lines, shown, told};
use serde_json::Value;
use turnstream_agents::opencode::{BusSettings, NoPassword, Stream};

#[tokio::test]
async fn the_global_stream_tells_the_same_events_and_their_numbers() {
    let mut fake = Fake::streaming().await;
    let settings = BusSettings { stream: Stream::Global, ..BusSettings::default() };
    let bus = fake.client_with(NoPassword, settings).bus(&directory());
    let events: Vec<Value> = lines("n2-durable-replay.global.sse")
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let session = events[1]["payload"]["properties"]["sessionID"].as_str().unwrap();
    let mut subscription = bus.subscribe(session);
    let mut stream = fake.stream().await;
    assert_eq!(stream.asked.target, "/global/event");
    for event in &events {
        stream.say(&event.to_string()).await;
    }
    assert_eq!(told(&mut subscription).await, "connected, gap false");
    let of_session = |event: &Value| {
        let payload = &event["payload"];
        if payload["type"] == "sync" {
            return Some(format!("durable {} of {session}", payload["syncEvent"]["seq"]));
        }
        let known = payload["properties"]["sessionID"].as_str()? == session;
        known.then(|| shown(&event.to_string()))
    };
    let expected: Vec<String> = events.iter().filter_map(of_session).collect();
    assert!(expected.iter().any(|item| item.starts_with("durable 10 ")), "{expected:?}");
    for item in expected {
        assert_eq!(told(&mut subscription).await, item);
    }
}
