//! What a client counts: what it meets, on real sockets.

use crate::fake::{Answer, Fake, SOON, directory, line, lines, sessions, told};
use std::time::Duration;
use turnstream_adapter::Counts;
use turnstream_dialects::acp::AcpEvent;
use turnstream_model::event::Permissions;
use turnstream_opencode_client::{BusSettings, NoPassword, SessionRef, TurnSettings};

const PERMISSION: &str = "d1-permission-once.sse";

/// Waits until that many prompts came, and returns the name of the last.
async fn prompted(fake: &Fake, times: usize) -> String {
    let wait = async {
        loop {
            let asked = fake.asked();
            let prompts: Vec<_> =
                asked.iter().filter(|asked| asked.target.contains("prompt_async")).collect();
            if prompts.len() == times {
                let body: serde_json::Value = serde_json::from_str(&prompts[times - 1].body).unwrap();
                return body["messageID"].as_str().unwrap().to_owned();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, wait).await.expect("the prompt comes")
}

/// Other versions refuse a prompt while another runs. It is sent again when that ends, and runs with a
/// permission that a rule allows.
#[tokio::test]
async fn a_prompt_refused_as_busy_and_a_permission_that_a_rule_allowed_are_counted() {
    let mut prompts = 0;
    let mut fake = Fake::start(move |asked| match asked.target.split('?').next().unwrap() {
        "/event" => Answer::Stream,
        "/session/status" => Answer::json(200, "{}"),
        target if target.ends_with("/prompt_async") => {
            prompts += 1;
            if prompts == 1 { Answer::json(409, "{}") } else { Answer::empty(204) }
        }
        target if target.starts_with("/permission/") => Answer::json(200, "true"),
        _ => Answer::json(404, "{}"),
    })
    .await;
    let client = fake.client();
    let session = sessions(PERMISSION).remove(0);
    let at = SessionRef::new(session, directory()).unwrap();
    let settings = TurnSettings { permissions: Permissions::Allow, ..TurnSettings::default() };
    let mut turn = client.send_message(&at, "Run it", settings);
    let mut stream = fake.stream().await;
    stream.say_connected().await;
    prompted(&fake, 1).await;
    // The other one ends.
    let is_refused = async {
        while client.counts().prompt_conflicts == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, is_refused).await.expect("the refusal is counted");
    // Until the refusal has been taken in, the idle says nothing.
    tokio::time::sleep(Duration::from_millis(100)).await;
    stream.say(&line(PERMISSION, "session.idle", 0)).await;
    let prompt = prompted(&fake, 2).await;
    let captured: serde_json::Value = serde_json::from_str(&line(PERMISSION, "message.updated", 0)).unwrap();
    let captured = captured["properties"]["info"]["id"].as_str().unwrap().to_owned();
    for event in lines(PERMISSION).iter().skip(1) {
        stream.say(&event.replace(&captured, &prompt)).await;
    }
    let mut last = None;
    while let Some(event) = tokio::time::timeout(SOON, turn.next()).await.expect("the turn goes on") {
        last = Some(event);
    }
    assert!(matches!(&last, Some(AcpEvent::End(_))), "{last:?}");
    let expected = Counts { prompt_conflicts: 1, unexpected_permissions: 1, ..Counts::default() };
    assert_eq!(client.counts(), expected);
    assert_eq!(client.clone().counts(), expected, "clones count together");
}

#[tokio::test]
async fn lost_streams_and_events_that_are_not_known_or_cannot_be_read_are_counted() {
    let mut fake = Fake::streaming().await;
    let quick = BusSettings { first_pause: Duration::from_millis(20), ..BusSettings::default() };
    let client = fake.client_with(NoPassword, quick);
    let mut subscription = client.bus(&directory()).subscribe("ses_1");
    let mut stream = fake.stream().await;
    stream.say_connected().await;
    assert_eq!(told(&mut subscription).await, "connected, gap false");
    stream.say(r#"{"type":"made.up","properties":{}}"#).await;
    stream.say("no JSON at all").await;
    assert_eq!(told(&mut subscription).await, "lagged: Unreadable");
    drop(stream);
    assert!(told(&mut subscription).await.starts_with("lost"));
    let mut stream = fake.stream().await;
    stream.say_connected().await;
    assert_eq!(told(&mut subscription).await, "connected, gap true");
    let expected = Counts {
        stream_losses: 1,
        stream_reconnects: 1,
        events_left_out: 1,
        unknown_events: 1,
        ..Counts::default()
    };
    assert_eq!(client.counts(), expected);
}
