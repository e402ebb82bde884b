//! What the provider refuses, and how it ends.

use crate::client::{provider, send, send_on, stream};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use turnstream_fake_provider::{Fault, Provider, Script, StartError, Step, WireFormat};

/// A call in this version of HTTP with these further header lines.
fn post(format: WireFormat, version: &str, headers: &str) -> Vec<u8> {
    let body = r#"{"model":"m","stream":true}"#;
    let length = body.len();
    format!("POST {} {version}\r\n{headers}content-length: {length}\r\n\r\n{body}", format.path())
        .into_bytes()
}

/// What a provider says to these bytes until it closes.
async fn answer_to(bytes: &[u8]) -> String {
    let provider = provider([Step::text("Hello").always()]).await;
    let mut socket = TcpStream::connect(provider.address()).await.unwrap();
    socket.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(300), socket.read_to_end(&mut answer)).await;
    read.expect("the provider closes").unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn an_address_that_is_not_loopback_is_refused() {
    for address in ["0.0.0.0:0", "192.0.2.1:0", "[::]:0"] {
        let address: SocketAddr = address.parse().unwrap();
        let error = Provider::bind(address, Script::default()).await.unwrap_err();
        assert!(matches!(error, StartError::NotLoopback(refused) if refused == address), "{error}");
    }
}

#[tokio::test]
async fn what_is_not_http_is_refused() {
    assert!(answer_to(b"\x16\x03\x01 hello\r\n\r\n").await.starts_with("HTTP/1.1 400"));
}

#[tokio::test]
async fn a_head_without_an_end_is_refused_at_its_cap() {
    let head = [b"GET / HTTP/1.1\r\nx: ".as_slice(), &vec![b'a'; 65 * 1024]].concat();
    assert!(answer_to(&head).await.starts_with("HTTP/1.1 431"));
}

#[tokio::test]
async fn a_body_over_the_cap_is_refused_before_it_is_read() {
    let head = b"POST /v1/messages HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n";
    assert!(answer_to(head).await.starts_with("HTTP/1.1 413"));
}

#[tokio::test]
async fn a_body_without_a_length_is_refused() {
    let head = b"POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
    assert!(answer_to(head).await.starts_with("HTTP/1.1 411"));
}

#[tokio::test]
async fn a_client_that_waits_for_a_go_ahead_gets_it() {
    let provider = provider([Step::text("Hello")]).await;
    let mut socket = TcpStream::connect(provider.address()).await.unwrap();
    let head = "POST /v1/responses HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 13\r\n\r\n";
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut go_ahead = [0; 25];
    socket.read_exact(&mut go_ahead).await.unwrap();
    assert_eq!(&go_ahead, b"HTTP/1.1 100 Continue\r\n\r\n");
    socket.write_all(b"{\"model\":\"m\"}").await.unwrap();
    let mut status = [0; 15];
    socket.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 200 OK");
}

#[tokio::test]
async fn a_call_without_a_model_is_refused_in_its_format_and_takes_no_step() {
    let provider = provider([Step::text("Hello")]).await;
    for format in WireFormat::ALL {
        for body in [Value::Null, json!([]), json!({}), json!({"model": 7}), json!({"model": ""})] {
            let response = send(&provider, "POST", format.path(), &body).await;
            let error: Value = serde_json::from_slice(&response.body).unwrap();
            assert_eq!((response.status, &error["error"]["type"]), (400, &json!("invalid_request_error")));
            assert_eq!(error["type"] == "error", format == WireFormat::Messages, "{error}");
        }
        let broken = format!("POST {} HTTP/1.1\r\ncontent-length: 6\r\n\r\nbroken", format.path());
        let mut socket = TcpStream::connect(provider.address()).await.unwrap();
        socket.write_all(broken.as_bytes()).await.unwrap();
        let mut status = [0; 12];
        socket.read_exact(&mut status).await.unwrap();
        assert_eq!(&status, b"HTTP/1.1 400");
    }
    assert!(provider.calls().iter().all(|call| call.step.is_none()));
    assert_eq!(stream(&provider, WireFormat::Chat).await.status, 200, "the step is still there");
}

#[tokio::test]
async fn a_client_of_http_1_0_gets_no_chunks_and_the_connection_is_closed_behind_the_answer() {
    let answer = answer_to(&post(WireFormat::Chat, "HTTP/1.0", "")).await;
    assert!(!answer.contains("transfer-encoding"), "{answer}");
    assert!(answer.ends_with("data: [DONE]\n\n"), "{answer}");
}

#[tokio::test]
async fn a_client_that_asks_for_a_close_in_whatever_letters_gets_it() {
    for header in ["Connection: Close\r\n", "connection: keep-alive, CLOSE\r\n"] {
        let answer = answer_to(&post(WireFormat::Chat, "HTTP/1.1", header)).await;
        assert!(answer.ends_with("0\r\n\r\n"), "{answer}");
    }
}

#[tokio::test]
async fn a_content_length_that_is_not_one_number_is_refused() {
    for lines in ["content-length: +2", "content-length: ", "content-length: 2\r\ncontent-length: 3"] {
        let request = format!("POST /v1/messages HTTP/1.1\r\n{lines}\r\n\r\n{{}}");
        assert!(answer_to(request.as_bytes()).await.starts_with("HTTP/1.1 400"), "{lines}");
    }
}

#[tokio::test]
async fn a_client_in_a_loop_is_stopped_at_the_cap_of_the_record() {
    let provider = provider([]).await;
    for _ in 0..4 {
        // A connection carries 1,024 requests, and the record holds 4,096.
        let mut socket = TcpStream::connect(provider.address()).await.unwrap();
        for _ in 0..1024 {
            assert_eq!(send_on(&mut socket, "HEAD", "/", &Value::Null).await.status, 200);
        }
        let mut rest = Vec::new();
        assert_eq!(socket.read_to_end(&mut rest).await.unwrap(), 0, "the provider closes it then");
    }
    let response = send(&provider, "HEAD", "/", &Value::Null).await;
    assert_eq!(response.status, 503);
    assert_eq!(provider.requests().len(), 4096);
}

#[tokio::test]
async fn an_unknown_path_is_told_what_is_spoken_here() {
    let provider = provider([]).await;
    let response = send(&provider, "GET", "/v2/nothing", &Value::Null).await;
    assert_eq!(response.status, 404);
    assert!(response.text().contains("GET /v2/nothing is not spoken here"), "{}", response.text());
}

#[tokio::test]
async fn shutdown_ends_stalled_connections_and_frees_the_port() {
    let stall = Fault::Stall { after: 0, lasts_ms: None, comment_every_ms: None };
    let provider = provider([Step::text("Never").fault(stall)]).await;
    let address = provider.address();
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(&post(WireFormat::Chat, "HTTP/1.1", "")).await.unwrap();
    provider.wait_for_requests(1, Duration::from_secs(300)).await.unwrap();
    provider.shutdown().await;
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(300), socket.read_to_end(&mut rest)).await;
    assert!(closed.is_ok(), "the client sees the end");
    Provider::bind(address, Script::default()).await.unwrap();
}
