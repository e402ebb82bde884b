//! The fault proxy between real sockets: a scripted upstream and a client that reads bytes.

// Helpers of a test may panic, like the test itself.
#![allow(clippy::unwrap_used)]

mod bytes;
mod events;
mod http;
mod live;

use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use turnstream_testkit::proxy::FaultProxy;

/// What an upstream does when its answer is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Close,
    NextRequest,
}

/// An upstream that answers every request head with these pieces, a moment apart.
async fn upstream(pieces: &[&[u8]], then: Then) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let pieces: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.to_vec()).collect();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let pieces = pieces.clone();
            tokio::spawn(async move {
                while !read_until(&mut stream, b"\r\n\r\n").await.is_empty() {
                    for piece in &pieces {
                        if stream.write_all(piece).await.is_err() {
                            return;
                        }
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    if then == Then::Close {
                        return;
                    }
                }
            });
        }
    });
    address
}

async fn http_proxy(pieces: &[&[u8]], then: Then) -> FaultProxy {
    FaultProxy::http(upstream(pieces, then).await).await.unwrap()
}

/// Reads up to and with a mark; everything there is if the connection ends first.
async fn read_until(stream: &mut TcpStream, mark: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(mark) && matches!(stream.read(&mut byte).await, Ok(1)) {
        bytes.push(byte[0]);
    }
    bytes
}

async fn connect(proxy: &FaultProxy) -> TcpStream {
    TcpStream::connect(proxy.address()).await.unwrap()
}

async fn request(stream: &mut TcpStream, target: &str) {
    let head = format!("GET {target} HTTP/1.1\r\nhost: test\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
}

/// Everything a GET gets up to the end of the connection, and how that came.
async fn get(proxy: &FaultProxy, target: &str) -> (Vec<u8>, std::io::Result<()>) {
    let mut stream = connect(proxy).await;
    request(&mut stream, target).await;
    read_to_end(&mut stream).await
}

async fn read_to_end(stream: &mut TcpStream) -> (Vec<u8>, std::io::Result<()>) {
    let mut bytes = Vec::new();
    let read = async {
        let mut piece = [0; 4096];
        loop {
            match stream.read(&mut piece).await {
                Ok(0) => return Ok(()),
                Ok(length) => bytes.extend_from_slice(&piece[..length]),
                Err(error) => return Err(error),
            }
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(300), read).await.expect("no end within 300 s");
    (bytes, ended)
}

/// The body of a response, read strictly: wrong or missing chunk framing panics.
fn body(response: &[u8]) -> String {
    let text = String::from_utf8(response.to_vec()).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let head = head.to_ascii_lowercase();
    if let Some(length) = head.lines().find_map(|line| line.strip_prefix("content-length: ")) {
        assert_eq!(body.len(), length.parse::<usize>().unwrap(), "the length is wrong");
        return body.to_owned();
    }
    if !head.contains("transfer-encoding: chunked") {
        return body.to_owned();
    }
    let (mut rest, mut content) = (body, String::new());
    loop {
        let (size, after) = rest.split_once("\r\n").expect("a chunk size");
        let size = usize::from_str_radix(size, 16).expect("a chunk size in hexadecimal");
        if size == 0 {
            assert_eq!(after, "\r\n", "the body goes on after its end");
            return content;
        }
        content.push_str(&after[..size]);
        rest = after[size..].strip_prefix("\r\n").expect("a line end after a chunk");
    }
}
