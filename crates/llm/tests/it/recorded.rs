//! Streams of messages as Claude Code passed them on: every event of its provider, and the items that it
//! made of them. The provider behind it was a scripted one of another project.

use crate::corpus::{Pair, Stream};
use crate::law::{Count, splice};
use crate::reading::{read_in_every_split, read_stream};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::path::Path;
use turnstream_llm::{Format, Head, Item, Profile, ReasoningData, StreamEnd};

const CAPTURES: [&str; 7] = [
    "b_thinking",
    "c_multi_step",
    "c_parallel_tools",
    "g_cut_fin_then_ok",
    "k_sigterm_mid_turn",
    "m_stop_max_tokens",
    "m_stop_refusal",
];

/// A line of a capture: the members that matter here.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    line: StreamEvent<'a>,
}

#[derive(Deserialize)]
struct StreamEvent<'a> {
    #[serde(rename = "type")]
    kind: Option<String>,
    /// As it came.
    #[serde(borrow, default)]
    event: Option<&'a RawValue>,
    #[serde(default)]
    message: Option<Value>,
}

/// One message: its events, and the content that the client made of it.
struct Recorded {
    stream: Stream,
    content: Vec<Value>,
    is_whole: bool,
}

fn recorded() -> Vec<Recorded> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/claude");
    let mut all = Vec::new();
    for name in CAPTURES {
        let text = std::fs::read_to_string(folder.join(format!("{name}.ndjson"))).expect("a capture");
        let mut messages: Vec<Recorded> = Vec::new();
        for line in text.lines() {
            // Other lines have other shapes.
            let Ok(Line { line }) = serde_json::from_str::<Line<'_>>(line) else { continue };
            match (line.kind.as_deref(), line.event, line.message) {
                (Some("stream_event"), Some(raw), _) => {
                    let event: Value = serde_json::from_str(raw.get()).expect("an event");
                    let kind = event["type"].as_str().expect("a type");
                    if kind == "message_start" {
                        let name = format!("messages {name}");
                        let profile = Profile::ANTHROPIC;
                        let stream = Stream { name, format: Format::Messages, profile, events: Vec::new() };
                        messages.push(Recorded { stream, content: Vec::new(), is_whole: false });
                    }
                    let Some(message) = messages.last_mut() else { continue };
                    message.is_whole |= kind == "message_stop";
                    message
                        .stream
                        .events
                        .push(format!("event: {kind}\ndata: {}\n\n", raw.get()).into_bytes());
                }
                (Some("assistant"), _, Some(said)) => {
                    let Some(message) = messages.last_mut() else { continue };
                    // The client's own notices have no provider id.
                    let id = read_stream(&message.stream).outcome.identity.id;
                    if said["id"].as_str() == id.as_deref() {
                        message.content.extend(said["content"].as_array().into_iter().flatten().cloned());
                    }
                }
                _ => {}
            }
        }
        all.extend(messages);
    }
    all
}

/// The client's items, as items of this crate.
fn as_item(item: &Item) -> Value {
    match item {
        Item::Message { text, .. } => serde_json::json!({"type": "text", "text": text}),
        Item::Reasoning { text, kept, .. } => match kept.as_slice() {
            [ReasoningData::Redacted(data)] => serde_json::json!({"type": "redacted_thinking", "data": data}),
            [ReasoningData::Signature(signature)] => {
                serde_json::json!({"type": "thinking", "thinking": text, "signature": signature})
            }
            _ => serde_json::json!({"type": "thinking", "thinking": text}),
        },
        Item::Call(call) => {
            let input: Value = serde_json::from_str(&call.arguments).expect("arguments are JSON");
            serde_json::json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
        }
        Item::Other { kind, .. } => serde_json::json!({ "type": kind }),
    }
}

#[test]
fn a_recorded_message_is_what_the_client_made_of_it() {
    let (mut whole, mut cut) = (0, 0);
    for Recorded { stream, mut content, is_whole } in recorded() {
        for input in content.iter_mut().filter_map(|item| item.get_mut("input")?.as_object_mut()) {
            // The client fills in defaults of its tool.
            input.remove("replace_all");
        }
        let read = read_in_every_split(stream.format, &stream.profile, &Head::stream(), &stream.bytes());
        if !is_whole {
            cut += 1;
            assert_eq!((&read.outcome.ended, read.outcome.committed.len()), (&StreamEnd::Incomplete, 0));
            continue;
        }
        whole += 1;
        assert_eq!(
            (&read.outcome.ended, read.anomalies()),
            (&StreamEnd::Complete, vec![]),
            "{}",
            stream.name
        );
        assert_eq!(read.outcome.repairs.total(), 0, "{}", stream.name);
        assert_eq!(
            read.outcome.committed.iter().map(as_item).collect::<Vec<_>>(),
            content,
            "{}",
            stream.name
        );
    }
    assert_eq!((whole, cut), (9, 2));
}

#[test]
fn a_second_message_at_any_byte_of_a_recorded_one_is_never_folded_into_it() {
    let whole: Vec<Stream> =
        recorded().into_iter().filter(|message| message.is_whole).map(|message| message.stream).collect();
    let mut count = Count::default();
    for first in &whole {
        for second in whole.iter().filter(|second| second.bytes() != first.bytes()) {
            assert_eq!(read_stream(second).outcome.ended, StreamEnd::Complete);
            let pair = Pair { first: first.clone(), second: second.clone() };
            splice(&pair, &second.bytes(), &mut count, &mut BTreeMap::new());
        }
    }
    println!("{} splices, {} wrong calls, {} folded texts", count.cases, count.wrong_calls, count.folded);
    assert!(count.cases > 1_000);
    assert_eq!(Count { cases: 0, ..count }, Count::default());
}
