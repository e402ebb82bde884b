//! 10,000 requests with mistakes in them, from a fixed seed: no panic, no error of the server, and it answers
//! afterwards.

use crate::support::{PATIENCE, Rig};
use fastrand::Rng;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use turnstream_server::Kind;
use turnstream_testkit::lawful::Tail;

const REQUESTS: u64 = 10_000;
const SEED: u64 = 0x2026_1117;
/// Clients that send at a time.
const CLIENTS: u64 = 16;

/// What is in the head of an event stream, and of a WebSocket.
const STREAMS: [&[u8]; 2] = [b"content-type: text/event-stream", b"HTTP/1.1 101 "];

/// A request in parts, each of which can be changed.
#[derive(Clone)]
struct Parts {
    method: String,
    path: String,
    query: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    is_chunked: bool,
}

impl Parts {
    fn new(method: &str, target: &str, body: Option<Value>) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut headers = vec![("Host".to_owned(), b"localhost".to_vec())];
        if body.is_some() {
            headers.push(("Content-Type".to_owned(), b"application/json".to_vec()));
        }
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers,
            body: body.map(|body| body.to_string().into_bytes()).unwrap_or_default(),
            is_chunked: false,
        }
    }

    fn bytes(&self, rng: &mut Rng) -> Vec<u8> {
        let mut out = format!("{} {}", self.method, self.path).into_bytes();
        if !self.query.is_empty() {
            out.extend_from_slice(format!("?{}", self.query).as_bytes());
        }
        out.extend_from_slice(b" HTTP/1.1\r\n");
        for (name, value) in &self.headers {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
        if self.is_chunked {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            out.extend_from_slice(&chunked(&self.body, rng));
        } else {
            out.extend_from_slice(format!("Content-Length: {}\r\n\r\n", self.body.len()).as_bytes());
            out.extend_from_slice(&self.body);
        }
        out
    }
}

/// Valid requests of every route.
fn valid(id: &str, cwd: &str) -> Vec<Parts> {
    let session = |path: &str| format!("/v1/sessions/{id}{path}");
    let text = json!({"content": [{"type": "text", "text": "{\"script\":[{\"do\":\"text\",\"text\":\"x\"}]}"}], "key": "k"});
    let get = |target: &str| Parts::new("GET", target, None);
    let post = |target: &str, body: Value| Parts::new("POST", target, Some(body));
    let mut upgrade = get(&session("/ws"));
    for (name, value) in [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ] {
        upgrade.headers.push((name.to_owned(), value.into()));
    }
    vec![
        get("/v1/health"),
        get("/metrics"),
        get("/v1/agents"),
        get("/v1/events?heartbeat=data"),
        get("/v1/search?q=hello&limit=5&kind=message&from=1&to=2"),
        get("/v1/sessions?limit=2&order=id&status=idle&q=x"),
        get(&session("")),
        get(&session("/snapshot")),
        get(&session("/items?limit=3&before=i1")),
        get(&session("/log?from=1&limit=2")),
        get(&session("/export?format=jsonl")),
        get(&session("/events?after=g1:1&dialect=acp&heartbeat=comment")),
        upgrade,
        post("/v1/sessions", json!({"agent": "scripted", "cwd": cwd, "title": "t", "permissions": "ask"})),
        post(&session("/prompts"), text),
        post(&session("/cancel"), json!({"turn": "t1"})),
        post(&session("/approvals/q1"), json!({"outcome": "allow_once", "option": "o"})),
        post(&session("/questions/u1"), json!({"answers": {"0": ["PG"]}})),
        Parts::new("PATCH", &session(""), Some(json!({"title": "x", "mode": "m"}))),
        Parts::new("DELETE", &session("/prompts/p1"), None),
        post("/v1/import?new_id=true", json!({"turnstream": 1, "session": "s", "generation": "g"})),
    ]
}

