//! Connections to providers are kept, and no request is written twice.

use crate::harness::{Gateway, bytes, events, request, route_to};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use turnstream_fake_provider::{Step, WireFormat};
use turnstream_llm::Format;
use turnstream_model::attempts::{Ledger, Verdict};

/// What a provider does with one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Answer,
    AnswerAndClose,
    /// Reads the request, and closes the connection without a word.
    Hang,
    /// Another completion follows in the middle of the first.
    Splice,
}

/// Which requests came on which connection.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<usize>>>);

impl Seen {
    fn connections(&self) -> Vec<usize> {
        self.0.lock().unwrap().clone()
    }
}

/// A provider that does these things with one request after the other, and answers all later ones.
async fn provider(acts: &[Act]) -> (SocketAddr, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, acts) = (Seen::default(), acts.to_vec());
    let counted = seen.clone();
    tokio::spawn(async move {
        let mut connections = 0;
        while let Ok((socket, _)) = listener.accept().await {
            connections += 1;
            tokio::spawn(serve(socket, connections, counted.clone(), acts.clone()));
        }
    });
    (address, seen)
}

async fn serve(mut socket: TcpStream, connection: usize, seen: Seen, acts: Vec<Act>) {
    let mut got = Vec::new();
    loop {
        // The body of each request is the same, so its end is known.
        while !got.ends_with(b"}]}") {
            if socket.read_buf(&mut got).await.unwrap_or(0) == 0 {
                return;
            }
        }
        got.clear();
        let act = {
            let mut seen = seen.0.lock().unwrap();
            seen.push(connection);
            acts.get(seen.len() - 1).copied().unwrap_or(Act::Answer)
        };
        let mut frames = events(WireFormat::Chat, &Step::text("a whole answer"));
        if act == Act::Hang {
            return;
        }
        if act == Act::Splice {
            let other = bytes(&frames[..2]).to_vec();
            let other = String::from_utf8(other).unwrap().replace("\"id\":\"", "\"id\":\"other-");
            frames.insert(2, other.into_bytes());
        }
        let body = bytes(&frames);
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        socket.write_all(&[head.as_bytes(), &body[..]].concat()).await.unwrap();
        if act == Act::AnswerAndClose {
            return;
        }
    }
}

async fn gateway(acts: &[Act]) -> (Gateway, Seen) {
    let (address, seen) = provider(acts).await;
    (Gateway::of(route_to(Format::Chat, address)).await, seen)
}

async fn verdicts(gateway: &Gateway) -> Vec<Verdict> {
    gateway.quiet().await;
    let rows = gateway.ledger.attempts("llm/main".into()).await.unwrap();
    rows.iter().map(|row| row.verdict().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_answer_after_the_other_comes_on_one_connection() {
    let (gateway, seen) = gateway(&[]).await;
    let mut at_once = 0;
    for number in 1..=20 {
        let got = gateway.ask(Format::Chat, &request(Format::Chat, "go")).await;
        got.assert_complete(Format::Chat, &[], "kept");
        gateway.quiet().await;
        let connections = seen.connections();
        assert_eq!(connections.len(), number);
        at_once = *connections.iter().max().unwrap();
    }
    // A connection is given back a moment after its answer, so a few requests may come too early for it.
    assert!(at_once < 10, "{at_once} connections for 20 requests");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_written_is_never_written_again_by_the_pool() {
    let (gateway, seen) = gateway(&[Act::Answer, Act::Hang]).await;
    for number in [1, 2] {
        let got = gateway.ask(Format::Chat, &request(Format::Chat, "go")).await;
        got.assert_complete(Format::Chat, &[], "repeated by its owner");
        assert_eq!(got.headers["x-turnstream-attempts"], number.to_string());
    }
    // Each request that the provider has seen has a row.
    use Verdict::{Complete, Failed};
    assert_eq!(verdicts(&gateway).await, [Complete, Failed, Complete]);
    assert_eq!(seen.connections().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_the_provider_closes_lose_no_answer_and_repeat_nothing_unseen() {
    let (gateway, seen) = gateway(&[Act::AnswerAndClose; 8]).await;
    for _ in 0..8 {
        let got = gateway.ask(Format::Chat, &request(Format::Chat, "go")).await;
        got.assert_complete(Format::Chat, &[], "closed");
    }
    let verdicts = verdicts(&gateway).await;
    let complete = verdicts.iter().filter(|verdict| **verdict == Verdict::Complete).count();
    assert_eq!(complete, 8);
    // A request to a connection that is just being closed fails, and has a row. The provider saw no other.
    assert!(seen.connections().len() <= verdicts.len(), "{seen:?}", seen = seen.connections());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_connection_of_a_damaged_answer_is_not_used_again() {
    let (gateway, seen) = gateway(&[Act::Answer, Act::Splice]).await;
    let ask = || async { gateway.ask(Format::Chat, &request(Format::Chat, "go")).await };
    ask().await.assert_complete(Format::Chat, &[], "first");
    ask().await.assert_broken(Format::Chat, "spliced");
    let damaged = *seen.connections().last().unwrap();
    ask().await.assert_complete(Format::Chat, &[], "after it");
    let connections = seen.connections();
    assert!(connections[2..].iter().all(|connection| *connection != damaged), "{connections:?}");
}
