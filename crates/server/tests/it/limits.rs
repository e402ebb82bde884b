//! Every limit of the server, reached by real clients: a clear answer, a number in the metrics, and one line.

use crate::problems::assert_problem;
use crate::support::{Answer, PATIENCE, Rig, answer, options, raw};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use turnstream_server::{Auth, Limits, Options, Token};
use turnstream_testkit::diagnostics::{Capture, Level};

const MIB: usize = 1 << 20;

async fn rig(limits: Limits) -> Rig {
    Rig::start_with(Options { limits, ..options() }).await
}

async fn metric(rig: &Rig, sample: &str) -> u64 {
    let page = rig.http.get(rig.url("/metrics")).send().await.unwrap().text().await.unwrap();
    let line = page.lines().find_map(|line| line.strip_prefix(sample));
    line.unwrap_or_else(|| panic!("no {sample} in {page}")).trim().parse().unwrap()
}

async fn refused(rig: &Rig, limit: &str) -> u64 {
    metric(rig, &format!("turnstream_refused_total{{limit=\"{limit}\"}}")).await
}

/// The lines that name a limit.
fn lines_of(capture: &Capture, limit: &str) -> usize {
    let lines = capture.at_least(Level::WARN);
    lines.iter().filter(|line| line.field("limit") == Some(limit)).count()
}

/// Everything that comes until the other side closes.
async fn rest(mut socket: TcpStream) -> String {
    let mut answer = Vec::new();
    timeout(PATIENCE, socket.read_to_end(&mut answer)).await.expect("it is closed").unwrap();
    String::from_utf8(answer).unwrap()
}

/// A request on a connection of its own, from another address of this machine.
async fn from_address(rig: &Rig, from: &str, path: &str) -> String {
    let mut socket = connect_from(rig.address, from).await;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    rest(socket).await
}

async fn connect_from(address: SocketAddr, from: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(from.parse().unwrap(), 0)).unwrap();
    socket.connect(address).await.unwrap()
}

async fn is_healthy(rig: &Rig) -> bool {
    rig.http.get(rig.url("/v1/health")).send().await.is_ok_and(|answer| answer.status() == 200)
}

