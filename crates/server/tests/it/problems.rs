//! Everything that can be wrong with a request, and what is said about it.

use crate::support::{Answer, Lasting, PATIENCE, Rig, answer, options, raw};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use turnstream_server::Options;

/// Whether an answer is this problem, and says these words.
#[track_caller]
pub(crate) fn assert_problem(answer: &Answer, status: u16, kind: &str, words: &[&str]) {
    let detail = answer.body["detail"].as_str().unwrap_or_default();
    assert_eq!(answer.body["type"], format!("urn:turnstream:problem:{kind}"), "{answer:?}");
    assert_eq!((answer.status, &answer.body["status"]), (status, &json!(status)), "{answer:?}");
    assert_eq!(answer.headers["content-type"], "application/problem+json");
    assert!(!answer.body["title"].as_str().unwrap().is_empty());
    for word in words {
        assert!(detail.contains(word), "{word:?} is not in: {detail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_cannot_be_used_is_refused_with_the_place_of_the_mistake() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    let prompts = format!("/v1/sessions/{id}/prompts");
    let send = |path: &str, body: &'static str| {
        answer(rig.http.post(rig.url(path)).header("content-type", "application/json").body(body))
    };
    let bad = send("/v1/sessions", "{\"agent\":\n  oops}").await;
    assert_problem(&bad, 400, "bad-json", &["line 2 column 3"]);
    assert_eq!((&bad.body["line"], &bad.body["column"]), (&json!(2), &json!(3)));
    assert_problem(&send("/v1/sessions", "").await, 400, "bad-json", &["it ends within"]);
    let trailing = send("/v1/sessions", r#"{"agent":"a","cwd":"/"} x"#).await;
    assert_problem(&trailing, 400, "bad-json", &["trailing characters"]);
    assert_problem(&send("/v1/sessions", "[\"scripted\",\"/\"]").await, 400, "bad-body", &["JSON object"]);
    assert_problem(
        &send("/v1/sessions", r#"{"agent":"a","cwd":"/","colour":"red"}"#).await,
        400,
        "unknown-field",
        &["`colour`", "`agent`", "`permissions`"],
    );
    assert_problem(
        &send("/v1/sessions", r#"{"agent":5,"cwd":"/"}"#).await,
        400,
        "bad-body",
        &["agent:", "a string"],
    );
    assert_problem(
        &send("/v1/sessions", r#"{"agent":"a"}"#).await,
        400,
        "bad-body",
        &["the member `cwd` is missing"],
    );
    assert_problem(
        &send("/v1/sessions", r#"{"agent":"a","cwd":"/","permissions":"perhaps"}"#).await,
        400,
        "bad-body",
        &["permissions:", "perhaps", "ask"],
    );
    assert_problem(&send(&prompts, r#"{"content":"Hi"}"#).await, 400, "bad-body", &["content:"]);
    assert_problem(&send(&prompts, r#"{"content":[]}"#).await, 400, "bad-content", &["empty", "for example"]);
    assert_problem(&send(&prompts, r#"{"content":["Hi"]}"#).await, 400, "bad-content", &["content[0]"]);
    assert_problem(
        &send(&prompts, r#"{"content":[{"type":"text"}]}"#).await,
        400,
        "bad-content",
        &["content[0]"],
    );
    let form = rig.http.post(rig.url(&prompts)).header("content-type", "application/x-www-form-urlencoded");
    assert_problem(
        &answer(form.body("{}")).await,
        415,
        "not-json",
        &["x-www-form-urlencoded", "application/json"],
    );
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_something_that_is_not_there_says_so() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    let cwd = rig.work();
    assert_problem(&rig.get("/v2/nothing").await, 404, "unknown-route", &["/v2/nothing", "/v1"]);
    let method = rig.ask("PUT", "/v1/sessions", Some(json!({}))).await;
    assert_problem(&method, 405, "wrong-method", &["/v1/sessions", "PUT"]);
    assert_eq!(method.headers["allow"], "GET,HEAD,POST");
    for path in ["", "/snapshot", "/events", "/ws"] {
        let answer = rig.get(&format!("/v1/sessions/ses_nope{path}")).await;
        if path == "/ws" {
            assert_problem(&answer, 400, "no-websocket", &["WebSocket", "/events"]);
        } else {
            assert_problem(&answer, 404, "unknown-session", &["ses_nope", "/v1/sessions"]);
        }
    }
    for (path, body) in [
        ("/prompts", json!({"content": [{"type": "text", "text": "x"}]})),
        ("/cancel", json!({})),
        ("/approvals/q1", json!({"outcome": "reject"})),
        ("/questions/u1", json!({"outcome": "rejected"})),
    ] {
        let answer = rig.post(&format!("/v1/sessions/ses_nope{path}"), body).await;
        assert_problem(&answer, 404, "unknown-session", &["ses_nope"]);
    }
    assert_problem(&rig.ask("DELETE", "/v1/sessions/ses_nope", None).await, 404, "unknown-session", &[]);
    let post = |body: Value| rig.post("/v1/sessions", body);
    let unknown = post(json!({"agent": "nobody", "cwd": cwd})).await;
    assert_problem(&unknown, 400, "unknown-agent", &["nobody", "scripted"]);
    assert_eq!(unknown.body["known"], json!(["broken", "lasting", "scripted"]));
    let unusable = post(json!({"agent": "broken", "cwd": cwd})).await;
    assert_problem(&unusable, 409, "agent-unusable", &["broken", "not installed"]);
    assert_problem(
        &post(json!({"agent": "scripted", "cwd": cwd.join("nope")})).await,
        400,
        "no-directory",
        &["nope"],
    );
    assert_problem(
        &post(json!({"agent": "scripted", "cwd": "work"})).await,
        400,
        "no-directory",
        &["absolute"],
    );
    let outside = post(json!({"agent": "scripted", "cwd": "/"})).await;
    assert_problem(&outside, 403, "outside-roots", &["root"]);
    assert_eq!(outside.body["roots"], json!([cwd]));
    std::fs::create_dir_all(cwd.join("inner/deeper")).unwrap();
    assert_eq!(rig.get("/v1/directories").await.body, json!({"roots": [cwd]}));
    let inner = rig.get(&format!("/v1/directories?path={}", cwd.join("inner").display())).await;
    assert_eq!(inner.body, json!({"path": cwd.join("inner"), "directories": ["deeper"]}));
    for above in ["/".to_owned(), cwd.join("..").display().to_string()] {
        let outside = rig.get(&format!("/v1/directories?path={above}")).await;
        assert_problem(&outside, 403, "outside-roots", &["root"]);
    }
    assert_problem(&rig.get("/v1/directories?path=work").await, 400, "no-directory", &["absolute"]);
    let session = |path: &str| format!("/v1/sessions/{id}{path}");
    assert_problem(
        &rig.post(&session("/approvals/q9"), json!({"outcome": "reject"})).await,
        404,
        "unknown-approval",
        &["q9"],
    );
    assert_problem(
        &rig.post(&session("/questions/u9"), json!({"outcome": "rejected"})).await,
        404,
        "unknown-question",
        &["u9"],
    );
    let bytes =
        raw(rig.address, "GET /v1/sessions/%ff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(bytes.await.contains("urn:turnstream:problem:bad-path"));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_in_the_wrong_state_is_refused_with_the_state() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    let session = |path: &str| format!("/v1/sessions/{id}{path}");
    assert_problem(
        &rig.ask("DELETE", &session("/prompts/p9"), None).await,
        409,
        "prompt-not-waiting",
        &["p9"],
    );
    rig.play(&id, json!([{"do": "stall"}])).await;
    rig.until(&id, |snapshot| snapshot["turns"][0]["turn"] == "t1").await;
    let wrong = rig.post(&session("/cancel"), json!({"turn": "t7"})).await;
    assert_problem(&wrong, 409, "turn-not-open", &["t7", "t1"]);
    assert_eq!(wrong.body["open"], "t1");
    assert_problem(
        &rig.ask("DELETE", &session("/prompts/p1"), None).await,
        409,
        "prompt-not-waiting",
        &["p1"],
    );
    assert_problem(
        &rig.post(&session("/approvals/q1"), json!({"outcome": "lost"})).await,
        400,
        "bad-body",
        &["outcome", "allow_once"],
    );
    for body in [json!({}), json!({"outcome": "answered"}), json!({"outcome": "rejected", "answers": {}})] {
        assert_problem(
            &rig.post(&session("/questions/u1"), body).await,
            400,
            "bad-answer",
            &["answers", "rejected"],
        );
    }
    let key = |cwd: &std::path::Path| json!({"agent": "scripted", "cwd": cwd, "key": "k"});
    let other = rig.work().join("other");
    std::fs::create_dir(&other).unwrap();
    rig.post("/v1/sessions", key(&rig.work())).await;
    assert_problem(&rig.post("/v1/sessions", key(&other)).await, 409, "key-reused", &["\"k\""]);
    rig.ask("DELETE", &session(""), None).await;
    assert_problem(
        &rig.post(&session("/prompts"), json!({"content": [{"type": "text", "text": "x"}]})).await,
        404,
        "unknown-session",
        &["GET /v1/sessions"],
    );
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_or_cursor_that_cannot_be_read_is_refused() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    let events = format!("/v1/sessions/{id}/events");
    for cursor in ["x", "-1", "g1:", "%20", ""] {
        let answer = rig.get(&format!("{events}?after={cursor}")).await;
        assert_problem(&answer, 400, "bad-cursor", &["?after", "for example"]);
    }
    let header = rig.http.get(rig.url(&events)).header("last-event-id", "g 1:4");
    assert_problem(&answer(header).await, 400, "bad-cursor", &["Last-Event-ID"]);
    for (query, words) in [
        ("before=1", "there is no parameter \"before\"; known are after, heartbeat, dialect"),
        ("heartbeat=loud", "heartbeat: \"loud\" is not one of comment, data"),
        ("dialect=klingon", "dialect: \"klingon\" is not one of native, acp"),
        ("after=1&after=2", "the parameter \"after\" is given twice"),
    ] {
        assert_problem(&rig.get(&format!("{events}?{query}")).await, 400, "bad-query", &[words]);
    }
    assert_problem(&rig.get("/v1/sessions?limit=many").await, 400, "bad-query", &["limit"]);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_above_ten_mebibytes_is_refused_however_it_is_sent() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    let path = format!("/v1/sessions/{id}/prompts");
    let large = vec![b' '; (10 << 20) + 1];
    let whole = rig.http.post(rig.url(&path)).header("content-type", "application/json");
    assert_problem(&answer(whole.body(large.clone())).await, 413, "too-large", &["10 MiB"]);

    let mut socket = TcpStream::connect(rig.address).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Transfer-Encoding: chunked\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    for chunk in large.chunks(1 << 20) {
        socket.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).await.unwrap();
        socket.write_all(chunk).await.unwrap();
        socket.write_all(b"\r\n").await.unwrap();
    }
    socket.write_all(b"0\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(PATIENCE, socket.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains("urn:turnstream:problem:too-large"), "{answer}");

    // One that asks first is told before it sends anything.
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Content-Length: 99999999\r\nExpect: 100-continue\r\n\r\n"
    );
    let told = raw(rig.address, &head).await;
    assert!(told.starts_with("HTTP/1.1 413 "), "{told}");

    // Just below is read, and judged by what is in it.
    let fits = format!("{{\"content\":[]}}{}", " ".repeat((10 << 20) - 14));
    let fits = rig.http.post(rig.url(&path)).header("content-type", "application/json").body(fits);
    assert_problem(&crate::support::answer(fits).await, 400, "bad-content", &[]);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_come_to_its_end_is_given_up() {
    let rig = Rig::start_with(Options { body: Duration::from_millis(200), ..options() }).await;
    let id = rig.session().await;
    for path in ["/v1/sessions".to_owned(), format!("/v1/sessions/{id}/cancel")] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: 99\r\nConnection: close\r\n\r\n{{\"agent\""
        );
        let told = raw(rig.address, &head).await;
        assert!(told.starts_with("HTTP/1.1 408 "), "{told}");
        assert!(told.contains("urn:turnstream:problem:slow-body") && told.contains("200ms"), "{told}");
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_cannot_be_read_is_named() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    rig.played(&id, json!([{"do": "burst", "count": 100, "bytes": 10_000, "messages": 10}])).await;
    let home = rig.home();
    rig.stop().await;
    let rig = Rig::open(home.clone(), options(), Lasting::There).await;
    // Somebody writes into the database while it is in use.
    let path = home.path().join("data/log.db");
    let length = std::fs::metadata(&path).unwrap().len();
    std::fs::write(&path, vec![0xff; usize::try_from(length).unwrap()]).unwrap();
    let answer = rig.get(&format!("/v1/sessions/{id}/snapshot")).await;
    assert_problem(&answer, 500, "log-failed", &["the log failed"]);
    assert_eq!(rig.get("/v1/health").await.status, 200);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_recovers_takes_no_prompts_yet_and_says_when_to_ask_again() {
    let rig = Rig::start().await;
    // Its turn stays open over a shutdown, and the agent is not there when the gateway comes back.
    let made = rig.post("/v1/sessions", json!({"agent": "lasting", "cwd": rig.work()})).await;
    let id = made.body["id"].as_str().unwrap().to_owned();
    rig.play(&id, json!([{"do": "text", "text": "x"}, {"do": "stall"}])).await;
    rig.until(&id, |snapshot| snapshot["turns"][0]["turn"] == "t1").await;
    let home = rig.home();
    rig.stop().await;
    let rig = Rig::open(home, options(), Lasting::Away).await;
    assert_eq!(rig.get("/v1/ready").await.body["recovering"], 1);
    let answer = rig.play(&id, json!([])).await;
    assert_problem(&answer, 503, "recovering", &[&id]);
    assert_eq!(answer.headers["retry-after"], "1");
    rig.stop().await;
}
