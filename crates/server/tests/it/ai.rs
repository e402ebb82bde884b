//! The AI SDK's chat API over HTTP: what a client of it is sent, and how it is refused. The SDK's own clients
//! judge it in the tests of the command line.

use super::support::{Rig, Stream, options};
use serde_json::{Value, json};
use turnstream_server::{ChatDefaults, Options};
use turnstream_testkit::lawful::Tail;

const ASKS: &str = r#"[{"do":"attempt"},{"do":"text","text":"May I?","chunks":1},
    {"do":"tool","name":"write","title":"Write","ask":true},{"do":"attempt_end","finish":"stop"},
    {"do":"attempt"},{"do":"text","text":"Done.","chunks":1}]"#;

async fn rig() -> Rig {
    let chat = ChatDefaults { agent: Some("scripted".to_owned()), cwd: None };
    Rig::start_with(Options { chat, ..options() }).await
}

fn user(id: &str, script: &str) -> Value {
    let script: Value = serde_json::from_str(script).unwrap();
    let text = json!({"script": script, "pace_ms": 0}).to_string();
    json!({"id": id, "role": "user", "parts": [{"type": "text", "text": text}]})
}

async fn send(rig: &Rig, path: &str, chat: &str, message: &Value) -> Stream {
    let body = json!({"id": chat, "messages": [message], "trigger": "submit-message"});
    Stream::of(rig.http.post(rig.url(path)).json(&body)).await
}

/// All chunks of a response.
async fn chunks(mut stream: Stream) -> Vec<Value> {
    let mut chunks = Vec::new();
    while let Some(seen) = stream.more().await {
        chunks.push(seen.json());
    }
    chunks
}

fn kinds(chunks: &[Value]) -> Vec<&str> {
    chunks.iter().map(|chunk| chunk["type"].as_str().unwrap()).collect()
}

