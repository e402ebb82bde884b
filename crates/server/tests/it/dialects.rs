//! Streams in another dialect than the native one: the same carriers, cursors and promises.

use crate::support::{PATIENCE, Rig, Seen, Stream};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

/// A prompt of two blocks, of which ACP makes two frames.
async fn say(rig: &Rig, session: &str, script: Value) {
    let script = json!({"script": script}).to_string();
    let link = json!({"type": "resource_link", "name": "a.rs", "uri": "file:///a.rs"});
    let blocks = json!([{"type": "text", "text": script}, link]);
    let answer = rig.post(&format!("/v1/sessions/{session}/prompts"), json!({"content": blocks})).await;
    assert_eq!(answer.status, 202, "{answer:?}");
}

fn method(seen: &Seen) -> String {
    seen.json()["method"].as_str().unwrap_or_default().to_owned()
}

async fn acp(rig: &Rig, session: &str, cursor: &str) -> Stream {
    rig.stream(&format!("/v1/sessions/{session}/events?dialect=acp&after={cursor}")).await
}

/// Frames until the session rests after a turn.
async fn until_idle(stream: &mut Stream) -> Vec<Seen> {
    let (mut all, mut ended) = (Vec::new(), false);
    loop {
        let seen = stream.next().await;
        ended |= method(&seen) == "_turnstream/turn_ended";
        let idle = method(&seen) == "_turnstream/status" && seen.json()["params"]["status"] == "idle";
        all.push(seen);
        if ended && idle {
            return all;
        }
    }
}

