//! What is rendered has the members and the order of captured streams.

use crate::client::{ask, provider, send, stream};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use turnstream_fake_provider::{Completion, Fault, Part, Step, WireFormat};

fn fixture(path: &str) -> String {
    let path = format!("{}/../../fixtures/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The provider's events, as Claude Code repeats them in its `stream_event` lines.
fn captured_events() -> Vec<Value> {
    let files = ["claude/b_thinking.ndjson", "claude/c_parallel_tools.ndjson"].map(fixture);
    let lines = files.iter().flat_map(|file| file.lines());
    lines
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["line"].take())
        .filter(|line| line["type"] == "stream_event")
        .map(|mut line| line["event"].take())
        .collect()
}

/// The names of all members and the values of all `type` members.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let shaped = members.iter().map(|(name, value)| {
                let shape = if name == "type" { value.clone() } else { shape(value) };
                (name.clone(), shape)
            });
            Value::Object(shaped.collect())
        }
        Value::Array(values) => values.iter().map(shape).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Value::Null,
    }
}

#[tokio::test]
async fn every_messages_event_has_the_members_of_a_captured_one() {
    let captured: BTreeSet<String> = captured_events().iter().map(|event| shape(event).to_string()).collect();
    let everything = Completion::of([
        Part::reasoning("They want both files."),
        Part::text("I will read both."),
        Part::tool_call("Read", json!({"file_path": "a.txt"})),
        Part::tool_call("Read", json!({"file_path": "b.txt"})),
    ]);
    let provider = provider([Step::new(everything)]).await;
    let events = stream(&provider, WireFormat::Messages).await.data();
    // Claude Code does not repeat pings, so no capture shows one.
    for event in events.iter().filter(|event| event["type"] != "ping") {
        assert!(captured.contains(&shape(event).to_string()), "no captured event looks like {event}");
    }
}

#[tokio::test]
async fn messages_events_come_in_the_order_of_the_capture() {
    // Consecutive deltas of one kind are one line here: how text is cut is not grammar.
    let order = |events: &[Value]| {
        let kind = |event: &Value| {
            format!("{} {}{}", event["type"], event["content_block"]["type"], event["delta"]["type"])
        };
        let mut kinds: Vec<String> = events.iter().map(kind).collect();
        kinds.dedup();
        kinds
    };
    let captured = captured_events();
    let starts: Vec<usize> =
        (0..captured.len()).filter(|place| captured[*place]["type"] == "message_start").collect();
    // The first message of c_parallel_tools: text and two calls.
    let parallel = &captured[starts[1]..starts[2]];
    let calls = parallel.iter().filter(|event| event["content_block"]["type"] == "tool_use").count();
    let mut parts = vec![Part::text("I will read them.")];
    parts.extend((0..calls).map(|_| Part::tool_call("Read", json!({"file_path": "a.txt"}))));
    let provider = provider([Step::new(Completion::of(parts))]).await;
    let mut ours = stream(&provider, WireFormat::Messages).await.data();
    ours.retain(|event| event["type"] != "ping");
    assert_eq!(order(&ours), order(parallel));
}

#[tokio::test]
async fn a_splice_inside_a_chat_id_looks_like_the_chunk_that_killed_a_real_turn() {
    // opencode's own words about a glued chunk: the payload up to the end of the first line.
    let capture = fixture("opencode/i-glued-chunk.sse");
    let error = capture.lines().find(|line| line.contains("JSON parsing failed")).unwrap();
    let error: Value = serde_json::from_str(error.strip_prefix("data: ").unwrap()).unwrap();
    let message = error["properties"]["error"]["data"]["message"].as_str().unwrap();
    let glued = message.strip_prefix("JSON parsing failed: Text: ").unwrap().split(".\n").next().unwrap();
    let (prefix, suffix) = glued.split_once("data: ").unwrap();

    // Cut in the third event, as many bytes into its payload as the captured one.
    let text = "A first completion.";
    let clean = provider([Step::text(text)]).await;
    // The chunk is of a stream without usage, which would be a member of every chunk.
    let mut body = ask(WireFormat::Chat, true);
    body["stream_options"] = Value::Null;
    let unbroken = send(&clean, "POST", WireFormat::Chat.path(), &body).await;
    let third = unbroken.text().match_indices("data: {").nth(2).unwrap().0;
    let splice =
        Fault::Splice { after: third + "data: ".len() + prefix.len(), second: Completion::text("glued") };
    let spliced = provider([Step::text(text).fault(splice)]).await;
    let response = send(&spliced, "POST", WireFormat::Chat.path(), &body).await;
    let ours = response.text().lines().find(|line| line.matches("data: ").count() == 2).unwrap();
    let (our_prefix, our_suffix) = ours.strip_prefix("data: ").unwrap().split_once("data: ").unwrap();

    let letters = |text: &str| text.rsplit_once('-').unwrap().0.to_owned();
    assert_eq!((letters(our_prefix), our_prefix.len()), (letters(prefix), prefix.len()));
    let [our_chunk, chunk]: [Value; 2] =
        [our_suffix, suffix].map(|suffix| serde_json::from_str(suffix).unwrap());
    let members = |chunk: &Value| chunk.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(members(&our_chunk), members(&chunk));
    assert_eq!(members(&our_chunk["choices"][0]), members(&chunk["choices"][0]));
    let first_members = |suffix: &str| suffix.split("\":").next().unwrap().to_owned();
    assert_eq!(first_members(our_suffix), first_members(suffix), "the id comes first on the wire");
    assert_eq!(our_chunk["choices"][0]["delta"]["role"], "assistant", "a replayed request opens anew");
}