/// The status and the words of a refusal.
async fn refused(rig: &Rig, path: &str, body: Value) -> (u16, String) {
    let answer = rig.http.post(rig.url(path)).json(&body).send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/plain; charset=utf-8");
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_makes_a_session_and_its_response_is_the_turn_up_to_the_approval() {
    let rig = rig().await;
    let first = chunks(send(&rig, "/ai/v6", "my chat", &user("m1", ASKS)).await).await;
    let asked = [
        "start",
        "start-step",
        "text-start",
        "text-delta",
        "text-end",
        "tool-input-start",
        "tool-input-available",
        "tool-approval-request",
        "finish-step",
        "finish",
    ];
    let told: Vec<&str> = kinds(&first).into_iter().filter(|kind| !kind.starts_with("data-")).collect();
    // The input may be told more than once.
    let mut once = told.clone();
    once.dedup();
    assert_eq!(once, asked, "{told:?}");
    assert_eq!(first.last().unwrap()["finishReason"], "tool-calls");
    let session = first[0]["messageMetadata"]["turnstream"]["session"].as_str().unwrap();
    let made = rig.get(&format!("/v1/sessions/{session}")).await.body;
    for (member, value) in
        [("key", json!("my chat")), ("agent", json!("scripted")), ("permissions", json!("ask"))]
    {
        assert_eq!(made[member], value, "{made}");
    }
    assert_eq!(made["cwd"], rig.work().canonicalize().unwrap().display().to_string());

    // It waits: there is nothing to resume, and the messages have the request.
    assert_eq!(rig.get("/ai/my%20chat/stream?v=6").await.status, 204);
    let messages = rig.get("/ai/v6/my%20chat/messages").await.body;
    let mut answer = messages[1].clone();
    let call = answer["parts"].as_array().unwrap().iter().position(|part| part["toolCallId"].is_string());
    let call = call.unwrap();
    assert_eq!(answer["parts"][call]["state"], "approval-requested", "{answer}");
    let (status, words) = refused(&rig, "/ai", json!({"id": "my chat", "message": user("m2", "[]")})).await;
    assert_eq!((status, words.contains("waits for an answer")), (409, true), "{words}");

    // The answer comes with the next request, and the response is the rest.
    answer["parts"][call]["state"] = json!("approval-responded");
    answer["parts"][call]["approval"]["approved"] = json!(true);
    let rest = chunks(send(&rig, "/ai/v6", "my chat", &answer).await).await;
    assert_eq!(rest[0]["messageId"], first[0]["messageId"]);
    let texts: Vec<&str> = rest.iter().filter_map(|chunk| chunk["delta"].as_str()).collect();
    assert_eq!(texts.concat(), "Done.", "the text before the request is not repeated");
    assert_eq!(rest.last().unwrap()["finishReason"], "stop");
    assert_eq!(rig.get("/ai/my%20chat/stream").await.status, 204);
    rig.judge(session, Tail::Settled).await;

    // The same message again is the same turn, from its start.
    let again = chunks(send(&rig, "/ai/v6", session, &user("m1", ASKS)).await).await;
    let texts: Vec<&str> = again.iter().filter_map(|chunk| chunk["delta"].as_str()).collect();
    assert_eq!(texts, ["May I?", "Done."]);
    assert_eq!(rig.get(&format!("/ai/{session}/messages")).await.body.as_array().unwrap().len(), 2);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_refused_in_words() {
    let rig = rig().await;
    let said = user("m1", r#"[{"do":"text","text":"Once."}]"#);
    chunks(send(&rig, "/ai", "c", &said).await).await;
    let edited = user("m1", r#"[{"do":"text","text":"Twice."}]"#);
    let cases = [
        (
            json!({"id": "c", "messages": [said], "trigger": "regenerate-message"}),
            409,
            "cannot be generated again",
        ),
        (json!({"id": "c", "messages": [edited], "messageId": "m1"}), 409, "cannot be edited"),
        (json!({"id": "c", "messages": []}), 400, "neither `messages` nor a `message`"),
        (json!({"id": "", "message": user("m2", "[]")}), 400, "the id of the chat is empty"),
        (json!({"id": "ses_gone", "message": user("m2", "[]")}), 404, "there is no session ses_gone"),
        (
            json!({"id": "c", "message": user("m2", "[]"), "agent": "lasting"}),
            409,
            "the agent of this chat is scripted",
        ),
        (
            json!({"id": "d", "message": user("m2", "[]"), "agent": "nobody"}),
            400,
            "there is no agent \"nobody\"",
        ),
        (json!({"id": "d", "message": user("m2", "[]"), "cwd": "/"}), 403, "/ is not below"),
        (
            json!({"id": "c", "message": {"id": "x", "role": "assistant", "parts": []}}),
            409,
            "is no answer of this chat",
        ),
        (json!({"id": "c", "message": {"role": "system", "parts": []}}), 400, "user or assistant"),
    ];
    for (body, status, words) in cases {
        let answer = refused(&rig, "/ai", body.clone()).await;
        assert!(answer.0 == status && answer.1.contains(words), "{body}: {answer:?}");
    }
    let (status, words) = refused(&rig, "/ai?v=4", json!({})).await;
    assert_eq!((status, words.contains("5, 6, 7")), (400, true), "{words}");
    // A chat that is yet to begin is no error.
    assert_eq!(rig.get("/ai/new/stream").await.status, 204);
    assert_eq!(rig.get("/ai/new/messages").await.body, json!([]));
    assert_eq!(rig.post("/ai/new/stop", json!({})).await.body, json!({"stopped": false}));
    assert_eq!(rig.http.get(rig.url("/ai/ses_gone/stream")).send().await.unwrap().status(), 404);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_turn_is_streamed_from_its_start_and_cut_when_the_gateway_ends() {
    let rig = rig().await;
    let script = r#"[{"do":"text","text":"Working","chunks":1},{"do":"stall"}]"#;
    let mut live = send(&rig, "/ai/v7", "c", &user("m1", script)).await;
    let is_text = |chunk: &Value| chunk["delta"] == "Working";
    while !is_text(&live.next().await.json()) {}
    let messages = rig.get("/ai/c/messages").await.body;
    assert_eq!(messages.as_array().unwrap().len(), 1, "the running answer is left to the stream");
    assert_eq!((&messages[0]["id"], &messages[0]["role"]), (&json!("m1"), &json!("user")));
    let mut second = rig.stream("/ai/c/stream?v=7").await;
    let begun = second.next().await.json();
    assert_eq!(begun["type"], "start");
    while !is_text(&second.next().await.json()) {}

    assert_eq!(rig.post("/ai/c/stop", json!({})).await.body, json!({"stopped": true}));
    let end = chunks(second).await;
    assert_eq!(end.last().unwrap()["type"], "abort");
    assert_eq!(chunks(live).await.last(), end.last());

    let mut cut = send(&rig, "/ai", "c", &user("m2", script)).await;
    while !is_text(&cut.next().await.json()) {}
    let ((rest, was_cut), _) = tokio::join!(cut.rest(), rig.stop());
    // A stream that lives long enough tells that the turn is lost.
    assert!(was_cut || rest.contains(r#""type":"error""#), "that looks like a whole answer: {rest}");
    assert!(!rest.contains(r#""type":"finish""#), "{rest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_another_turn_takes_gets_that_turn() {
    let rig = rig().await;
    let wakes = r#"[{"do":"text","text":"First."},
        {"do":"wake","after_ms":500,"steps":[{"do":"text","text":"For both.","chunks":1}]}]"#;
    chunks(send(&rig, "/ai/v7", "c", &user("m1", wakes)).await).await;
    let told = chunks(send(&rig, "/ai/v7", "c", &user("m2", r#"[{"do":"merge"}]"#)).await).await;
    let texts: Vec<&str> = told.iter().filter_map(|chunk| chunk["delta"].as_str()).collect();
    assert_eq!((texts.concat().as_str(), &told[0]["type"]), ("For both.", &json!("start")), "{told:?}");
    assert_eq!(told.last().unwrap()["finishReason"], "stop");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_withdrawn_while_it_waits_is_no_clean_end() {
    let rig = rig().await;
    let mut first = send(&rig, "/ai", "c", &user("m1", r#"[{"do":"text","text":"x"},{"do":"stall"}]"#)).await;
    let session = first.next().await.json()["messageMetadata"]["turnstream"]["session"].clone();
    let session = session.as_str().unwrap();
    let second = send(&rig, "/ai", "c", &user("m2", r#"[{"do":"text","text":"y"}]"#)).await;
    let withdrawn = rig.ask("DELETE", &format!("/v1/sessions/{session}/prompts/p2"), None).await;
    assert_eq!(withdrawn.status, 204, "{withdrawn:?}");
    let told = chunks(second).await;
    assert_eq!(kinds(&told), ["error"]);
    rig.post("/ai/c/stop", json!({})).await;
    assert_eq!(chunks(first).await.last().unwrap()["type"], "abort");
    rig.stop().await;
}
