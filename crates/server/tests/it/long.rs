//! A turn that lasts longer than most things between a client and a server have patience.

use crate::support::{Rig, options};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use turnstream_server::Options;
use turnstream_testkit::lawful::Tail;

/// With `TURNSTREAM_FULL` the turn really takes more than 120 s, with the heartbeats of a fresh
/// installation; without it everything is a hundred times as fast.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_of_more_than_two_minutes_is_followed_to_its_end_on_one_connection() {
    let full = std::env::var_os("TURNSTREAM_FULL").is_some();
    let scale = if full { 1 } else { 100 };
    let options = Options { heartbeat: options().heartbeat / scale, ..options() };
    let rig = Rig::start_with(options).await;
    let id = rig.session().await;
    let mut stream = rig.stream(&format!("/v1/sessions/{id}/events")).await;
    let silence = 62_000 / u64::from(scale);
    let begun = Instant::now();
    let script = json!([{"do": "text", "text": "one"}, {"do": "sleep", "ms": silence}, {"do": "text", "text": "two"},
                        {"do": "sleep", "ms": silence}, {"do": "text", "text": "three"}]);
    assert_eq!(rig.play(&id, script).await.status, 202);
    let seen = stream.until("turn.ended").await;
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(2 * silence), "{took:?}");
    // On a busy machine they come late, but there is one in each silence.
    let expected = if full { 6 } else { 2 };
    assert!(stream.comments >= expected, "only {} signs of life in {took:?}", stream.comments);
    let events: Vec<Value> = seen.iter().skip(1).map(|seen| seen.json()).collect();
    let texts: String = events
        .iter()
        .filter(|event| event["type"] == "item.delta")
        .filter_map(|event| event["text"].as_str())
        .collect();
    assert_eq!(texts, "onetwothree");
    let end = events.last().unwrap();
    assert_eq!((&end["outcome"], &end["stop_reason"]), (&json!("completed"), &json!("end_turn")));
    let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "every event once");
    rig.judge(&id, Tail::Settled).await;
    rig.stop().await;
}