/// Waits until every stream has ended, and with them what they shared.
async fn until_nobody_follows(rig: &Rig) {
    let wait = async {
        loop {
            let metrics = rig.http.get(rig.url("/metrics")).send().await.unwrap().text().await.unwrap();
            if metrics.contains("turnstream_streams_open{kind=\"sse\"} 0\n") {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, wait).await.expect("the streams end");
}

/// What the agent said on these frames.
fn text(frames: &[Seen]) -> String {
    let update = |seen: &Seen| seen.json()["params"]["update"].clone();
    let chunks = frames.iter().map(update).filter(|update| update["sessionUpdate"] == "agent_message_chunk");
    chunks.map(|update| update["content"]["text"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn acp_is_resumed_after_every_frame_of_the_turn_with_exactly_those_that_follow() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    let mut stream = acp(&rig, &id, "0").await;
    assert_eq!(stream.next().await.json()["outcome"], "replayed");
    say(&rig, &id, json!([{"do": "reasoning", "text": "Hm"}, {"do": "text", "text": "one two three"}])).await;
    let frames = until_idle(&mut stream).await;
    assert_eq!(text(&frames), "one two three");
    assert!(frames.iter().all(|seen| seen.event == "message" && seen.json()["jsonrpc"] == "2.0"));
    assert!(frames.iter().all(|seen| seen.json()["params"]["sessionId"] == id.as_str()));

    // The two blocks of the prompt are two frames of one event, and every other event of this log makes one.
    let ids: Vec<&str> = frames.iter().filter_map(|seen| seen.id.as_deref()).collect();
    let several: Vec<&&str> = ids.iter().filter(|id| id.contains('.')).collect();
    let event = several[0].strip_suffix(".1").unwrap();
    assert_eq!(several, [&format!("{event}.1").as_str(), &format!("{event}.2").as_str()]);
    let turn = frames.iter().position(|seen| seen.id.as_deref() == Some(several[0])).unwrap();

    // First somebody stays, then all have left: whoever comes back goes on where it was.
    let mut stays = Some(stream);
    for _ in 0..2 {
        for (at, seen) in frames.iter().enumerate().skip(turn) {
            if stays.is_none() {
                until_nobody_follows(&rig).await;
            }
            let mut again = acp(&rig, &id, seen.id.as_deref().unwrap()).await;
            let outcome = again.next().await.json();
            assert!(outcome["outcome"] == "replayed" || at + 1 == frames.len(), "{outcome}");
            for expected in &frames[at + 1..] {
                assert_eq!(again.next().await, *expected, "after {:?}", seen.id);
            }
        }
        drop(stays.take());
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_older_than_the_turns_that_are_remembered_is_shown_the_conversation_and_goes_on() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    rig.played(&id, json!([{"do": "text", "text": "first"}])).await;
    rig.played(&id, json!([{"do": "text", "text": "second"}])).await;
    let session = rig.get(&format!("/v1/sessions/{id}")).await.body;
    let (generation, head) = (session["generation"].as_str().unwrap(), session["head"].as_u64().unwrap());
    let replay = async |cursor: &str| {
        let mut stream = acp(&rig, &id, cursor).await;
        let outcome = stream.next().await.json();
        let mut shown = Vec::new();
        while shown.last().is_none_or(|seen: &Seen| seen.id.is_none()) {
            shown.push(stream.next().await);
        }
        assert_eq!(shown.last().unwrap().id, Some(format!("{generation}:{head}")));
        assert_eq!(text(&shown), "firstsecond");
        (outcome, stream)
    };
    for (cursor, reason) in [
        (format!("{generation}:3"), "older_turn"),
        (format!("{generation}:3.1"), "older_turn"),
        ("other:3".to_owned(), "generation"),
        (format!("{generation}:{}", head + 9), "beyond_head"),
        (format!("{generation}:{}.1", head + 1), "beyond_head"),
    ] {
        let (outcome, _) = replay(&cursor).await;
        let want = json!({"type": "stream", "outcome": "reset", "generation": generation,
            "reason": reason, "oldest": head + 1, "head": head});
        assert_eq!(outcome, want, "{cursor}");
    }
    let (outcome, mut stream) = replay("0").await;
    let want = json!({"type": "stream", "outcome": "replayed", "generation": generation,
        "from": 1, "to": head, "head": head});
    assert_eq!(outcome, want);
    say(&rig, &id, json!([{"do": "text", "text": "third"}])).await;
    assert_eq!(text(&until_idle(&mut stream).await), "third");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acp_over_a_websocket_has_the_same_messages_with_their_cursors() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    let mut stream = acp(&rig, &id, "0").await;
    let path = format!("ws://{}/v1/sessions/{id}/ws?dialect=acp", rig.address);
    let (mut socket, _) = connect_async(path).await.unwrap();
    let mut message = async || loop {
        match timeout(PATIENCE, socket.next()).await.unwrap().unwrap().unwrap() {
            Message::Text(text) => return serde_json::from_str::<Value>(text.as_str()).unwrap(),
            Message::Ping(_) | Message::Pong(_) => {}
            other => panic!("{other:?} is no frame"),
        }
    };
    assert_eq!(stream.next().await.json(), message().await);
    say(&rig, &id, json!([{"do": "approval"}, {"do": "text", "text": "done"}])).await;
    loop {
        let seen = stream.next().await;
        let mut same = message().await;
        let cursor = same.as_object_mut().unwrap().remove("cursor");
        assert_eq!((seen.json(), seen.id.clone().map(Value::from)), (same, cursor));
        if method(&seen) == "session/request_permission" {
            // The id of a request is JSON-RPC's own: it names the approval.
            let request = seen.json()["id"].as_str().unwrap().to_owned();
            let approval = request.strip_prefix(&format!("{id}/")).unwrap();
            let path = format!("/v1/sessions/{id}/approvals/{approval}");
            assert_eq!(rig.post(&path, json!({"outcome": "allow_once"})).await.status, 200);
        }
        if method(&seen) == "_turnstream/turn_ended" {
            break;
        }
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_acp_reader_misses_nothing() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    let mut slow = acp(&rig, &id, "0").await;
    let mut fast = acp(&rig, &id, "0").await;
    // More than the tail and all buffers on the way hold, in pieces that cannot be merged.
    let mut script = vec![json!({"do": "text", "text": "x".repeat(2_000), "chunks": 1}); 4_000];
    script.push(json!({"do": "text", "text": "the end"}));
    say(&rig, &id, json!(script)).await;
    let all = until_idle(&mut fast).await;
    let got = until_idle(&mut slow).await;
    assert!(all.len() > 4_000);
    // Both begin with what became of their cursors, and with what there was at that time.
    let live = |frames: &[Seen]| {
        let first = frames.iter().position(|seen| seen.id.is_some()).unwrap();
        frames[first..].iter().map(|seen| (seen.id.clone(), seen.data.clone())).collect::<Vec<_>>()
    };
    assert_eq!(live(&got), live(&all));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_dialect_is_refused_with_those_there_are() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    let answer = rig.get(&format!("/v1/sessions/{id}/events?dialect=klingon")).await;
    assert_eq!(
        (answer.status, &answer.body["known"]),
        (400, &json!(["native", "acp", "opencode", "ai-sdk-5", "ai-sdk-6", "ai-sdk-7", "ag-ui"])),
        "{answer:?}"
    );
    assert_eq!(answer.body["type"], "urn:turnstream:problem:bad-query");
    let detail = answer.body["detail"].as_str().unwrap();
    assert!(detail.contains("klingon") && detail.contains("native, acp"), "{detail}");
    rig.stop().await;
}
