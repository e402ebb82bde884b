//! Content: calls, reasoning and usage as different providers write them.

use super::{assert_repaired, assert_tainted, chunks, of, plain, read};
use crate::corpus::{rich, stream};
use crate::reading::read_stream;
use serde_json::{Value, json};
use turnstream_fake_provider::{Arguments, Part};
use turnstream_llm::{
    AnomalyKind, CallIndex, Format, Item, ReasoningData, Repair, StreamEnd, WithheldReason,
};

fn for_each_call(chunk: &mut Value, change: impl Fn(&mut serde_json::Map<String, Value>)) {
    let calls = chunk.pointer_mut("/choices/0/delta/tool_calls").and_then(Value::as_array_mut);
    calls.into_iter().flatten().filter_map(Value::as_object_mut).for_each(change);
}

/// Row 27.
#[test]
fn a_tool_delta_without_an_index_belongs_to_its_id_or_to_the_call_that_is_open() {
    for whole in [plain(Format::Chat), stream(Format::Chat, "rich", &rich(), false)] {
        let damaged = chunks(&whole, |chunk| for_each_call(chunk, |call| drop(call.remove("index"))));
        let read = read(&damaged);
        assert_eq!(
            (read.outcome.ended.clone(), read.calls()),
            (StreamEnd::Complete, read_stream(&whole).calls())
        );
        assert!(read.outcome.repairs.of(Repair::MissingIndex) > 0);
    }
    // Two calls with indexes, and deltas without: they are ambiguous.
    let ambiguous = chunks(&stream(Format::Chat, "rich", &rich(), false), |chunk| {
        for_each_call(chunk, |call| {
            if !call.contains_key("id") {
                drop(call.remove("index"))
            }
        })
    });
    assert_tainted(&ambiguous, AnomalyKind::Conflict);
}

/// Row 28.
#[test]
fn two_calls_under_one_index_are_a_conflict_unless_the_provider_is_known_for_it() {
    let whole = stream(Format::Chat, "rich", &rich(), false);
    let mut damaged =
        chunks(&whole, |chunk| for_each_call(chunk, |call| drop(call.insert("index".into(), json!(0)))));
    assert_tainted(&damaged, AnomalyKind::Conflict);
    damaged.profile.call_index = CallIndex::Shared;
    assert_repaired(&damaged, &whole, &[]);
}

/// Row 29.
#[test]
fn empty_members_of_a_continuation_are_absent() {
    let whole = plain(Format::Chat);
    let damaged = chunks(&whole, |chunk| {
        for_each_call(chunk, |call| {
            if !call.contains_key("id") {
                call.insert("id".into(), json!(""));
                call["function"]["name"] = json!("");
            } else {
                call["function"]["arguments"] = Value::Null;
            }
        })
    });
    assert_repaired(&damaged, &whole, &[(Repair::EmptyMember, 5)]);
}

/// Rows 30 and 31.
#[test]
fn broken_arguments_keep_every_call_of_the_step_from_running() {
    let broken = Part::ToolCall {
        name: "write".to_owned(),
        arguments: Arguments::Given(vec!["{\"a\":1".to_owned(), ",\"b\":".to_owned()]),
        id: None,
    };
    for format in Format::ALL {
        let stream = of(format, [Part::tool_call("read", json!({"path": "/srv/a"})), broken.clone()]);
        let read = read(&stream);
        assert_eq!(
            (read.outcome.ended.clone(), read.runnable()),
            (StreamEnd::Complete, vec![]),
            "{format:?}"
        );
        let why: Vec<_> = read.outcome.withheld.iter().map(|call| call.reason).collect();
        match format {
            Format::Chat | Format::Messages => {
                assert_eq!(why, [WithheldReason::Sibling, WithheldReason::BadArguments])
            }
            Format::Responses => assert_eq!(why, [WithheldReason::BadArguments, WithheldReason::Sibling]),
        }
    }
}

/// Row 32. The usage chunk of every stream has an empty list.
#[test]
fn null_choices_are_no_delta() {
    let whole = plain(Format::Chat);
    let damaged = chunks(&whole, |chunk| {
        if chunk["choices"] == json!([]) {
            chunk["choices"] = Value::Null;
        }
    });
    assert_repaired(&damaged, &whole, &[(Repair::NullChoices, 1)]);
}

