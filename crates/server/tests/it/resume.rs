//! A stream from every place: exactly what follows it, in exactly these bytes.

use crate::support::{Rig, Stream};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use turnstream_testkit::lawful::Tail;

#[tokio::test(flavor = "multi_thread")]
async fn every_position_resumes_with_what_follows_it() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    rig.played(&id, json!([{"do": "reasoning", "text": "Hm"}, {"do": "text", "text": "one two three"}]))
        .await;
    let generation =
        rig.get(&format!("/v1/sessions/{id}")).await.body["generation"].as_str().unwrap().to_owned();
    let log = rig.log(&id).await;
    let head = log.len() as u64;
    assert!(head > 10);
    let events = format!("/v1/sessions/{id}/events");
    for after in 0..=head {
        let by_query = rig.stream(&format!("{events}?after={after}")).await;
        let by_cursor = rig.stream(&format!("{events}?after={generation}:{after}")).await;
        // The header is stronger than the query.
        let header = rig.http.get(rig.url(&format!("{events}?after=3")));
        let by_header = Stream::of(header.header("last-event-id", format!("{generation}:{after}"))).await;
        for mut stream in [by_query, by_cursor, by_header] {
            let first = stream.next().await;
            let outcome = if after == head {
                json!({"type": "stream", "outcome": "caught_up", "generation": generation, "head": head})
            } else {
                json!({"type": "stream", "outcome": "replayed", "generation": generation,
                    "from": after + 1, "to": head, "head": head})
            };
            assert_eq!((first.id.as_deref(), first.event.as_str(), first.json()), (None, "stream", outcome));
            for seq in after + 1..=head {
                let seen = stream.next().await;
                assert_eq!(seen.id, Some(format!("{generation}:{seq}")));
                assert_eq!(seen.data, log[seq as usize - 1]);
                assert_eq!(seen.event, seen.json()["type"]);
            }
        }
    }
    rig.judge(&id, Tail::Settled).await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_that_cannot_be_continued_is_reset_and_said_to_be() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    let head = rig.head(&id).await;
    for (cursor, reason) in [("other:1", "generation"), ("99", "beyond_head")] {
        let mut stream = rig.stream(&format!("/v1/sessions/{id}/events?after={cursor}")).await;
        let outcome = stream.next().await.json();
        assert_eq!((&outcome["outcome"], &outcome["reason"]), (&json!("reset"), &json!(reason)));
        assert_eq!((&outcome["oldest"], &outcome["head"]), (&json!(1), &json!(head)));
        assert_eq!(stream.next().await.json()["seq"], 1);
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bytes_of_a_stream_are_exactly_these() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    rig.played(&id, json!([{"do": "text", "text": "one\ntwo"}])).await;
    let session = rig.get(&format!("/v1/sessions/{id}")).await.body;
    let (generation, head) = (session["generation"].as_str().unwrap(), session["head"].as_u64().unwrap());
    let log = rig.log(&id).await;
    let request =
        format!("GET /v1/sessions/{id}/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut socket = TcpStream::connect(rig.address).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let (mut answer, last) = (Vec::new(), format!("data: {}\n\n", log.last().unwrap()));
    // It has all there is before the server ends, which is what ends the stream.
    while !String::from_utf8_lossy(&answer).contains(&last) {
        assert!(socket.read_buf(&mut answer).await.unwrap() > 0);
    }
    rig.stop().await;
    socket.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head_of_answer, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head_of_answer.starts_with("HTTP/1.1 200 OK\r\n"), "{head_of_answer}");
    let mut expected = format!(
        "event: stream\ndata: {{\"type\":\"stream\",\"outcome\":\"replayed\",\"generation\":\"{generation}\",\
         \"from\":1,\"to\":{head},\"head\":{head}}}\n\n"
    );
    for (at, line) in log.iter().enumerate() {
        let r#type =
            serde_json::from_str::<serde_json::Value>(line).unwrap()["type"].as_str().unwrap().to_owned();
        expected.push_str(&format!("event: {type}\nid: {generation}:{}\ndata: {line}\n\n", at + 1));
    }
    expected.push_str("event: stream\ndata: {\"type\":\"stream\",\"outcome\":\"closing\"}\n\n");
    assert_eq!(unchunked(body), expected);
}

/// A body without the marks of its chunks.
fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    loop {
        let (length, rest) = body.split_once("\r\n").unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return whole;
        }
        whole.push_str(&rest[..length]);
        body = &rest[length + 2..];
    }
}