/// Asks until the answer is like that.
async fn until<T>(mut ask: impl AsyncFnMut() -> T, is: impl Fn(&T) -> bool) -> T {
    let wait = async {
        loop {
            let answer = ask().await;
            if is(&answer) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, wait).await.expect("it comes to be like that")
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_keep_nobody_out() {
    let rig = rig(Limits { connections: 8, ..Limits::default() }).await;
    let id = rig.session().await;
    let mut idle = Vec::new();
    for begin in ["", "GET /v1/he"].into_iter().cycle().take(40) {
        let mut socket = TcpStream::connect(rig.address).await.unwrap();
        socket.write_all(begin.as_bytes()).await.unwrap();
        idle.push(socket);
    }
    let head = "GET /v1/sessions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    for _ in 0..20 {
        let told = raw(rig.address, head).await;
        assert!(told.starts_with("HTTP/1.1 200 ") && told.contains(&id), "{told}");
    }
    // The oldest were closed, and nobody was refused.
    let mut byte = [0; 1];
    let read = timeout(PATIENCE, idle[0].read(&mut byte)).await.expect("it is closed");
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    assert!(metric(&rig, "turnstream_connections_evicted_total").await >= 32);
    assert!(metric(&rig, "turnstream_connections_open").await <= 8);
    assert_eq!(refused(&rig, "connections").await, 0);
    rig.stop().await;
}

/// What needs no token is open to those who have none, and keeps no connection from others.
#[tokio::test(flavor = "multi_thread")]
async fn half_sent_logins_and_wrong_tokens_keep_nobody_out() {
    let token = Token::new("0123456789abcdef0123456789abcdef").unwrap();
    let limits = Limits { connections: 8, ..Limits::default() };
    let rig = Rig::start_with(Options { limits, ..Options::new(Auth::Token(token)) }).await;
    let half = "POST /v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{";
    let wrong = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\n\r\n";
    let mut held = Vec::new();
    for begin in [half, wrong].into_iter().cycle().take(40) {
        let mut socket = TcpStream::connect(rig.address).await.unwrap();
        socket.write_all(begin.as_bytes()).await.unwrap();
        held.push(socket);
    }
    let head = "GET /v1/sessions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n\r\n";
    for _ in 0..20 {
        let told = raw(rig.address, head).await;
        assert!(told.starts_with("HTTP/1.1 200 "), "{told}");
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_above_the_limit_is_answered_and_closed_at_once() {
    let capture = Capture::start();
    let rig = rig(Limits { connections: 3, ..Limits::default() }).await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(rig.stream("/v1/events").await);
    }
    for _ in 0..50 {
        // Without a request, and with one.
        let waiting = TcpStream::connect(rig.address).await.unwrap();
        let told = [rest(waiting).await, raw(rig.address, "GET /v1/health HTTP/1.1\r\n\r\n").await];
        for told in told {
            assert!(told.starts_with("HTTP/1.1 503 ") && told.contains("\r\nretry-after: 1\r\n"), "{told}");
            let (_, body) = told.split_once("\r\n\r\n").unwrap();
            let body: Value = serde_json::from_str(body).unwrap();
            assert_eq!(body["type"], "urn:turnstream:problem:too-many-connections");
            assert_eq!(body["limit"], 3);
        }
    }
    assert_eq!(lines_of(&capture, "connections"), 1);
    drop(streams);
    until(async || is_healthy(&rig).await, |is_healthy| *is_healthy).await;
    assert!(refused(&rig, "connections").await >= 100);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_cannot_take_the_connections_of_others() {
    let rig = rig(Limits { connections_per_address: 2, ..Limits::default() }).await;
    let streams = [rig.stream("/v1/events").await, rig.stream("/v1/events").await];
    let told = rest(TcpStream::connect(rig.address).await.unwrap()).await;
    assert!(told.starts_with("HTTP/1.1 503 ") && told.contains("connections_per_address"), "{told}");
    let other = from_address(&rig, "127.0.0.2", "/metrics").await;
    assert!(other.contains("turnstream_refused_total{limit=\"connections_per_address\"} 1\n"), "{other}");
    drop(streams);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_keeps_its_place_while_it_is_open() {
    let rig = rig(Limits { connections: 2, ..Limits::default() }).await;
    let url = format!("ws://{}/v1/ws", rig.address);
    let sockets = [
        tokio_tungstenite::connect_async(&url).await.unwrap(),
        tokio_tungstenite::connect_async(&url).await.unwrap(),
    ];
    let told = rest(TcpStream::connect(rig.address).await.unwrap()).await;
    assert!(told.starts_with("HTTP/1.1 503 "), "{told}");
    drop(sockets);
    until(async || is_healthy(&rig).await, |is_healthy| *is_healthy).await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_above_the_rate_are_told_when_to_come_back() {
    let capture = Capture::start();
    let limits = Limits { requests_per_second: 1, requests_burst: 200, ..Limits::default() };
    let rig = rig(limits).await;
    let mut stream = rig.stream("/v1/events").await;
    stream.next().await;
    let mut answers = Vec::new();
    for _ in 0..300 {
        answers.push(rig.get("/v1/agents").await);
    }
    let (taken, refused_answers): (Vec<Answer>, Vec<Answer>) =
        answers.into_iter().partition(|answer| answer.status == 200);
    // The stream counted once. A slow machine takes a few more.
    assert!((199..299).contains(&taken.len()), "{}", taken.len());
    for answer in &refused_answers {
        assert_problem(answer, 429, "too-many-requests", &["1 requests per second", "requests_per_second"]);
        assert!(answer.headers["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
        assert_eq!(answer.body["limit"], 1);
    }
    // An operator still sees what is wrong, and another address has its own rate.
    assert_eq!(rig.get("/v1/health").await.status, 200);
    assert_eq!(refused(&rig, "requests_per_second").await, refused_answers.len() as u64);
    assert_eq!(lines_of(&capture, "requests_per_second"), 1);
    let other = from_address(&rig, "127.0.0.2", "/v1/agents").await;
    assert!(other.starts_with("HTTP/1.1 200 "), "{other}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_has_one_rate_from_all_addresses() {
    let limits = Limits { requests_per_second: 1, requests_burst: 2, ..Limits::default() };
    let token = Token::new("0123456789abcdef0123456789abcdef").unwrap();
    let rig = Rig::start_with(Options { limits, ..Options::new(Auth::Token(token)) }).await;
    let ask = async |from: &str| {
        let mut socket = connect_from(rig.address, from).await;
        let request = "GET /v1/agents HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                       Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n\r\n";
        socket.write_all(request.as_bytes()).await.unwrap();
        rest(socket).await
    };
    let mut refused = 0;
    for last in 1..=20 {
        let told = ask(&format!("127.0.0.{last}")).await;
        refused += usize::from(told.starts_with("HTTP/1.1 429 "));
        // Without the token nothing is taken of its rate.
        assert_eq!(rig.get("/v1/agents").await.status, 401);
    }
    assert!(refused >= 1);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_above_the_limit_are_refused_until_one_is_closed() {
    let capture = Capture::start();
    let rig = rig(Limits { followers: 3, ..Limits::default() }).await;
    let id = rig.session().await;
    let one = rig.stream(&format!("/v1/sessions/{id}/events")).await;
    let all = rig.stream("/v1/events").await;
    let (socket, _) = tokio_tungstenite::connect_async(format!("ws://{}/v1/ws", rig.address)).await.unwrap();
    for path in [format!("/v1/sessions/{id}/events"), "/v1/events".to_owned()] {
        let refused = rig.get(&path).await;
        assert_problem(&refused, 503, "too-many-followers", &["3 event streams", "/v1/ws"]);
        assert_eq!(
            (&refused.body["limit"], &refused.headers["retry-after"]),
            (&json!(3), &"5".parse().unwrap())
        );
    }
    for path in ["/v1/ws".to_owned(), format!("/v1/sessions/{id}/ws")] {
        let refused = tokio_tungstenite::connect_async(format!("ws://{}{path}", rig.address)).await;
        let Err(tokio_tungstenite::tungstenite::Error::Http(refused)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(refused.status(), 503);
    }
    assert_eq!(refused(&rig, "followers").await, 4);
    assert_eq!(lines_of(&capture, "followers"), 1);
    // What is refused for another reason takes no place.
    assert_eq!(rig.get("/v1/sessions/ses_nope/ws").await.status, 400);
    drop((one, all, socket));
    until(
        async || rig.http.get(rig.url("/v1/events")).send().await.unwrap(),
        |answer| answer.status() == 200,
    )
    .await;
    rig.stop().await;
}

/// Begins a prompt and sends only a part of it.
async fn half_sent(rig: &Rig, path: &str, length: usize, sent: usize) -> TcpStream {
    let mut socket = TcpStream::connect(rig.address).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    socket.write_all(&vec![b' '; sent]).await.unwrap();
    socket
}

#[tokio::test(flavor = "multi_thread")]
async fn half_sent_bodies_keep_no_prompt_out() {
    let capture = Capture::start();
    // 21 MiB of it are for what follows the first 64 KiB of a body.
    let rig = rig(Limits { body_memory: 28 * MIB, ..Limits::default() }).await;
    let id = rig.session().await;
    let path = format!("/v1/sessions/{id}/prompts");
    // Two of them fill the memory, and nothing more comes.
    let mut stopped = Vec::new();
    for _ in 0..2 {
        stopped.push(half_sent(&rig, &path, 10 * MIB, 10 * MIB - 1).await);
    }
    until(async || metric(&rig, "turnstream_body_memory_bytes").await, |used| *used == 20 * MIB as u64).await;
    for length in [1, 2 * MIB, 2 * MIB] {
        let text = "x".repeat(length);
        let sent = rig.post(&path, json!({"content": [{"type": "text", "text": text}]})).await;
        assert_eq!(sent.status, 202, "{sent:?}");
    }
    let mut told = String::new();
    for mut socket in stopped {
        // One was given up, and is closed already. The other one breaks off.
        socket.shutdown().await.ok();
        told += &rest(socket).await;
    }
    assert!(told.contains("HTTP/1.1 503 ") && told.contains("retry-after"), "{told}");
    assert!(told.contains("urn:turnstream:problem:body-memory"), "{told}");
    assert!((1..=2).contains(&refused(&rig, "body_memory").await));
    assert_eq!(lines_of(&capture, "body_memory"), 1);
    until(async || metric(&rig, "turnstream_body_memory_bytes").await, |used| *used == 0).await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_finds_no_memory_is_refused_after_a_bounded_time() {
    let wait = Duration::from_millis(50);
    let rig = rig(Limits { body_memory: 1, wait, ..Limits::default() }).await;
    let id = rig.session().await;
    let path = format!("/v1/sessions/{id}/prompts");
    let refuse = async || {
        // It has only begun to stop, so it is not given up yet.
        let holder = half_sent(&rig, &path, 10 * MIB, 10 * MIB - 1).await;
        let text = "x".repeat(MIB);
        let refused = rig.post(&path, json!({"content": [{"type": "text", "text": text}]})).await;
        drop(holder);
        refused
    };
    let refused = until(refuse, |refused| refused.status == 503).await;
    assert_problem(&refused, 503, "body-memory", &["bytes of their memory", "body_memory"]);
    assert_eq!(refused.headers["retry-after"], "2");
    until(async || metric(&rig, "turnstream_body_memory_bytes").await, |used| *used == 0).await;
    let sent = rig.post(&path, json!({"content": [{"type": "text", "text": "x"}]})).await;
    assert_eq!(sent.status, 202, "{sent:?}");
    rig.stop().await;
}

/// Begins an import and sends only a part of it.
async fn half_import(rig: &Rig) -> TcpStream {
    let mut socket = TcpStream::connect(rig.address).await.unwrap();
    let head = "POST /v1/import HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n\
                Content-Length: 99\r\nConnection: close\r\n\r\n{";
    socket.write_all(head.as_bytes()).await.unwrap();
    socket
}

fn import(rig: &Rig) -> reqwest::RequestBuilder {
    let file = "{\"seq\":1}\n".to_owned();
    rig.http.post(rig.url("/v1/import")).header("content-type", "application/x-ndjson").body(file)
}

#[tokio::test(flavor = "multi_thread")]
async fn imports_run_one_at_a_time() {
    let capture = Capture::start();
    let rig = rig(Limits { wait: Duration::from_millis(50), ..Limits::default() }).await;
    let first = half_import(&rig).await;
    let busy = until(async || answer(import(&rig)).await, |answer| answer.status == 503).await;
    assert_problem(&busy, 503, "import-busy", &["another import"]);
    assert_eq!(busy.headers["retry-after"], "10");
    assert_eq!((refused(&rig, "imports").await, lines_of(&capture, "imports")), (1, 1));
    drop(first);
    let next = until(async || answer(import(&rig)).await, |answer| answer.status != 503).await;
    assert_problem(&next, 400, "bad-import", &[]);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_import_ends_after_its_time_and_the_next_one_runs() {
    let limits = Limits { import_time: Duration::from_secs(3), wait: PATIENCE, ..Limits::default() };
    let rig = rig(limits).await;
    let mut slow = half_import(&rig).await;
    // It never pauses for long.
    let told = async {
        let (mut reader, mut writer) = slow.split();
        let mut told = String::new();
        let send = async {
            for _ in 0..98 {
                tokio::time::sleep(Duration::from_millis(50)).await;
                if writer.write_all(b" ").await.is_err() {
                    // It was answered, and closed.
                    break;
                }
            }
        };
        let (read, ()) = tokio::join!(reader.read_to_string(&mut told), send);
        read.unwrap();
        told
    };
    let told = timeout(PATIENCE, told).await.unwrap();
    assert!(told.starts_with("HTTP/1.1 408 ") && told.contains("import_time"), "{told}");
    assert_problem(&answer(import(&rig)).await, 400, "bad-import", &[]);
    assert_eq!(refused(&rig, "import_time").await, 1);
    rig.stop().await;
}
