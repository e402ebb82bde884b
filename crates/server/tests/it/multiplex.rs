//! Multiplex sessions on one WebSocket.

use crate::support::{PATIENCE, Rig};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn connect(rig: &Rig) -> Socket {
    connect_async(format!("ws://{}/v1/ws", rig.address)).await.unwrap().0
}

async fn say(socket: &mut Socket, parse_request: Value) {
    socket.send(Message::text(parse_request.to_string())).await.unwrap();
}

async fn object(socket: &mut Socket) -> Value {
    loop {
        match timeout(PATIENCE, socket.next()).await.unwrap().unwrap().unwrap() {
            Message::Text(text) => return serde_json::from_str(text.as_str()).unwrap(),
            Message::Ping(_) | Message::Pong(_) => {}
            other => panic!("{other:?} is no frame"),
        }
    }
}

/// The next frame that is like that; what comes before is passed over.
async fn until(socket: &mut Socket, is: impl Fn(&Value) -> bool) -> Value {
    loop {
        let frame = object(socket).await;
        if is(&frame) {
            return frame;
        }
    }
}

/// The frames of a session's log, up to this event; states and other sessions are passed over.
async fn log_up_to(socket: &mut Socket, session: &str, head: u64) -> Vec<Value> {
    let mut frames = Vec::new();
    while frames.last().is_none_or(|last: &Value| last["seq"].as_u64() < Some(head)) {
        frames.push(until(socket, |frame| frame["session"] == session && frame.get("seq").is_some()).await);
    }
    frames
}

