//! Streams that no known provider sends, but a broken proxy or an attacker could.

use crate::corpus::{Pair, Stream, dangerous, pairs, prose, rich, stream};
use crate::law::{Count, splice};
use crate::reading::{Read, read_stream};
use crate::rows::{chunks, payload};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use turnstream_llm::{AnomalyKind, Format, StreamEnd, WithheldReason};

fn event(payload: &Value) -> Vec<u8> {
    format!("event: {}\ndata: {payload}\n\n", payload["type"].as_str().unwrap_or("message")).into_bytes()
}

fn place_of(stream: &Stream, kind: &str) -> usize {
    let found = stream.events.iter().rposition(|event| payload(event)["type"] == kind);
    found.unwrap_or_else(|| panic!("{} has no {kind}", stream.name))
}

#[track_caller]
fn assert_nothing_runs(read: &Read) {
    assert_eq!(read.runnable(), [], "{read:?}");
    assert_ne!(read.outcome.ended, StreamEnd::Complete, "{read:?}");
}

/// The list of anomalies is capped, but an anomaly that forbids calls must be in it.
#[test]
fn a_contradiction_behind_much_other_damage_still_keeps_the_call_from_running() {
    let mut stream = stream(Format::Responses, "dangerous", &dangerous(), false);
    let done = place_of(&stream, "response.output_item.done");
    let mut other = payload(&stream.events[done]);
    other["item"]["arguments"] = json!("{\"command\":\"rm -rf /\"}");
    other["sequence_number"] = json!(other["sequence_number"].as_u64().expect("a number") + 1);
    stream.events.truncate(done + 1);
    for _ in 0..100 {
        stream.events.push(b"data: {\"type\":\n\n".to_vec());
    }
    stream.events.push(event(&other));
    let read = read_stream(&stream);
    assert!(read.anomalies().contains(&AnomalyKind::Contradiction), "{read:?}");
    assert_nothing_runs(&read);
}

/// The list at the end of a response decides which items belong to it.
#[test]
fn a_call_that_the_list_at_the_end_does_not_know_does_not_run() {
    let mut stream = stream(Format::Responses, "rich", &rich(), false);
    let end = place_of(&stream, "response.completed");
    let mut completed = payload(&stream.events[end]);
    let output = completed["response"]["output"].as_array_mut().expect("a list");
    assert_eq!(output.pop().expect("the last item")["type"], "function_call");
    stream.events[end] = event(&completed);
    let read = read_stream(&stream);
    assert!(read.anomalies().contains(&AnomalyKind::Contradiction), "{read:?}");
    assert_nothing_runs(&read);
}

/// A response with `incomplete_details` is incomplete, also as `response.completed`.
#[test]
fn a_completed_response_that_says_why_it_is_not_runs_nothing() {
    let mut stream = stream(Format::Responses, "dangerous", &dangerous(), false);
    let end = place_of(&stream, "response.completed");
    let mut completed = payload(&stream.events[end]);
    completed["response"]["incomplete_details"] = json!({"reason": "max_output_tokens"});
    stream.events[end] = event(&completed);
    let read = read_stream(&stream);
    assert_eq!((read.told_calls(), read.runnable()), (vec![], vec![]));
    assert_eq!(
        read.outcome.withheld.iter().map(|call| call.reason).collect::<Vec<_>>(),
        [WithheldReason::Finish]
    );
}

/// An unreadable end may mean that the model ran out of tokens.
#[test]
fn calls_before_an_end_that_cannot_be_read_do_not_run() {
    let mut stream = stream(Format::Responses, "dangerous", &dangerous(), false);
    let end = place_of(&stream, "response.completed");
    let mut completed = payload(&stream.events[end]);
    completed["response"]["output"] = json!(["not an item"]);
    stream.events[end] = event(&completed);
    let read = read_stream(&stream);
    assert_eq!(read.anomalies(), [AnomalyKind::UnknownShape]);
    assert_nothing_runs(&read);
}

/// The lost bytes may have been the beginning of another response. Only the end of this one can disprove
/// that.
#[test]
fn a_call_behind_a_loss_needs_the_end_of_the_response() {
    let mut stream = stream(Format::Responses, "rich", &rich(), false);
    let end = place_of(&stream, "response.completed");
    stream.events[4] = b"data: {\"type\":\n\n".to_vec();
    assert_eq!(read_stream(&stream).runnable().len(), 2);
    stream.events.truncate(end);
    let read = read_stream(&stream);
    assert_nothing_runs(&read);
    assert_eq!(
        read.outcome.withheld.iter().map(|call| call.reason).collect::<Vec<_>>(),
        [WithheldReason::Tainted; 2]
    );
}

