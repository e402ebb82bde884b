//! The same frames over a WebSocket.

use crate::support::{PATIENCE, Rig, answer, options};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};
use turnstream_server::Options;
use turnstream_testkit::lawful::Tail;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn connect(rig: &Rig, path: &str) -> Socket {
    connect_async(format!("ws://{}{path}", rig.address)).await.unwrap().0
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

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_has_the_same_frames_with_their_ids() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    rig.played(&id, json!([{"do": "text", "text": "one two three"}])).await;
    let log = rig.log(&id).await;
    let generation =
        rig.get(&format!("/v1/sessions/{id}")).await.body["generation"].as_str().unwrap().to_owned();
    for after in [0, 3, log.len()] {
        let mut socket = connect(&rig, &format!("/v1/sessions/{id}/ws?after={after}")).await;
        let outcome = object(&mut socket).await;
        assert_eq!((&outcome["type"], outcome.get("id")), (&json!("stream"), None));
        for (at, line) in log.iter().enumerate().skip(after) {
            let mut expected: Value = serde_json::from_str(line).unwrap();
            expected["id"] = json!(format!("{generation}:{}", at + 1));
            assert_eq!(object(&mut socket).await, expected);
        }
        // And what comes live, with words of the client in between that mean nothing.
        socket.send(Message::text("hello?")).await.unwrap();
        socket.send(Message::Ping("x".into())).await.unwrap();
        if after == log.len() {
            rig.play(&id, json!([{"do": "text", "text": "live"}])).await;
            while object(&mut socket).await["type"] != "turn.ended" {}
        }
        socket.close(None).await.unwrap();
    }
    rig.until(&id, |snapshot| snapshot["session"]["status"] == "idle").await;
    rig.judge(&id, Tail::Settled).await;
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_websocket_is_pinged_and_told_when_the_gateway_ends() {
    let rig = Rig::start_with(Options { heartbeat: Duration::from_millis(50), ..options() }).await;
    let id = rig.session().await;
    let head = rig.head(&id).await;
    let mut socket = connect(&rig, &format!("/v1/sessions/{id}/ws?after={head}")).await;
    object(&mut socket).await;
    let pinged = timeout(PATIENCE, socket.next()).await.unwrap().unwrap().unwrap();
    assert!(matches!(pinged, Message::Ping(_)), "{pinged:?}");
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
async fn the_id_of_a_frame_is_its_own_also_if_an_imported_event_has_one() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    rig.played(&id, json!([{"do": "text", "text": "one"}])).await;
    let url = rig.url(&format!("/v1/sessions/{id}/export"));
    let file = rig.http.get(url).send().await.unwrap().text().await.unwrap();
    let file = file.replace("{\"seq\":", "{\"id\":\"mine\",\"seq\":");
    assert!(file.contains("mine"));
    let copy = answer(rig.import("?new_id=true", file)).await;
    assert_eq!(copy.status, 201, "{copy:?}");
    let (copied, generation) = (&copy.body["id"], copy.body["generation"].as_str().unwrap());
    let mut socket = connect(&rig, &format!("/v1/sessions/{}/ws", copied.as_str().unwrap())).await;
    object(&mut socket).await;
    for seq in 1..=copy.body["head"].as_u64().unwrap() {
        assert_eq!(object(&mut socket).await["id"], format!("{generation}:{seq}"));
    }
    socket.close(None).await.unwrap();
    rig.stop().await;
}
