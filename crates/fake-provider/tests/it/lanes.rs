//! Which request gets which step, and what the handle tells about it.

use crate::client::{ask, provider, send, send_on, stream};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpStream;
use turnstream_fake_provider::{Ended, Provider, Script, Step, Times, WireFormat};

const SOON: Duration = Duration::from_secs(300);

async fn asked_of(provider: &Provider, model: &str, text: &str) -> String {
    let body = json!({"model": model, "stream": true, "messages": [{"role": "user", "content": text}]});
    send(provider, "POST", "/v1/chat/completions", &body).await.text().to_owned()
}

#[tokio::test]
async fn title_requests_do_not_consume_the_main_conversation() {
    let title = Step::text("Title").for_model("scripted-title").always();
    let provider = provider([title, Step::text("First"), Step::text("Second")]).await;
    for (model, said) in [
        ("scripted-title", "Title"),
        ("scripted-1", "First"),
        ("scripted-title", "Title"),
        ("scripted-1", "Second"),
    ] {
        assert!(asked_of(&provider, model, "hi").await.contains(said));
    }
    let steps: Vec<_> = provider.calls().iter().map(|call| call.step.unwrap()).collect();
    assert_eq!(steps, [0, 1, 0, 2]);
}

#[tokio::test]
async fn steps_match_by_format_by_model_and_by_the_last_user_text() {
    let provider = provider([
        Step::text("Weather").for_user_text("weather").always(),
        Step::text("Messages").for_format(WireFormat::Messages).always(),
        Step::text("Rest").always(),
    ])
    .await;
    assert!(asked_of(&provider, "m", "how is the weather?").await.contains("Weather"));
    assert!(stream(&provider, WireFormat::Messages).await.text().contains("Messages"));
    assert!(stream(&provider, WireFormat::Responses).await.text().contains("Rest"));
}

#[tokio::test]
async fn the_last_user_text_is_found_behind_tool_results() {
    let provider = provider([Step::text("ok").for_user_text("make a file")]).await;
    let body = json!({"model": "m", "stream": true, "messages": [
        {"role": "user", "content": [{"type": "text", "text": "make a file"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Write", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "made"}]},
    ]});
    assert_eq!(send(&provider, "POST", "/v1/messages?beta=true", &body).await.status, 200);
}

#[tokio::test]
async fn a_conversation_keeps_its_steps_when_the_agent_adds_a_text_behind_the_prompt() {
    let steps =
        ["Other", "Ours"].map(|text| Step::text(text).for_any_user_text(&text.to_lowercase()).always());
    let provider = provider(steps).await;
    let body = json!({"model": "m", "stream": true, "messages": [
        {"role": "user", "content": "this is ours"},
        {"role": "assistant", "content": "fine"},
        {"role": "user", "content": [{"type": "text", "text": "a reminder of the agent"}]},
    ]});
    let response = send(&provider, "POST", "/v1/messages?beta=true", &body).await;
    assert!(response.text().contains("Ours"), "{}", response.text());
}

#[tokio::test]
async fn a_counted_step_is_used_that_often() {
    let twice = Step { times: Times::Count(2), ..Step::text("Twice") };
    let provider = provider([twice, Step::text("Then").always()]).await;
    for said in ["Twice", "Twice", "Then", "Then"] {
        assert!(asked_of(&provider, "m", "hi").await.contains(said));
    }
}

#[tokio::test]
async fn a_request_without_a_step_is_told_what_it_asked_and_that_the_script_is_used_up() {
    let provider = provider([Step::text("Only")]).await;
    asked_of(&provider, "scripted-1", "one").await;
    for format in WireFormat::ALL {
        let response = stream(&provider, format).await;
        let body: Value = serde_json::from_slice(&response.body).unwrap();
        assert_eq!(response.status, 400);
        let message = body["error"]["message"].as_str().unwrap();
        for part in ["no step is left", "\"scripted-1\"", "\"Say hello\"", "1 steps, used [1] times"] {
            assert!(message.contains(part), "{part} is not in {message}");
        }
    }
    assert_eq!(provider.calls()[1].step, None);
}

#[tokio::test]
async fn the_log_holds_every_request_with_its_body_headers_and_end() {
    let provider = provider([Step::text("Hello")]).await;
    assert_eq!(send(&provider, "HEAD", "/", &Value::Null).await.status, 200);
    let response = stream(&provider, WireFormat::Responses).await;
    let calls = provider.wait_for_ends(1, SOON).await.unwrap();
    let [probe, call] = &provider.requests()[..] else { panic!("{:?}", provider.requests()) };
    assert_eq!((probe.method.as_str(), probe.format), ("HEAD", None));
    assert_eq!(calls, std::slice::from_ref(call));
    assert_eq!(call.body, ask(WireFormat::Responses, true));
    assert_eq!(call.header("host"), Some("x"));
    assert_eq!((call.status, call.written, call.ended), (Some(200), response.body.len(), Ended::Complete));
}

#[tokio::test]
async fn waiting_for_calls_that_do_not_come_ends_and_says_what_was_seen() {
    let provider = provider([Step::text("Hello")]).await;
    stream(&provider, WireFormat::Chat).await;
    let error = provider.wait_for_requests(2, Duration::from_millis(50)).await.unwrap_err().to_string();
    assert!(error.contains("2 calls to arrive"), "{error}");
    assert!(error.contains("/v1/chat/completions scripted-1"), "{error}");
}

#[tokio::test]
async fn one_connection_carries_several_requests() {
    let provider = provider([Step::text("Hello").always()]).await;
    let mut socket = TcpStream::connect(provider.address()).await.unwrap();
    for format in WireFormat::ALL {
        assert_eq!(send_on(&mut socket, "POST", format.path(), &ask(format, true)).await.status, 200);
    }
    assert_eq!(provider.calls().len(), 3);
}

#[tokio::test]
async fn models_and_token_counts_are_answered_without_a_step() {
    let script = Script { models: vec!["a".into(), "b".into()], ..Script::default() };
    let provider = Provider::start(script).await.unwrap();
    let models = send(&provider, "GET", "/v1/models?limit=10", &Value::Null).await;
    let models: Value = serde_json::from_slice(&models.body).unwrap();
    assert_eq!([&models["data"][0]["id"], &models["data"][1]["id"]], ["a", "b"]);
    let body = ask(WireFormat::Messages, false);
    let counted = send(&provider, "POST", "/v1/messages/count_tokens", &body).await;
    let counted: Value = serde_json::from_slice(&counted.body).unwrap();
    assert!(counted["input_tokens"].as_u64().unwrap() > 0);
    assert_eq!(provider.calls(), []);
}