/// Without numbers, and under the same id, the second beginning is the only sign.
#[test]
fn a_response_that_begins_twice_without_numbers_is_tainted() {
    let mut stream = stream(Format::Responses, "dangerous", &dangerous(), false);
    for event_bytes in &mut stream.events {
        let mut payload = payload(event_bytes);
        payload.as_object_mut().expect("an object").remove("sequence_number");
        *event_bytes = event(&payload);
    }
    assert_eq!(read_stream(&stream).outcome.ended, StreamEnd::Complete);
    let again = stream.events[0].clone();
    stream.events.insert(4, again);
    let read = read_stream(&stream);
    assert_eq!(read.anomalies(), [AnomalyKind::SecondOpening]);
    assert_nothing_runs(&read);
}

#[test]
fn a_second_completion_is_noticed_behind_any_line_ending() {
    let mut count = Count::default();
    for ending in ["\r\n", "\r"] {
        for pair in pairs().into_iter().filter(|pair| pair.first.name.contains("dangerous")) {
            let change = |stream: &Stream| stream.map("", |event| event.replace('\n', ending));
            let pair = Pair { first: change(&pair.first), second: change(&pair.second) };
            splice(&pair, &pair.second.bytes(), &mut count, &mut BTreeMap::new());
        }
    }
    assert_eq!(Count { cases: 0, ..count }, Count::default());
}

/// The old `function_call`, which has neither index nor id.
fn as_legacy(stream: &Stream) -> Stream {
    chunks(stream, |chunk| {
        let Some(choice) = chunk["choices"].get_mut(0) else { return };
        if choice["finish_reason"] == "tool_calls" {
            choice["finish_reason"] = json!("function_call");
        }
        let Some(delta) = choice["delta"].as_object_mut() else { return };
        if let Some(calls) = delta.remove("tool_calls") {
            delta.insert("function_call".to_owned(), calls[0]["function"].clone());
        }
    })
}

#[test]
fn a_second_completion_is_never_folded_into_a_legacy_function_call() {
    let mut count = Count::default();
    let chats = pairs().into_iter().filter(|pair| pair.first.format == Format::Chat);
    for pair in chats.filter(|pair| pair.first.name.contains("dangerous")) {
        let pair = Pair { first: as_legacy(&pair.first), second: as_legacy(&pair.second) };
        assert_eq!(read_stream(&pair.first).calls().len(), 1, "{}", pair.first.name);
        splice(&pair, &pair.second.bytes(), &mut count, &mut BTreeMap::new());
    }
    assert_eq!(Count { cases: 0, ..count }, Count::default());
}

/// Keep-alives of every kind change nothing, and hide no splice.
#[test]
fn pings_and_empty_deltas_in_between_hide_no_second_completion() {
    let mut count = Count::default();
    for pair in pairs().into_iter().filter(|pair| pair.first.name.contains("dangerous")) {
        let noise: &[u8] = match pair.first.format {
            Format::Chat => b": ping\n\ndata:\n\n",
            Format::Messages => b"event: ping\ndata: {\"type\":\"ping\"}\n\n",
            Format::Responses => b"event: keepalive\ndata: {\"type\":\"keepalive\"}\n\n",
        };
        let noisy = |stream: &Stream| {
            let events = stream.events.iter().flat_map(|event| [event.clone(), noise.to_vec()]);
            Stream { events: events.collect(), ..stream.clone() }
        };
        let noisy = Pair { first: noisy(&pair.first), second: noisy(&pair.second) };
        let (quiet, loud) = (read_stream(&pair.first), read_stream(&noisy.first));
        assert_eq!((quiet.calls(), quiet.outcome.ended.clone()), (loud.calls(), loud.outcome.ended.clone()));
        splice(&noisy, &noisy.second.bytes(), &mut count, &mut BTreeMap::new());
    }
    assert_eq!(Count { cases: 0, ..count }, Count::default());
}

/// A second choice taints, and its text is not shown as that of the first.
#[test]
fn a_second_choice_commits_nothing() {
    let one = stream(Format::Chat, "prose", &prose(), false);
    let two = chunks(&one, |chunk| {
        if let Some(choice) = chunk["choices"].as_array().and_then(|list| list.first()).cloned() {
            let mut other = choice;
            other["index"] = json!(1);
            chunk["choices"].as_array_mut().expect("a list").push(other);
        }
    });
    let read = read_stream(&two);
    assert_eq!((read.outcome.committed.len(), &read.text()), (0, &read_stream(&one).text()));
    assert_nothing_runs(&read);
}
