//! HTTP without event faults: everything passes as it came, and rules find their request.

use super::{Then, body, connect, get, http_proxy, read_until, request};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use turnstream_testkit::proxy::{Action, Edit, Ending, EventMatch, Fault, FaultProxy, Point, Rest, Rule};

#[tokio::test]
async fn a_chunked_response_with_extensions_and_trailers_passes_byte_for_byte() {
    let response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
        5;name=value\r\nhello\r\n1\r\n!\r\n0\r\nchecksum: 7\r\n\r\n";
    for split in 0..response.len() {
        let (left, right) = response.split_at(split);
        let proxy = http_proxy(&[left, right], Then::Close).await;
        assert_eq!(get(&proxy, "/").await.0, response, "split at {split}");
    }
}

/// The head of a chunked event stream.
const STREAM: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

#[tokio::test]
async fn a_chunked_event_stream_passes_byte_for_byte_however_it_is_broken() {
    let bodies = [
        "9;ext=1\r\ndata: 1\n\n\r\n9 \r\ndata: 2\n\n\r\n0\r\nchecksum: 7\r\n\r\n",
        // Framing that makes no sense, in the place of a size and in the place of a line end.
        "9\r\ndata: 1\n\n\r\nzz\r\ngarbage",
        "9\r\ndata: 1\n\nzz\r\ngarbage",
        // The upstream dies inside a chunk, a size line, the last chunk and its trailers.
        "64\r\ndata: hello",
        "9\r\ndata: 1\n\n\r\n64;ex",
        "9\r\ndata: 1\n\n\r\n0\r\n",
        "9\r\ndata: 1\n\n\r\n0\r\nchecksum: 7\r\n",
    ];
    for body in bodies {
        for piece in [1, 7, 4096] {
            let wire = [STREAM, body].concat();
            let pieces: Vec<&[u8]> = wire.as_bytes().chunks(piece).collect();
            let proxy = http_proxy(&pieces, Then::Close).await;
            let bytes = get(&proxy, "/").await.0;
            assert_eq!(String::from_utf8(bytes).unwrap(), wire, "in pieces of {piece}");
        }
    }
}

#[tokio::test]
async fn bytes_behind_broken_framing_pass_also_when_events_are_edited() {
    let wire = [STREAM, "12\r\ndata: 1\n\ndata: 2\n\n\r\n4\r\nhalf\r\nzz\r\ngarbage"].concat();
    let proxy = http_proxy(&[wire.as_bytes()], Then::Close).await;
    proxy.add(Rule::new(Fault::Event(EventMatch::nth(1), Edit::Drop)));
    let bytes = get(&proxy, "/").await.0;
    let expected = [STREAM, "9\r\ndata: 2\n\n\r\n4\r\nhalf\r\nzz\r\ngarbage"].concat();
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
}

#[tokio::test]
async fn responses_that_are_no_event_streams_pass_untouched_by_event_rules() {
    let response =
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 18\r\n\r\ndata: 1\n\ndata: 2\n\n";
    let proxy = http_proxy(&[response], Then::Close).await;
    let every = || EventMatch::new(|_| true);
    let cut = proxy.add(Rule::new(Fault::At(Point::BeforeEvent(every()), Action::Cut(Ending::Fin))));
    let drop = proxy.add(Rule::new(Fault::Event(every(), Edit::Drop)));
    assert_eq!(get(&proxy, "/").await.0, response);
    assert_eq!((proxy.fired(cut), proxy.fired(drop)), (0, 0));
}

