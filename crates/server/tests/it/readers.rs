//! Readers of every speed: none misses anything, none holds another up.

use crate::support::{ENDED, Rig, Stream};
use serde_json::json;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use turnstream_testkit::lawful::Tail;

/// Enough that no buffer on the way holds it, and in pieces that cannot be merged.
const MANY: usize = 4_000;

async fn read_all(stream: &mut Stream) -> Vec<u64> {
    let mut seqs = Vec::new();
    loop {
        let seen = stream.next().await;
        if let Some(seq) = seen.json()["seq"].as_u64() {
            seqs.push(seq);
        }
        if seen.event == "turn.ended" {
            return seqs;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clients_see_the_same_and_leaving_stops_nothing() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    let path = format!("/v1/sessions/{id}/events");
    let (mut first, mut second) = (rig.stream(&path).await, rig.stream(&path).await);
    let leaves = rig.stream(&path).await;
    rig.play(&id, json!([{"do": "burst", "count": 200, "bytes": 20, "per_second": 400}])).await;
    drop(leaves);
    let (one, two) = tokio::join!(first.until("turn.ended"), second.until("turn.ended"));
    assert_eq!(one, two);
    // Who comes later sees the same as who was there.
    let later = rig.stream(&path).await.until("turn.ended").await;
    assert_eq!(one[1..], later[1..]);
    rig.until(&id, |snapshot| snapshot["session"]["status"] == "idle").await;
    rig.judge(&id, Tail::Settled).await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_read_or_read_slowly_hold_nobody_up_and_miss_nothing() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    let path = format!("/v1/sessions/{id}/events");
    let mut deaf = Vec::new();
    for _ in 0..4 {
        let mut socket = TcpStream::connect(rig.address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        deaf.push(socket);
    }
    let mut slow = rig.stream(&path).await;
    let mut fast = rig.stream(&path).await;
    let text = json!({"do": "text", "text": "x".repeat(600), "chunks": 1});
    let mut script = vec![text; MANY];
    script.push(json!({"do": "burst", "count": 9_000, "bytes": 400}));
    rig.play(&id, json!(script)).await;
    let seqs = read_all(&mut fast).await;
    assert!(seqs.len() > MANY * 3);
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());

    // The slow one has read nothing so far, and pauses on its way.
    let mut got = Vec::new();
    while got.len() < seqs.len() {
        if got.len() % 5_000 == 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        got.extend(slow.next().await.json()["seq"].as_u64());
    }
    assert_eq!(got, seqs);
    rig.until(&id, |snapshot| snapshot["session"]["status"] == "idle").await;
    rig.judge(&id, Tail::Settled).await;
    let took = rig.stop().await;
    assert!(took < ENDED, "{took:?}");
    drop(deaf);
}
