//! Streams that try to use up memory or time.

use crate::corpus::{Stream, dangerous, rich, stream};
use crate::reading::{Read, read, read_stream};
use crate::rows::{event_with, payload};
use serde_json::{Value, json};
use turnstream_llm::{AnomalyKind, Format, StreamEnd, StreamEvent};

/// The most content of an attempt.
const MOST: usize = 32 * 1024 * 1024;

fn event(payload: &Value) -> Vec<u8> {
    format!("data: {payload}\n\n").into_bytes()
}

/// A complete stream with these events before its second one.
fn with(mut stream: Stream, more: impl IntoIterator<Item = Vec<u8>>) -> Stream {
    stream.events.splice(1..1, more);
    stream
}

#[track_caller]
fn assert_too_much(read: &Read) {
    assert_eq!(read.anomalies(), [AnomalyKind::TooMuch]);
    assert_eq!((&read.outcome.ended, read.runnable()), (&StreamEnd::Corrupt, vec![]));
    let began = read.said.iter().map(|said| match said {
        StreamEvent::CallStarted { id, name, .. } => id.as_ref().map_or(0, String::len) + name.len(),
        _ => 0,
    });
    assert!(began.sum::<usize>() < MOST + MOST / 16);
}

/// The id and name of a call count as content too.
#[test]
fn ids_and_names_of_calls_count_as_content() {
    let long = "x".repeat(MOST / 32);
    let chat = stream(Format::Chat, "dangerous", &dangerous(), false);
    let chunk = payload(&chat.events[event_with(&chat, "bash")]);
    for member in ["/choices/0/delta/tool_calls/0/id", "/choices/0/delta/tool_calls/0/function/name"] {
        let calls = (1..50).map(|index| {
            let mut chunk = chunk.clone();
            chunk["choices"][0]["delta"]["tool_calls"][0]["index"] = json!(index);
            *chunk.pointer_mut(member).expect("a member") = json!(format!("{long}{index}"));
            event(&chunk)
        });
        assert_too_much(&read_stream(&with(chat.clone(), calls)));
    }
    let responses = stream(Format::Responses, "dangerous", &dangerous(), false);
    let added = payload(&responses.events[event_with(&responses, "output_item.added")]);
    for member in ["/item/id", "/item/name"] {
        let items = (1..50).map(|index| {
            let mut added = added.clone();
            added["output_index"] = json!(index);
            added.as_object_mut().expect("an object").remove("sequence_number");
            *added.pointer_mut(member).expect("a member") = json!(format!("{long}{index}"));
            event(&added)
        });
        assert_too_much(&read_stream(&with(responses.clone(), items)));
    }
}

/// Otherwise each of many small losses would report all of many open calls.
#[test]
fn an_item_is_named_as_tainted_once() {
    for format in [Format::Chat, Format::Responses] {
        let mut stream = stream(format, "rich", &rich(), false);
        let whole = read_stream(&stream);
        let end = stream.events.len() - if format == Format::Chat { 3 } else { 1 };
        for at in (1..end).rev() {
            stream.events.insert(at, b"data: x\n\n".to_vec());
        }
        let read = read_stream(&stream);
        assert!(read.outcome.anomaly_count as usize >= end - 1);
        let named = read.said.iter().flat_map(|said| match said {
            StreamEvent::Tainted { items, .. } => items.clone(),
            _ => Vec::new(),
        });
        let mut named: Vec<_> = named.collect();
        assert!(named.len() >= 4, "{named:?}");
        named.sort();
        let count = named.len();
        named.dedup();
        assert_eq!((named.len(), whole.outcome.committed.len()), (count, 4));
    }
}

/// serde reads a list as an object whose members are in order.
#[test]
fn a_list_in_the_place_of_an_object_is_no_event() {
    let opening = |format| stream(format, "dangerous", &dangerous(), false);
    let mut stream = opening(Format::Messages);
    let start = event_with(&stream, "content_block_start");
    let mut block = payload(&stream.events[start]);
    block["content_block"] = json!(["server_tool_use"]);
    stream.events[start] = event(&block);
    let finish = event_with(&stream, "stop_reason\":\"tool_use");
    let mut finished = payload(&stream.events[finish]);
    finished["delta"]["stop_reason"] = json!("end_turn");
    stream.events[finish] = event(&finished);
    let read_block = read_stream(&stream);
    assert_eq!(read_block.anomalies(), [AnomalyKind::UnknownShape]);
    assert_eq!((read_block.outcome.ended, read_block.outcome.committed.len()), (StreamEnd::Corrupt, 0));
    for format in Format::ALL {
        for list in ["[]", "[\"content_block_delta\"]", "[null]", " [ ]"] {
            let stream = with(opening(format), [format!("data: {list}\n\n").into_bytes()]);
            let read = read(format, &stream.profile, &stream.bytes());
            assert_eq!(read.outcome.anomaly_count, 1, "{} {list}", format.name());
        }
    }
}

/// An entry of such a list has a few bytes on the wire and hundreds in memory.
#[test]
fn a_list_of_very_many_entries_is_no_part_of_an_event() {
    let chat = stream(Format::Chat, "dangerous", &dangerous(), false);
    let chunk = payload(&chat.events[event_with(&chat, "bash")]);
    let many = json!(vec![json!({}); 5000]);
    for member in ["/choices", "/choices/0/delta/tool_calls", "/choices/0/delta/content"] {
        let mut chunk = chunk.clone();
        chunk["choices"][0]["delta"]["content"] = Value::Null;
        *chunk.pointer_mut(member).expect("a member") = many.clone();
        let read = read_stream(&with(chat.clone(), [event(&chunk)]));
        assert_eq!((read.anomalies(), read.calls()), (vec![AnomalyKind::UnknownShape], vec![]), "{member}");
    }
}

#[test]
fn an_event_of_very_many_payloads_is_not_mended() {
    for format in Format::ALL {
        let stream = stream(format, "dangerous", &dangerous(), false);
        for (payloads, anomalies) in [(1000, 0), (5000, 1)] {
            let glued = format!("data: {}\n\n", "{}".repeat(payloads)).into_bytes();
            let read = read_stream(&with(stream.clone(), [glued]));
            let said = read.said.iter().filter(|said| matches!(said, StreamEvent::KeepAlive)).count();
            assert_eq!(read.outcome.anomaly_count, anomalies, "{} {payloads}", format.name());
            assert!(said <= 1024, "{said}");
        }
    }
}
