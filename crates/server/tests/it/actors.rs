//! Events name the token with which a request came.

use crate::support::{Rig, answer};
use serde_json::{Value, json};
use turnstream_server::{Auth, Options, Token};

/// Sends a request with the token, and returns the body of the answer.
async fn ask(rig: &Rig, method: &str, path: &str, body: Value) -> Value {
    let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
    let request = rig.http.request(method, rig.url(path)).bearer_auth("s3cret");
    let request = if body.is_null() { request } else { request.json(&body) };
    let answer = answer(request).await;
    assert!(answer.status < 300, "{path}: {answer:?}");
    answer.body
}

async fn until(rig: &Rig, session: &str, is: impl Fn(&Value) -> bool) {
    loop {
        if is(&ask(rig, "GET", &format!("{session}/snapshot"), Value::Null).await) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

fn script(steps: Value) -> Value {
    json!({"content": [{"type": "text", "text": json!({"script": steps}).to_string()}]})
}

async fn exported(rig: &Rig, session: &str) -> String {
    let url = rig.url(&format!("{session}/export"));
    rig.http.get(url).bearer_auth("s3cret").send().await.unwrap().text().await.unwrap()
}

/// The events of these types, each with its type and its actor.
fn actors(file: &str, types: &[&str]) -> Vec<(String, Option<String>)> {
    let events = file.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap());
    let named = |event: Value| {
        let kind = event["type"].as_str().unwrap().to_owned();
        let actor = event["actor"].as_str().map(str::to_owned);
        types.contains(&kind.as_str()).then_some((kind, actor))
    };
    events.filter_map(named).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_that_makes_events_names_the_token() {
    let token = Token::new("s3cret").unwrap();
    let rig = Rig::start_with(Options::new(Auth::Token(token))).await;
    let new = json!({"agent": "scripted", "cwd": rig.work(), "permissions": "allow"});
    let made = ask(&rig, "POST", "/v1/sessions", new).await;
    let session = format!("/v1/sessions/{}", made["id"].as_str().unwrap());
    ask(&rig, "PATCH", &session, json!({"permissions": "ask"})).await;
    let question = json!({"do": "question", "questions": [{"id": "0", "text": "DB?"}]});
    let prompts = format!("{session}/prompts");
    ask(&rig, "POST", &prompts, script(json!([{"do": "tool", "ask": true}, question, {"do": "stall"}])))
        .await;
    until(&rig, &session, |snapshot| snapshot["approvals"][0]["approval"] == "q1").await;
    ask(&rig, "POST", &format!("{session}/approvals/q1"), json!({"outcome": "allow_once"})).await;
    until(&rig, &session, |snapshot| snapshot["questions"][0]["question"] == "u1").await;
    ask(&rig, "POST", &format!("{session}/questions/u1"), json!({"answers": {"0": ["PG"]}})).await;
    ask(&rig, "POST", &prompts, script(json!([]))).await;
    ask(&rig, "DELETE", &format!("{prompts}/p2"), Value::Null).await;
    ask(&rig, "POST", &format!("{session}/cancel"), json!({})).await;
    until(&rig, &session, |snapshot| snapshot["session"]["status"] == "idle").await;
    let types = [
        "session.created",
        "prompt.accepted",
        "approval.resolved",
        "question.answered",
        "prompt.withdrawn",
        "turn.cancelling",
    ];
    let owner = |kind: &str| (kind.to_owned(), Some("owner".to_owned()));
    let file = exported(&rig, &session).await;
    assert_eq!(
        actors(&file, &types),
        [types[0], types[1], types[2], types[3], types[1], types[4], types[5]].map(owner)
    );
    // The agent's own words and the turns are nobody's.
    assert!(
        actors(&file, &["turn.started", "item.started", "turn.ended"]).iter().all(|(_, by)| by.is_none())
    );
    let changes = actors(&file, &["session.updated"]).into_iter().filter(|(_, by)| by.is_some());
    assert_eq!(changes.count(), 2, "of the creation and of the change");

    ask(&rig, "PATCH", &session, json!({"permissions": "allow"})).await;
    let file = exported(&rig, &session).await;
    let import = rig.http.post(rig.url("/v1/import?new_id=true")).bearer_auth("s3cret");
    let import = answer(import.header("content-type", "application/x-ndjson").body(file)).await;
    assert_eq!((import.status, &import.body["permissions"]), (201, &json!("ask")), "{import:?}");
    let copy = exported(&rig, &format!("/v1/sessions/{}", import.body["id"].as_str().unwrap())).await;
    let reset: Value = serde_json::from_str(copy.lines().last().unwrap()).unwrap();
    assert_eq!((&reset["permissions"], &reset["actor"]), (&json!("ask"), &json!("owner")), "{reset}");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_events_name_nobody() {
    let rig = Rig::start().await;
    let id = rig.session().await;
    rig.played(&id, json!([{"do": "text", "text": "Hello"}])).await;
    let lines = rig.log(&id).await;
    assert!(lines.iter().all(|line| !line.contains("\"actor\"")), "{lines:?}");
    rig.stop().await;
}
