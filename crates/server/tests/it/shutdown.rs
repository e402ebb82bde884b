//! The end: everyone is told, and whoever does not listen is cut off.

use crate::support::{ENDED, Rig};
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test(flavor = "multi_thread")]
async fn open_streams_are_told_and_nobody_delays_the_end() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    rig.play(&id, json!([{"do": "burst", "count": 10_000, "bytes": 400}, {"do": "stall"}])).await;
    rig.until(&id, |snapshot| snapshot["items"][0]["state"] == "completed").await;
    let mut deaf = Vec::new();
    for request in [
        format!("GET /v1/sessions/{id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        format!(
            "GET /v1/sessions/{id}/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        ),
        "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{".to_owned(),
        "GET /v1/he".to_owned(),
        String::new(),
    ] {
        let mut socket = TcpStream::connect(rig.address).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        deaf.push(socket);
    }
    let head = rig.head(&id).await;
    let mut listening = rig.stream(&format!("/v1/sessions/{id}/events?after={head}")).await;
    let reading = tokio::spawn(async move {
        let mut last = None;
        while let Some(seen) = listening.more().await {
            last = Some(seen);
        }
        last.unwrap()
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let took = rig.stop().await;
    assert!(took < ENDED, "{took:?}");
    let last = reading.await.unwrap();
    assert_eq!((last.id.as_deref(), last.json()), (None, json!({"type": "stream", "outcome": "closing"})));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_comes_too_late_is_told_so() {
    let rig = Rig::start().await;
    let body = json!({"agent": "scripted", "cwd": rig.work()}).to_string();
    let (first, rest) = body.split_at(5);
    let mut socket = TcpStream::connect(rig.address).await.unwrap();
    let head = format!(
        "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    // It is being served when the end begins, and whole only after that.
    let mut asked_for_more = [0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
    socket.read_exact(&mut asked_for_more).await.unwrap();
    socket.write_all(first.as_bytes()).await.unwrap();
    let stopping = tokio::spawn(rig.stop());
    tokio::time::sleep(Duration::from_millis(500)).await;
    socket.write_all(rest.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(
        answer.contains("urn:turnstream:problem:closing") && answer.contains("retry-after: 5"),
        "{answer}"
    );
    stopping.await.unwrap();
}