#[tokio::test]
async fn several_requests_on_one_connection_are_told_apart() {
    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let proxy = http_proxy(&[response], Then::NextRequest).await;
    let rule = Rule::new(Fault::At(Point::BodyByte(2), Action::Cut(Ending::Fin)));
    let cut =
        proxy.add(rule.on_request(|head| head.target == "/third" && head.header("host") == Some("test")));
    let mut stream = connect(&proxy).await;
    for target in ["/first", "/second"] {
        request(&mut stream, target).await;
        assert_eq!(read_until(&mut stream, b"hello").await, response);
    }
    request(&mut stream, "/third").await;
    let (third, end) = super::read_to_end(&mut stream).await;
    assert_eq!(third, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe");
    end.unwrap();
    assert_eq!(proxy.fired(cut), 1);
    assert_eq!(proxy.record().connections[0].requests, ["GET /first", "GET /second", "GET /third"]);
}

#[tokio::test]
async fn answers_without_a_body_do_not_swallow_the_next_answer() {
    let response = b"HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n";
    let proxy = http_proxy(&[response], Then::NextRequest).await;
    let mut stream = connect(&proxy).await;
    for target in ["/a", "/b", "/c"] {
        request(&mut stream, target).await;
        assert_eq!(read_until(&mut stream, b"\r\n\r\n").await, response, "{target}");
    }
}

/// An upstream that sends 100, reads a body of the given length, and sends it back.
async fn careful_upstream(length: usize) -> FaultProxy {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_until(&mut stream, b"\r\n\r\n").await;
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
        let mut sent = vec![0; length];
        stream.read_exact(&mut sent).await.unwrap();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(&[head.as_bytes(), &sent].concat()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
    });
    FaultProxy::http(address).await.unwrap()
}

#[tokio::test]
async fn a_body_that_waits_for_100_continue_gets_through() {
    for (header, sent) in [
        ("Content-Length: 11", "hello world"),
        ("Transfer-Encoding: chunked", "b\r\nhello world\r\n0\r\n\r\n"),
    ] {
        let proxy = careful_upstream(sent.len()).await;
        let mut stream = connect(&proxy).await;
        let head = format!("POST /x HTTP/1.1\r\nhost: test\r\nExpect: 100-continue\r\n{header}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let interim = read_until(&mut stream, b"\r\n\r\n").await;
        assert_eq!(interim, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(sent.as_bytes()).await.unwrap();
        let head = read_until(&mut stream, b"\r\n\r\n").await;
        assert!(head.starts_with(b"HTTP/1.1 200 OK\r\n"));
        let mut echoed = vec![0; sent.len()];
        stream.read_exact(&mut echoed).await.unwrap();
        assert_eq!(echoed, sent.as_bytes());
    }
}

#[tokio::test]
async fn after_an_upgrade_the_bytes_pass_both_ways() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_until(&mut stream, b"\r\n\r\n").await;
        stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n\r\n").await.unwrap();
        let (mut from, mut to) = stream.split();
        tokio::io::copy(&mut from, &mut to).await.unwrap();
    });
    let proxy = FaultProxy::http(address).await.unwrap();
    let mut stream = connect(&proxy).await;
    stream.write_all(b"GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n").await.unwrap();
    read_until(&mut stream, b"\r\n\r\n").await;
    stream.write_all(b"\x81\x05hello\r\n\r\nHTTP/1.1 ").await.unwrap();
    let mut echoed = [0; 20];
    stream.read_exact(&mut echoed).await.unwrap();
    assert_eq!(&echoed, b"\x81\x05hello\r\n\r\nHTTP/1.1 ");
}

#[tokio::test]
async fn a_splice_into_a_body_with_a_length_is_valid_http() {
    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789";
    for (rest, expected) in [(Rest::Keep, "01234<x>56789"), (Rest::Discard, "01234<x>")] {
        let proxy = http_proxy(&[response], Then::Close).await;
        let splice = Action::Splice(b"<x>".to_vec(), rest);
        proxy.add(Rule::new(Fault::At(Point::Pattern(b"34".to_vec()), splice)));
        assert_eq!(body(&get(&proxy, "/").await.0), expected);
    }
}

#[tokio::test]
async fn a_compressed_event_stream_is_left_alone() {
    let response = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\n\nx\n\n";
    let proxy = http_proxy(&[response], Then::Close).await;
    let rule = proxy.add(Rule::new(Fault::Event(EventMatch::new(|_| true), Edit::Later(1))));
    assert_eq!(get(&proxy, "/").await.0, response);
    assert_eq!(proxy.fired(rule), 0);
}
