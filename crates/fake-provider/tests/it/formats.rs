//! Each wire format says everything a completion can say.

use crate::client::{ClientEnd, ask, provider, rendered, send, stream, whole};
use serde_json::{Value, json};
use turnstream_fake_provider::{
    Arguments, Completion, Delivery, Finish, Framing, Part, Pieces, Script, Step, Usage, WireFormat,
};

const USAGE: Usage = Usage { input: 1500, cached: 1000, output: 60, reasoning: 20 };

/// Reasoning, text in given deltas, and two parallel tool calls.
fn everything() -> Completion {
    let text = Pieces::Given(vec!["Let me ".into(), "look.".into()]);
    let second = Part::ToolCall {
        name: "read".into(),
        arguments: Arguments::Given(vec!["{\"path\":".into(), "\"b.txt\"}".into()]),
        id: Some("call_chosen".into()),
    };
    let parts = [
        Part::reasoning("They want it."),
        Part::Text { text },
        Part::tool_call("read", json!({"path": "a.txt"})),
        second,
    ];
    Completion { usage: USAGE, ..Completion::of(parts) }
}

fn joined<'a>(pieces: impl Iterator<Item = &'a Value>) -> String {
    pieces.filter_map(Value::as_str).collect()
}

#[tokio::test]
async fn chat_completions_stream_text_reasoning_tools_usage_and_finish() {
    let provider = provider([Step::new(everything())]).await;
    let response = stream(&provider, WireFormat::Chat).await;

    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("text/event-stream"));
    assert_eq!(response.end, ClientEnd::Complete);
    assert_eq!(response.events().last().unwrap().data, "[DONE]");
    let data = response.data();
    let deltas: Vec<&Value> = data.iter().map(|chunk| &chunk["choices"][0]["delta"]).collect();
    assert_eq!(*deltas[0], json!({"role": "assistant", "content": ""}));
    assert_eq!(joined(deltas.iter().map(|delta| &delta["reasoning_content"])), "They want it.");
    assert_eq!(joined(deltas.iter().map(|delta| &delta["content"])), "Let me look.");
    let calls: Vec<&Value> =
        deltas.iter().map(|delta| &delta["tool_calls"][0]).filter(|call| !call.is_null()).collect();
    for (index, id, path) in [(0, None, "a.txt"), (1, Some("call_chosen"), "b.txt")] {
        let call: Vec<_> = calls.iter().filter(|call| call["index"] == index).collect();
        assert_eq!(call[0]["function"], json!({"name": "read", "arguments": ""}));
        assert!(id.is_none_or(|id| call[0]["id"] == id), "{call:?}");
        let arguments = joined(call.iter().map(|call| &call["function"]["arguments"]));
        assert_eq!(serde_json::from_str::<Value>(&arguments).unwrap(), json!({"path": path}));
        assert!(call[1..].iter().all(|call| call["id"].is_null()), "{call:?}");
    }
    let [.., finish, usage] = data.as_slice() else { panic!("{data:?}") };
    assert_eq!(finish["choices"], json!([{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]));
    assert_eq!(usage["choices"], json!([]));
    let counts = json!({"prompt_tokens": 1500, "completion_tokens": 60, "total_tokens": 1560,
        "prompt_tokens_details": {"cached_tokens": 1000}, "completion_tokens_details": {"reasoning_tokens": 20}});
    assert_eq!(usage["usage"], counts);
    assert!(data.iter().all(|chunk| chunk["id"] == data[0]["id"]), "one completion, one id");
}

#[tokio::test]
async fn a_chat_stream_that_did_not_ask_for_usage_gets_none() {
    let provider = provider([Step::text("Hello")]).await;
    let mut body = ask(WireFormat::Chat, true);
    body["stream_options"] = Value::Null;
    let response = send(&provider, "POST", WireFormat::Chat.path(), &body).await;
    assert!(response.data().iter().all(|chunk| chunk["usage"].is_null()));
}

