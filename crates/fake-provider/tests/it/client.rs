//! A client that sees everything: raw TCP, bytes of the body as they were sent, and how the connection ended.

use serde_json::{Value, json};
use std::io::ErrorKind;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use turnstream_fake_provider::{Identity, Provider, Request, Script, Step, WireFormat, render};

/// What came back.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    /// Without HTTP framing.
    pub(crate) body: Vec<u8>,
    pub(crate) end: ClientEnd,
    /// From the request to the end.
    pub(crate) took: Duration,
}

/// How the client saw the response end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientEnd {
    /// As the framing of the body says.
    Complete,
    /// End of file, before that or instead of it.
    EndOfFile,
    /// `ECONNRESET`.
    Reset,
}

/// One SSE event.
#[derive(Debug, PartialEq)]
pub(crate) struct Sse {
    pub(crate) name: Option<String>,
    pub(crate) data: String,
}

/// A provider that answers with these steps.
pub(crate) async fn provider(steps: impl IntoIterator<Item = Step>) -> Provider {
    Provider::start(Script::new(steps)).await.unwrap()
}

/// A request body as each format's clients send it.
pub(crate) fn ask(format: WireFormat, stream: bool) -> Value {
    let mut body = match format {
        WireFormat::Chat => json!({"messages": [{"role": "user", "content": "Say hello"}],
            "stream_options": {"include_usage": true}}),
        WireFormat::Responses => json!({"input": [{"type": "message", "role": "user",
            "content": [{"type": "input_text", "text": "Say hello"}]}]}),
        WireFormat::Messages => json!({"max_tokens": 100,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Say hello"}]}]}),
    };
    body["model"] = "scripted-1".into();
    body["stream"] = stream.into();
    body
}

/// Asks for a stream in this format.
pub(crate) async fn stream(provider: &Provider, format: WireFormat) -> Response {
    send(provider, "POST", format.path(), &ask(format, true)).await
}

/// Asks for a whole answer in this format.
pub(crate) async fn whole(provider: &Provider, format: WireFormat) -> Value {
    let response = send(provider, "POST", format.path(), &ask(format, false)).await;
    serde_json::from_slice(&response.body).unwrap()
}

/// Sends one request on a connection of its own and reads until the response ends.
pub(crate) async fn send(provider: &Provider, method: &str, path: &str, body: &Value) -> Response {
    let mut socket = TcpStream::connect(provider.address()).await.unwrap();
    send_on(&mut socket, method, path, body).await
}

/// Sends one request on this connection and reads until the response ends.
pub(crate) async fn send_on(socket: &mut TcpStream, method: &str, path: &str, body: &Value) -> Response {
    let start = Instant::now();
    let body = body.to_string();
    let request =
        format!("{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    socket.write_all(request.as_bytes()).await.unwrap();
    read(socket, start).await
}

async fn read(socket: &mut TcpStream, start: Instant) -> Response {
    let mut bytes = Vec::new();
    let end = loop {
        if complete(&bytes) {
            break ClientEnd::Complete;
        }
        let received = tokio::time::timeout(Duration::from_secs(300), socket.read_buf(&mut bytes)).await;
        match received.expect("the response ends in 20 s") {
            Ok(0) => break ClientEnd::EndOfFile,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break ClientEnd::Reset,
            Err(error) => panic!("{error}"),
        }
    };
    let (head, body) = split(&bytes).unwrap_or_else(|| panic!("a head, not {bytes:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap();
    let body = if head.contains("transfer-encoding: chunked") { unchunk(&body).0 } else { body };
    Response { status, head, body, end, took: start.elapsed() }
}

fn split(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some((String::from_utf8(bytes[..end + 2].to_vec()).unwrap(), bytes[end + 4..].to_vec()))
}

fn complete(bytes: &[u8]) -> bool {
    let Some((head, body)) = split(bytes) else { return false };
    if head.contains("transfer-encoding: chunked") {
        return unchunk(&body).1;
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.is_some_and(|length| body.len() >= length.parse::<usize>().unwrap())
}

/// The decoded body, and whether its last chunk was there.
fn unchunk(mut bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(line) = bytes.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..line]).unwrap(), 16).unwrap();
        let start = line + 2;
        if size == 0 {
            return (body, true);
        }
        let end = bytes.len().min(start + size);
        body.extend_from_slice(&bytes[start..end]);
        bytes = bytes.get(end + 2..).unwrap_or_default();
    }
    (body, false)
}

/// What `render` says that the answer to this recorded request is.
pub(crate) fn rendered(step: &Step, serial: u64, request: &Request) -> Vec<u8> {
    let created = request.at.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let identity = Identity { serial, created, asked: request.asked.clone() };
    render(request.format.unwrap(), step, &identity).unwrap().body()
}

// === impl Response ===

impl Response {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let prefix = format!("{name}: ");
        self.head.lines().find_map(|line| line.strip_prefix(prefix.as_str()))
    }

    /// The events, comments left out.
    pub(crate) fn events(&self) -> Vec<Sse> {
        let blocks = self.text().split_terminator("\n\n").filter(|block| !block.starts_with(':'));
        let field = |block: &str, name: &str| {
            block.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
        };
        blocks
            .map(|block| Sse { name: field(block, "event: "), data: field(block, "data: ").unwrap() })
            .collect()
    }

    /// The data of the events as JSON, the end marker of chat completions left out.
    pub(crate) fn data(&self) -> Vec<Value> {
        let events = self.events().into_iter().filter(|event| event.data != "[DONE]");
        events.map(|event| serde_json::from_str(&event.data).unwrap()).collect()
    }

    /// The types of the events.
    pub(crate) fn types(&self) -> Vec<String> {
        self.data().iter().map(|data| data["type"].as_str().unwrap().to_owned()).collect()
    }
}