const PATHS: &[&str] = &[
    "",
    "*",
    "/",
    "//",
    "/v1",
    "/v1/",
    "/v1/sessions/",
    "/v1/sessions/%00",
    "/v1/sessions/%ff/log",
    "/v1/%",
    "/..",
    "/v1/sessions/../../etc/passwd",
    "http://evil.example/v1/health",
    "/v1/sessions/\u{fc}",
    "/v1/health#x",
    "/ /",
    "localhost:80",
    "/v1/sessions/%2e%2e%2f/ws",
    "?",
    "/v1/import/",
];
const QUERIES: &[&str] = &[
    "&&&",
    "=",
    "a",
    "limit=-1",
    "limit=99999999999999999999",
    "after=%ff",
    "after=g1:18446744073709551616",
    "q=%22",
    "from=1e9",
    "limit=1&limit=2",
    "new_id=maybe",
    "dialect=",
    "q=%00",
    "q=***",
    "after=g1:1.99999999999",
    "wait=-1",
    "q=-",
    "format=%0d%0a",
    "kind=\u{202e}",
    "order=activity&after=x",
];
const HEADERS: &[(&str, &[u8])] = &[
    ("Content-Length", b"-1"),
    ("Content-Length", b"18446744073709551616"),
    ("Content-Length", b"5"),
    ("Content-Length", b"0x10"),
    ("Transfer-Encoding", b"chunked"),
    ("Transfer-Encoding", b"gzip, chunked"),
    ("Transfer-Encoding", b"chunked, identity"),
    ("Expect", b"100-continue"),
    ("Expect", b"200-ok"),
    ("Connection", b"upgrade, close, keep-alive"),
    ("Upgrade", b"h2c"),
    ("Last-Event-ID", b"\xff\xfe"),
    ("Last-Event-ID", b"g1:-1"),
    ("Content-Type", b"application/json; charset=utf-7"),
    ("Content-Type", b"\xff"),
    ("Authorization", b"Basic !!!"),
    ("Authorization", b"Bearer"),
    ("Origin", b"http://[::1"),
    ("Host", b"localhost, evil.example"),
    ("Host", b"@:"),
    ("X-Request-Id", b"a\tb"),
    ("Sec-WebSocket-Version", b"99"),
    ("Sec-WebSocket-Key", b"short"),
    ("X-Null", b"a\0b"),
    ("X-Fold", b"a\r\n b"),
    ("X-Line", b"a\nb: c"),
    ("Bad Name", b"x"),
    ("", b"x"),
];
const BODIES: &[&[u8]] = &[
    b"",
    b"null",
    b"[]",
    b"\"",
    b"{",
    b"{\"\":}",
    b"\xff\xfe",
    b"\xef\xbb\xbf{}",
    b"{\"a\":1e999}",
    b"{}{}",
    b"{\"title\":\"\\ud800\"}",
    b"{\"content\":[{}]}",
    b"{\"content\":[{\"type\":\"text\",\"text\":null}]}",
    b"{\"turn\":{\"a\":[]}}",
    b"{\"agent\":\"scripted\",\"cwd\":\"\\u0000\"}",
    b"\0\0\0\0",
];

/// Any of these.
fn any<'a, T: ?Sized>(rng: &mut Rng, all: &[&'a T]) -> &'a T {
    all[rng.usize(..all.len())]
}

/// The body in chunks, often with a mistake.
fn chunked(body: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in body.chunks(rng.usize(1..64)) {
        let size = match rng.u8(..20) {
            0 => "ffffffffffffffff".to_owned(),
            1 => "-1".to_owned(),
            2 => "g".to_owned(),
            3 => String::new(),
            4 => format!("{:x};ext=\"{}\"", chunk.len(), "e".repeat(rng.usize(..5_000))),
            5 => format!("{:x}", chunk.len() + 1),
            _ => format!("{:x}", chunk.len()),
        };
        out.extend_from_slice(size.as_bytes());
        out.extend_from_slice(any(rng, &[&b"\r\n"[..], b"\r\n", b"\r\n", b"\n"]));
        out.extend_from_slice(chunk);
        out.extend_from_slice(any(rng, &[&b"\r\n"[..], b"\r\n", b"\r\n", b"\r\n", b""]));
    }
    out.extend_from_slice(any(
        rng,
        &[&b"0\r\n\r\n"[..], b"0\r\nTrailer: x\r\n\r\n", b"0\r\n", b"00000000000000000\r\n\r\n"],
    ));
    out
}

/// Damages bytes anywhere.
fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    if bytes.is_empty() {
        return;
    }
    let at = rng.usize(..bytes.len());
    let end = (at + rng.usize(1..16)).min(bytes.len());
    match rng.u8(..6) {
        0 => bytes[at] = rng.u8(..),
        1 => bytes[at] ^= 1 << rng.u8(..8),
        2 => drop(bytes.drain(at..end)),
        3 => bytes.truncate(at),
        4 => {
            let again = bytes[at..end].to_vec();
            bytes.splice(at..at, again);
        }
        _ => {
            let noise: Vec<u8> = (0..rng.usize(1..16)).map(|_| rng.u8(..)).collect();
            bytes.splice(at..at, noise);
        }
    }
}