/// Row 33.
#[test]
fn usage_is_found_where_providers_put_it_and_unknown_where_they_do_not() {
    let whole = plain(Format::Chat);
    let usage = read_stream(&whole).outcome.usage;
    let groq = chunks(&whole, |chunk| {
        let usage = chunk["usage"].take();
        chunk["x_groq"] = json!({ "usage": usage });
    });
    assert_eq!(read(&groq).outcome.usage, usage);
    let moonshot = chunks(&whole, |chunk| {
        if chunk["choices"] == json!([]) {
            let usage = chunk["usage"].take();
            chunk["choices"] = json!([{"index": 0, "delta": {}, "usage": usage}]);
        }
    });
    assert_eq!(read(&moonshot).outcome.usage, usage);
    let absent = chunks(&whole, |chunk| chunk["usage"] = Value::Null);
    assert_eq!(read(&absent).outcome.usage, None);
    let not_a_number =
        whole.map("NaN", |event| event.replace("\"completion_tokens\":10", "\"completion_tokens\":NaN"));
    let read = read(&not_a_number);
    let known = read.outcome.usage.expect("the other counts");
    assert_eq!((known.input, known.output), (Some(100), None));
    assert_eq!(read.outcome.repairs.of(Repair::NotANumber), 1);
}

/// Row 36.
#[test]
fn reasoning_is_read_in_every_spelling_and_once() {
    let whole = of(Format::Chat, [Part::reasoning("Think first."), Part::text("Then say.")]);
    let spelled = |change: fn(&mut Value, Value)| {
        chunks(&whole, |chunk| {
            let delta = chunk.pointer_mut("/choices/0/delta").and_then(Value::as_object_mut);
            if let Some(thought) = delta.and_then(|delta| delta.remove("reasoning_content")) {
                change(&mut chunk["choices"][0]["delta"], thought);
            }
        })
    };
    type Respell = fn(&mut Value, Value);
    let spellings: [(&str, Respell); 4] = [
        ("reasoning", |delta, thought| delta["reasoning"] = thought),
        ("reasoning_details", |delta, thought| {
            delta["reasoning_details"] = json!([{"type": "reasoning.text", "text": thought, "index": 0}]);
        }),
        ("both", |delta, thought| {
            delta["reasoning_details"] = json!([{"type": "reasoning.text", "text": thought, "index": 0}]);
            delta["reasoning"] = thought;
        }),
        ("parts", |delta, thought| {
            delta["content"] = json!([{"type": "thinking", "thinking": [{"type": "text", "text": thought}]}]);
        }),
    ];
    for (name, change) in spellings {
        let read = read(&spelled(change));
        assert_eq!(
            (read.reasoning().as_str(), read.text().as_str()),
            ("Think first.", "Then say."),
            "{name}"
        );
        let Some(Item::Reasoning { kept, .. }) = read.outcome.committed.first() else { panic!("{name}") };
        let details = kept.iter().filter(|kept| matches!(kept, ReasoningData::Details(_))).count();
        assert_eq!(details, if matches!(name, "reasoning" | "parts") { 0 } else { 1 }, "{name}");
    }
}

/// Row 37.
#[test]
fn a_call_in_text_is_flagged_and_is_only_text() {
    for format in Format::ALL {
        let read = read(&of(format, [Part::text("<tool_call><function>git commit</function></tool_call>")]));
        assert!(read.outcome.call_in_text, "{format:?}");
        assert_eq!(read.calls(), []);
    }
}

#[test]
fn the_call_before_there_were_tool_calls_is_read() {
    let whole = plain(Format::Chat);
    let legacy = chunks(&whole, |chunk| {
        if let Some(function) = chunk.pointer("/choices/0/delta/tool_calls/0/function").cloned() {
            chunk["choices"][0]["delta"] = json!({ "function_call": function });
        }
        if chunk["choices"][0]["finish_reason"] == "tool_calls" {
            chunk["choices"][0]["finish_reason"] = json!("function_call");
        }
    });
    let read = read(&legacy);
    let expected: Vec<_> = read_stream(&whole)
        .calls()
        .iter()
        .map(|(_, name, text)| (name.to_string(), text.to_string()))
        .collect();
    let calls: Vec<_> =
        read.runnable().iter().map(|(_, name, text)| (name.to_string(), text.to_string())).collect();
    assert_eq!(calls, expected);
}