#[tokio::test]
async fn responses_stream_every_item_in_deltas_and_once_more_whole() {
    let provider = provider([Step::new(everything())]).await;
    let response = stream(&provider, WireFormat::Responses).await;

    let item = |middle: &[&str]| {
        let names = middle.iter().map(|name| format!("response.{name}"));
        let added = ["response.output_item.added".to_owned()].into_iter();
        added.chain(names).chain(["response.output_item.done".to_owned()]).collect::<Vec<_>>()
    };
    let mut expected = vec!["response.created".to_owned(), "response.in_progress".to_owned()];
    expected.extend(item(&[
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
    ]));
    let [part, delta, done, end] =
        ["content_part.added", "output_text.delta", "output_text.done", "content_part.done"];
    expected.extend(item(&[part, delta, delta, done, end]));
    let [delta, done] = ["function_call_arguments.delta", "function_call_arguments.done"];
    expected.extend(item(&[delta, delta, done]));
    expected.extend(item(&[delta, delta, done]));
    expected.push("response.completed".to_owned());
    assert_eq!(response.types(), expected);

    let data = response.data();
    let numbers: Vec<_> = data.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..data.len() as u64).collect::<Vec<_>>());
    let names: Vec<_> = response.events().into_iter().map(|event| event.name.unwrap()).collect();
    assert_eq!(names, response.types(), "the event line repeats the type");
    let done: Vec<_> = data
        .iter()
        .filter(|event| event["type"] == "response.output_item.done")
        .map(|event| event["item"].clone())
        .collect();
    let last = &data.last().unwrap()["response"];
    assert_eq!(last["output"], Value::Array(done.clone()));
    assert_eq!(last["status"], "completed");
    assert_eq!(done[0]["summary"], json!([{"type": "summary_text", "text": "They want it."}]));
    assert_eq!(done[1]["content"][0]["text"], "Let me look.");
    assert_eq!(done[2]["arguments"], "{\"path\":\"a.txt\"}");
    assert_eq!(done[3]["call_id"], "call_chosen");
    let counts = json!({"input_tokens": 1500, "input_tokens_details": {"cached_tokens": 1000},
        "output_tokens": 60, "output_tokens_details": {"reasoning_tokens": 20}, "total_tokens": 1560});
    assert_eq!(last["usage"], counts);
}