async fn generation(rig: &Rig, id: &str) -> String {
    rig.get(&format!("/v1/sessions/{id}")).await.body["generation"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_socket_carries_several_sessions_and_the_states_of_all() {
    let rig = Rig::start().await;
    let (one, two, three) = (rig.session().await, rig.session().await, rig.session().await);
    for id in [&one, &two] {
        rig.played(id, json!([{"do": "text", "text": "before"}])).await;
    }
    let mut socket = connect(&rig).await;
    let mut shown = Vec::new();
    loop {
        let frame = object(&mut socket).await;
        if frame == json!({"type": "stream", "outcome": "caught_up"}) {
            break;
        }
        assert_eq!((&frame["type"], &frame["status"]), (&json!("session.status"), &json!("idle")));
        shown.push(frame["session"].as_str().unwrap().to_owned());
    }
    shown.sort();
    let mut made = vec![one.clone(), two.clone(), three.clone()];
    made.sort();
    assert_eq!(shown, made);

    say(&mut socket, json!({"subscribe": one})).await;
    let head = rig.head(&one).await;
    let outcome = until(&mut socket, |frame| frame["type"] == "stream").await;
    assert_eq!((&outcome["session"], &outcome["outcome"]), (&json!(one), &json!("replayed")));
    let expected = |log: &[String], id: &str, generation: &str| -> Vec<Value> {
        let framed = log.iter().enumerate().map(|(at, line)| {
            let mut frame: Value = serde_json::from_str(line).unwrap();
            frame["id"] = json!(format!("{generation}:{}", at + 1));
            frame["session"] = json!(id);
            frame
        });
        framed.collect()
    };
    let frames = log_up_to(&mut socket, &one, head).await;
    assert_eq!(frames, expected(&rig.log(&one).await, &one, &generation(&rig, &one).await));

    // Another one from its cursor on, and both live.
    let (head, current) = (rig.head(&two).await, generation(&rig, &two).await);
    say(&mut socket, json!({"subscribe": two, "after": format!("{current}:{head}")})).await;
    let outcome = until(&mut socket, |frame| frame["type"] == "stream").await;
    assert_eq!((&outcome["session"], &outcome["outcome"]), (&json!(two), &json!("caught_up")));
    for id in [&one, &two, &three] {
        rig.play(id, json!([{"do": "text", "text": "live"}])).await;
    }
    let mut ended = Vec::new();
    while ended.len() < 2 {
        let frame = object(&mut socket).await;
        assert!(frame.get("seq").is_none() || frame["session"] != json!(three), "nobody subscribed: {frame}");
        if frame["type"] == "turn.ended" {
            ended.push(frame["session"].as_str().unwrap().to_owned());
        }
    }
    ended.sort();
    let mut both = vec![one.clone(), two.clone()];
    both.sort();
    assert_eq!(ended, both);

    // Nothing of it comes after the answer to an unsubscribe.
    say(&mut socket, json!({"unsubscribe": one})).await;
    let left = json!({"type": "stream", "outcome": "unsubscribed", "session": one});
    until(&mut socket, |frame| *frame == left).await;
    for id in [&one, &two] {
        rig.played(id, json!([{"do": "text", "text": "after"}])).await;
    }
    loop {
        let frame = object(&mut socket).await;
        assert!(frame.get("seq").is_none() || frame["session"] != json!(one), "{frame}");
        if frame["type"] == "turn.ended" {
            break;
        }
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_answered_and_the_socket_stays() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    let mut socket = connect(&rig).await;
    say(&mut socket, json!({"subscribe": "ses_nobody"})).await;
    let unknown = until(&mut socket, |frame| frame["type"] == "error").await;
    assert_eq!(unknown["session"], "ses_nobody");
    assert_eq!(unknown["problem"]["type"], "urn:turnstream:problem:unknown-session");
    for (bad, kind) in [
        (json!({"subscribe": id, "after": "x"}), "bad-cursor"),
        (json!({"subscribe": 7}), "bad-body"),
        (json!("hello"), "bad-body"),
        (json!({"subscribe": id, "colour": 1}), "bad-body"),
    ] {
        say(&mut socket, bad.clone()).await;
        let refused = until(&mut socket, |frame| frame["type"] == "error").await;
        assert_eq!(refused["problem"]["type"], format!("urn:turnstream:problem:{kind}"), "{bad}");
    }
    socket.send(Message::binary("{}")).await.unwrap();
    until(&mut socket, |frame| frame["type"] == "error").await;

    // A second subscription begins anew, and there is one all the same.
    let head = rig.head(&id).await;
    for _ in 0..2 {
        say(&mut socket, json!({"subscribe": id})).await;
        until(&mut socket, |frame| frame["type"] == "stream" && frame["session"] == json!(id)).await;
        assert_eq!(log_up_to(&mut socket, &id, head).await.len(), head as usize);
    }
    rig.play(&id, json!([{"do": "text", "text": "once"}])).await;
    let mut seqs = Vec::new();
    loop {
        let frame = object(&mut socket).await;
        seqs.extend(frame["seq"].as_u64());
        if frame["type"] == "turn.ended" {
            break;
        }
    }
    assert_eq!(seqs, (head + 1..=head + seqs.len() as u64).collect::<Vec<_>>());

    // A session goes, and the socket does not.
    rig.until(&id, |snapshot| snapshot["session"]["status"] == "idle").await;
    rig.ask("DELETE", &format!("/v1/sessions/{id}"), None).await;
    let gone = until(&mut socket, |frame| frame["outcome"] == "gone").await;
    assert_eq!(gone, json!({"type": "stream", "outcome": "gone", "session": id}));
    let other = rig.session().await;
    say(&mut socket, json!({"subscribe": other})).await;
    until(&mut socket, |frame| frame["type"] == "session.created" && frame["session"] == json!(other)).await;

    let reading = tokio::spawn(async move {
        let mut last = None;
        loop {
            match socket.next().await {
                Some(Ok(Message::Text(text))) => last = Some(text.to_string()),
                Some(Ok(Message::Close(frame))) => return (last, frame.unwrap()),
                Some(Ok(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    });
    rig.stop().await;
    let (last, close) = reading.await.unwrap();
    assert_eq!(last.unwrap(), r#"{"type":"stream","outcome":"closing"}"#);
    assert_eq!(u16::from(close.code), 1001);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_is_not_read_for_long_misses_nothing() {
    let rig = Rig::start().await;
    let (one, two) = (rig.session().await, rig.session().await);
    let mut socket = connect(&rig).await;
    for id in [&one, &two] {
        say(&mut socket, json!({"subscribe": id})).await;
    }
    // More than the socket's and the gateway's buffers take.
    let large = "x".repeat(4 << 20);
    for _ in 0..2 {
        for id in [&one, &two] {
            rig.played(id, json!([{"do": "text", "text": large}])).await;
        }
    }
    let heads = [rig.head(&one).await, rig.head(&two).await];
    let mut seen = [0, 0];
    while seen != heads {
        let frame = object(&mut socket).await;
        let at = usize::from(frame["session"] == json!(two));
        if let Some(seq) = frame["seq"].as_u64() {
            assert_eq!(seq, seen[at] + 1, "each once, and in order");
            seen[at] = seq;
        }
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_asks_for_an_upgrade_as_other_websockets_do() {
    let rig = Rig::start().await;
    let plain = rig.get("/v1/ws").await;
    assert_eq!((plain.status, &plain.body["type"]), (400, &json!("urn:turnstream:problem:no-websocket")));
    let foreign =
        rig.http.get(rig.url("/v1/ws")).header("Origin", "https://example.com").send().await.unwrap();
    assert_eq!(foreign.status().as_u16(), 403);
    rig.stop().await;
}