/// One request with at least one mistake.
fn malformed(valid: &[Parts], rng: &mut Rng) -> Vec<u8> {
    let mut parts = valid[rng.usize(..valid.len())].clone();
    let mut is_damaged = false;
    for _ in 0..rng.usize(1..4) {
        match rng.u8(..10) {
            0 => parts.path = any(rng, PATHS).to_owned(),
            1 => parts.query = any(rng, QUERIES).to_owned(),
            2 | 3 => {
                let (name, value) = HEADERS[rng.usize(..HEADERS.len())];
                parts.headers.push((name.to_owned(), value.to_vec()));
            }
            4 => parts.body = any(rng, BODIES).to_vec(),
            5 => parts.body = "[".repeat(rng.usize(..2_000)).into_bytes(),
            6 => damage(&mut parts.body, rng),
            7 => {
                parts.method =
                    any(rng, &["GET", "POST", "PUT", "OPTIONS", "TRACE", "G\u{e9}T", "", "PRI"]).to_owned()
            }
            8 => parts.headers.push(("X-Flood".to_owned(), vec![b'x'; rng.usize(..40_000)])),
            _ => is_damaged = true,
        }
        parts.is_chunked |= rng.u8(..5) == 0;
    }
    let mut bytes = parts.bytes(rng);
    if is_damaged {
        for _ in 0..rng.usize(1..5) {
            damage(&mut bytes, rng);
        }
    }
    bytes
}

/// Whether the head of an event stream or of a WebSocket has arrived.
fn is_stream(told: &[u8]) -> bool {
    STREAMS.iter().any(|head| told.windows(head.len()).any(|window| window == *head))
}

/// The statuses of all answers on one connection. The client sends everything, ends its side, and reads.
async fn statuses(address: SocketAddr, request: &[u8]) -> Vec<(u16, String)> {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let mut told = Vec::new();
    let exchange = async {
        // The server may close before it has read everything.
        if socket.write_all(request).await.is_ok() {
            socket.shutdown().await.ok();
        }
        // A stream has no end: a client that only stopped sending may still read it.
        while !is_stream(&told) && socket.read_buf(&mut told).await.is_ok_and(|read| read > 0) {}
    };
    timeout(PATIENCE, exchange).await.expect("the server ends the connection");
    let told = String::from_utf8_lossy(&told);
    let answers = told.split("HTTP/1.1 ").skip(1);
    answers.filter_map(|answer| Some((answer.get(..3)?.parse().ok()?, answer.to_owned()))).collect()
}

/// Whether an answer is one that a client may get: no failure of the server.
fn is_documented(status: u16, answer: &str) -> bool {
    let is_limit =
        |kind: &&Kind| kind.status() == 503 && answer.contains(&format!("problem:{}\"", kind.name()));
    status < 500 || Kind::ALL.iter().any(|kind| is_limit(&kind))
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_malformed_requests_do_no_harm() {
    let panics = Arc::new(AtomicUsize::new(0));
    let (before, count) = (std::panic::take_hook(), panics.clone());
    std::panic::set_hook(Box::new(move |info| {
        count.fetch_add(1, Ordering::Relaxed);
        before(info);
    }));
    let rig = Rig::start().await;
    let id = rig.session().await;
    rig.played(&id, json!([{"do": "text", "text": "hello"}])).await;
    let requests = Arc::new(valid(&id, rig.work().to_str().unwrap()));
    let address = rig.address;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let requests = requests.clone();
            tokio::spawn(async move {
                let mut refused = 0;
                for number in (client..REQUESTS).step_by(CLIENTS as usize) {
                    let request = malformed(&requests, &mut Rng::with_seed(SEED + number));
                    for (status, answer) in statuses(address, &request).await {
                        let shown = String::from_utf8_lossy(&request);
                        assert!(is_documented(status, &answer), "request {number}: {answer}\n\n{shown}");
                        refused += u64::from((400..500).contains(&status));
                    }
                }
                refused
            })
        })
        .collect();
    let mut refused = 0;
    for client in clients {
        refused += client.await.unwrap();
    }
    assert_eq!(panics.load(Ordering::Relaxed), 0);
    assert!(refused > REQUESTS / 3, "only {refused} were found to be malformed");
    // It works as before.
    let next = rig.session().await;
    rig.played(&next, json!([{"do": "text", "text": "hello again"}])).await;
    rig.judge(&next, Tail::Settled).await;
    rig.stop().await;
}