#[tokio::test]
async fn messages_stream_blocks_one_after_the_other() {
    let provider = provider([Step::new(everything())]).await;
    let response = stream(&provider, WireFormat::Messages).await;

    let [start, delta, stop] = ["content_block_start", "content_block_delta", "content_block_stop"];
    let mut expected = vec!["message_start", "ping"];
    expected.extend([start, delta, delta, delta, stop]); // two thinking deltas and the signature
    expected.extend([start, delta, delta, stop]);
    expected.extend([start, delta, delta, delta, stop]); // an empty delta first, as real streams have it
    expected.extend([start, delta, delta, delta, stop]);
    expected.extend(["message_delta", "message_stop"]);
    assert_eq!(response.types(), expected);

    let data = response.data();
    let of_block = |index: u64, member: &str| {
        joined(data.iter().filter(|event| event["index"] == index).map(|event| &event["delta"][member]))
    };
    assert_eq!(of_block(0, "thinking"), "They want it.");
    assert!(!of_block(0, "signature").is_empty());
    assert_eq!(of_block(1, "text"), "Let me look.");
    assert_eq!(of_block(2, "partial_json"), "{\"path\":\"a.txt\"}");
    assert_eq!(of_block(3, "partial_json"), "{\"path\":\"b.txt\"}");
    let end = &data[data.len() - 2];
    assert_eq!(end["delta"], json!({"stop_reason": "tool_use", "stop_sequence": null}));
    let counts = json!({"input_tokens": 500, "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 1000, "output_tokens": 60});
    assert_eq!(end["usage"], counts);
}

#[tokio::test]
async fn every_format_answers_whole_when_no_stream_is_asked_for() {
    let provider = provider([Step::new(everything()).always()]).await;

    let chat = whole(&provider, WireFormat::Chat).await;
    assert_eq!(chat["object"], "chat.completion");
    assert_eq!(chat["choices"][0]["message"]["content"], "Let me look.");
    assert_eq!(chat["choices"][0]["message"]["tool_calls"][1]["id"], "call_chosen");
    assert_eq!(chat["choices"][0]["finish_reason"], "tool_calls");

    let responses = whole(&provider, WireFormat::Responses).await;
    let types: Vec<_> = responses["output"].as_array().unwrap().iter().map(|item| &item["type"]).collect();
    assert_eq!(types, ["reasoning", "message", "function_call", "function_call"]);
    assert_eq!(responses["status"], "completed");

    let messages = whole(&provider, WireFormat::Messages).await;
    let types: Vec<_> = messages["content"].as_array().unwrap().iter().map(|item| &item["type"]).collect();
    assert_eq!(types, ["thinking", "text", "tool_use", "tool_use"]);
    assert_eq!(messages["content"][3]["input"], json!({"path": "b.txt"}));
    assert_eq!(messages["stop_reason"], "tool_use");
}

#[tokio::test]
async fn a_chat_stream_with_usage_says_null_in_every_chunk_before_it() {
    let provider = provider([Step::text("Hello")]).await;
    let data = stream(&provider, WireFormat::Chat).await.data();
    let [before @ .., last] = data.as_slice() else { panic!("{data:?}") };
    assert!(before.iter().all(|chunk| chunk.get("usage") == Some(&Value::Null)), "{before:?}");
    assert!(last["usage"].is_object());
}

#[tokio::test]
async fn a_whole_chat_answer_of_tool_calls_alone_has_no_content() {
    let call = Completion::of([Part::tool_call("read", json!({}))]);
    let provider = provider([Step::new(call), Step::text("")]).await;
    let message = |answer: &Value| answer["choices"][0]["message"]["content"].clone();
    assert_eq!(message(&whole(&provider, WireFormat::Chat).await), Value::Null);
    assert_eq!(message(&whole(&provider, WireFormat::Chat).await), "");
}

#[tokio::test]
async fn the_item_that_a_response_was_cut_in_is_incomplete_and_those_before_it_are_not() {
    let cut = Completion::of([Part::text("One."), Part::text("Tw")]).finished(Finish::Length);
    let provider = provider([Step::new(cut).always()]).await;
    let streamed = stream(&provider, WireFormat::Responses).await.data();
    let done = streamed.iter().filter(|event| event["type"] == "response.output_item.done");
    let statuses: Vec<_> = done.map(|event| event["item"]["status"].clone()).collect();
    assert_eq!(statuses, ["completed", "incomplete"]);
    let answer = whole(&provider, WireFormat::Responses).await;
    assert_eq!(answer["output"][0]["status"], "completed");
    assert_eq!(
        (&answer["status"], &answer["output"][1]["status"]),
        (&json!("incomplete"), &json!("incomplete"))
    );
}

#[tokio::test]
async fn a_whole_answer_without_a_finish_does_not_say_that_it_is_complete() {
    let provider = provider([Step::new(Completion::text("Hello").finished(Finish::Missing)).always()]).await;
    assert_eq!(whole(&provider, WireFormat::Chat).await["choices"][0]["finish_reason"], Value::Null);
    assert_eq!(whole(&provider, WireFormat::Responses).await["status"], Value::Null);
    assert_eq!(whole(&provider, WireFormat::Messages).await["stop_reason"], Value::Null);
}

#[tokio::test]
async fn the_id_of_a_completion_comes_first_on_the_wire() {
    let provider = provider([Step::text("Hello").always()]).await;
    for (format, opening) in [
        (WireFormat::Chat, r#"data: {"id":"chatcmpl-"#),
        (
            WireFormat::Responses,
            r#"data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_"#,
        ),
        (WireFormat::Messages, r#"data: {"type":"message_start","message":{"id":"msg_"#),
    ] {
        let response = stream(&provider, format).await;
        assert!(response.text().contains(opening), "{}", response.text());
        let answer = send(&provider, "POST", format.path(), &ask(format, false)).await;
        assert!(answer.text().starts_with(r#"{"id":""#), "{}", answer.text());
    }
}

#[tokio::test]
async fn every_finish_has_its_word_in_every_format() {
    let table = [
        (Finish::Stop, ["stop", "completed", "end_turn"]),
        (Finish::Length, ["length", "max_output_tokens", "max_tokens"]),
        (Finish::ContentFilter, ["content_filter", "content_filter", "refusal"]),
        (Finish::Other("error_finish".into()), ["error_finish", "error_finish", "error_finish"]),
    ];
    for (finish, words) in table {
        let step = Step::new(Completion::text("Hello").finished(finish)).always();
        let provider = provider([step]).await;
        let chat = stream(&provider, WireFormat::Chat).await.data();
        assert_eq!(chat[chat.len() - 2]["choices"][0]["finish_reason"], words[0]);
        let responses = stream(&provider, WireFormat::Responses).await.data().pop().unwrap();
        let reason = &responses["response"]["incomplete_details"]["reason"];
        let status = &responses["response"]["status"];
        assert_eq!(if reason.is_null() { status } else { reason }, words[1]);
        let messages = stream(&provider, WireFormat::Messages).await.data();
        assert_eq!(messages[messages.len() - 2]["delta"]["stop_reason"], words[2]);
    }
}

#[tokio::test]
async fn a_missing_finish_ends_the_body_in_order_without_any_terminal_event() {
    let step = Step::new(Completion::text("Hello").finished(Finish::Missing)).always();
    let provider = provider([step]).await;
    let chat = stream(&provider, WireFormat::Chat).await;
    assert_eq!(chat.end, ClientEnd::Complete);
    assert_eq!(chat.data().last().unwrap()["choices"][0]["delta"], json!({"content": "Hello"}));
    assert!(!chat.text().contains("[DONE]"));
    let responses = stream(&provider, WireFormat::Responses).await;
    assert_eq!(responses.types().last().unwrap(), "response.output_item.done");
    let messages = stream(&provider, WireFormat::Messages).await;
    assert_eq!(messages.types().last().unwrap(), "content_block_stop");
}

#[tokio::test]
async fn the_wire_carries_exactly_the_bytes_that_render_makes_in_every_framing() {
    for framing in [Framing::Chunked, Framing::ContentLength, Framing::CloseDelimited] {
        let step = Step::new(everything()).delivered(Delivery { framing, ..Delivery::default() }).always();
        let provider = provider([step.clone()]).await;
        for (serial, format) in WireFormat::ALL.into_iter().enumerate() {
            let response = stream(&provider, format).await;
            let end = match framing {
                Framing::Chunked | Framing::ContentLength => ClientEnd::Complete,
                Framing::CloseDelimited => ClientEnd::EndOfFile,
            };
            assert_eq!(response.end, end);
            assert_eq!(response.body, rendered(&step, serial as u64, &provider.requests()[serial]));
        }
    }
}

#[tokio::test]
async fn delays_come_before_the_head_and_before_each_delta() {
    let delivery = Delivery { before_headers_ms: 120, before_delta_ms: 40, framing: Framing::default() };
    let text = Pieces::Given(["a", "b", "c"].map(str::to_owned).to_vec());
    let step = Step::new(Completion::of([Part::Text { text }])).delivered(delivery);
    let provider = provider([step]).await;
    let response = stream(&provider, WireFormat::Chat).await;
    assert!(response.took.as_millis() >= 120 + 3 * 40, "{:?}", response.took);
}

#[test]
fn a_script_is_the_same_in_json() {
    let json = include_str!("../../examples/hello.json");
    let script = Script::from_json(json).unwrap();
    assert_eq!(script.steps.len(), 3);
    let again = Script::from_json(&serde_json::to_string(&script).unwrap()).unwrap();
    assert_eq!(script, again);
    let typo = json.replace("before_delta_ms", "before_delta");
    assert!(Script::from_json(&typo).unwrap_err().to_string().contains("before_delta"));
}
