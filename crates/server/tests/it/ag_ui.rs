//! AG-UI over HTTP: what a client is sent, and how it is refused. The real clients judge it in the tests of
//! the command line.

use super::support::{Rig, Seen, Stream, options};
use serde_json::{Value, json};
use turnstream_server::{ChatDefaults, Options};

const ASKS: &str = r#"[{"do":"text","text":"May I?","chunks":1},
    {"do":"tool","name":"write","title":"Write","ask":true},{"do":"text","text":"Done.","chunks":1}]"#;

async fn rig() -> Rig {
    let chat = ChatDefaults { agent: Some("scripted".to_owned()), cwd: None };
    Rig::start_with(Options { chat, ..options() }).await
}

fn user(id: &str, script: &str) -> Value {
    let script: Value = serde_json::from_str(script).unwrap();
    json!({"id": id, "role": "user", "content": json!({"script": script, "pace_ms": 0}).to_string()})
}

fn body(thread: &str, run: &str, messages: &[Value]) -> Value {
    json!({"threadId": thread, "runId": run, "protocolVersion": "1.0", "messages": messages})
}

/// All frames of a run.
async fn frames(rig: &Rig, body: &Value) -> Vec<Seen> {
    all(Stream::of(rig.http.post(rig.url("/ag-ui/scripted")).json(body)).await).await
}

/// The frames of a stream. None has a null: with one, `@ag-ui/client` keeps an interrupt that is answered.
async fn all(mut stream: Stream) -> Vec<Seen> {
    let mut frames = Vec::new();
    while let Some(seen) = stream.more().await {
        assert!(!has_null(&seen.json()), "{}", seen.json());
        frames.push(seen);
    }
    frames
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.values().any(has_null),
        Value::Array(items) => items.iter().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn kinds(frames: &[Seen]) -> Vec<String> {
    frames.iter().map(|seen| seen.json()["type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_run_that_waits_has_an_id_of_its_own() {
    let rig = rig().await;
    let body = body("t", "r1", &[user("m1", ASKS)]);
    let first = frames(&rig, &body).await;
    assert_eq!(kinds(&first).last().unwrap(), "RUN_FINISHED");
    // The same run again: TanStack AI drops a frame whose id it has seen.
    let again = frames(&rig, &body).await;
    assert_eq!(kinds(&again), ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
    let ids: Vec<bool> = again.iter().map(|seen| seen.id.is_some()).collect();
    assert_eq!(ids, [false, false, true], "only the last frame of a replay moves the cursor");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_found_by_its_id_while_it_is_open_and_after_its_end() {
    let rig = rig().await;
    let said = user("m1", r#"[{"do":"text","text":"Hello.","chunks":1}]"#);
    frames(&rig, &body("t", "r1", &[said])).await;
    let joined = all(rig.stream("/ag-ui/scripted?offset=-1&runId=r1").await).await;
    assert_eq!(kinds(&joined), ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
    let started = joined[0].json();
    assert_eq!((&started["threadId"], &started["runId"]), (&json!("t"), &json!("r1")));
    assert_eq!(joined[1].json()["messages"][1]["content"], "Hello.");

    // A run that waits, and the answer to it, are found too.
    let asks = frames(&rig, &body("t", "r2", &[user("m2", ASKS)])).await;
    let interrupt = asks.last().unwrap().json()["outcome"]["interrupts"][0]["id"].clone();
    let thread = rig.get("/ag-ui/scripted?threadId=t").await.body;
    assert_eq!((&thread["activeRun"], &thread["interrupts"]["runId"]), (&Value::Null, &json!("r2")));
    let mut answer = body("t", "r3", &[]);
    answer["resume"] =
        json!([{"interruptId": interrupt, "status": "resolved", "payload": {"approved": true}}]);
    frames(&rig, &answer).await;
    for run in ["r2", "r3"] {
        let joined = all(rig.stream(&format!("/ag-ui/scripted?offset=-1&runId={run}")).await).await;
        let list = joined[1].json();
        assert_eq!(list["messages"].as_array().unwrap().last().unwrap()["content"], "Done.", "{run}");
    }
    assert_eq!(rig.get("/ag-ui/scripted?offset=-1&runId=other").await.status, 404);

    // A turn whose prompt has no key is named with its session.
    let session = rig.session().await;
    rig.play(&session, json!([{"do": "text", "text": "Wait.", "chunks": 1}, {"do": "stall"}])).await;
    rig.until(&session, |state| state["items"][0]["text"] == "Wait.").await;
    let thread = rig.get(&format!("/ag-ui/scripted?threadId={session}")).await.body;
    let run = thread["activeRun"]["runId"].as_str().unwrap();
    let mut joined = rig.stream(&format!("/ag-ui/scripted?offset=-1&runId={run}")).await;
    assert_eq!(joined.next().await.json()["runId"], run);
    assert_eq!(joined.next().await.json()["messages"][1]["content"], "Wait.");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_thread_is_empty_and_an_unknown_session_is_an_error() {
    let rig = rig().await;
    for (thread, status) in [("new", 200), ("ses_unknown", 404)] {
        assert_eq!(rig.get(&format!("/ag-ui/scripted?threadId={thread}")).await.status, status);
        let connect = rig.http.post(rig.url("/ag-ui/agent/scripted/connect")).json(&body(thread, "r", &[]));
        assert_eq!(connect.send().await.unwrap().status().as_u16(), status);
    }
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_two_threads_with_one_id_are_not_mixed_up() {
    let rig = rig().await;
    for (thread, text) in [("a", "Of A."), ("b", "Of B.")] {
        let script = format!(r#"[{{"do":"text","text":"{text}","chunks":1}}]"#);
        frames(&rig, &body(thread, "r1", &[user("m1", &script)])).await;
    }
    let refused = rig.get("/ag-ui/scripted?offset=-1&runId=r1").await;
    assert_eq!(refused.status, 400, "{refused:?}");
    assert_eq!(refused.body["type"], "urn:turnstream:problem:bad-query");
    for (thread, text) in [("a", "Of A."), ("b", "Of B.")] {
        let path = format!("/ag-ui/scripted?offset=-1&runId=r1&threadId={thread}");
        let joined = all(rig.stream(&path).await).await;
        assert_eq!(joined[0].json()["threadId"], thread);
        assert_eq!(joined[1].json()["messages"][1]["content"], text);
    }
    assert_eq!(rig.get("/ag-ui/scripted?offset=-1&runId=r1&threadId=c").await.status, 404);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_no_run_has_sent_are_sent_with_the_next_one() {
    let rig = rig().await;
    let said = user("m1", r#"[{"do":"text","text":"Hello.","chunks":1}]"#);
    frames(&rig, &body("t", "r1", std::slice::from_ref(&said))).await;
    let answer = json!({"id": "m2", "role": "assistant", "content": "Hello."});
    let unsent = json!({"id": "m3", "role": "user", "content": "Of a run that was refused"});
    let last = user("m4", r#"[{"do":"text","text":"Both.","chunks":1}]"#);
    frames(&rig, &body("t", "r2", &[said, answer, unsent, last])).await;
    let thread = rig.get("/ag-ui/scripted?threadId=t").await.body;
    let users = thread["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "user");
    let ids: Vec<&str> = users.map(|message| message["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["m1", "m3", "m4"]);
    rig.stop().await;
}
