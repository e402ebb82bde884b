//! The same splices in the variants of providers and proxies: members left out, written once, or written
//! differently.

use crate::corpus::{Lacking, Pair, Stream, completions, pairs, stream};
use crate::law::{Count, splice};
use crate::reading::read_stream;
use crate::rows::{chunks, payload};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use turnstream_llm::{Format, StreamEnd};

/// The pairs of a format in another variant.
pub(crate) fn of(format: Format, dialect: impl Fn(&Stream) -> Stream) -> Vec<Pair> {
    let both = completions().map(|(name, first, second)| Pair {
        first: dialect(&stream(format, name, &first, false)),
        second: dialect(&stream(format, name, &second, true)),
    });
    both.into()
}

/// Changes every event as JSON, and keeps its `event:` line.
pub(crate) fn events(stream: &Stream, change: impl Fn(&mut Value)) -> Stream {
    let events = stream.events.iter().map(|event| match payload(event) {
        Value::Null => event.clone(),
        mut payload => {
            change(&mut payload);
            let kind = payload["type"].as_str().map(|kind| format!("event: {kind}\n")).unwrap_or_default();
            format!("{kind}data: {payload}\n\n").into_bytes()
        }
    });
    Stream { events: events.collect(), ..stream.clone() }
}

#[track_caller]
pub(crate) fn assert_never_folded(pairs: &[Pair]) {
    let mut count = Count::default();
    for pair in pairs {
        splice(pair, &pair.second.bytes(), &mut count, &mut BTreeMap::new());
    }
    assert!(count.cases > 1000, "{count:?}");
    assert_eq!(Count { cases: 0, ..count }, Count::default());
}

/// Only the opening chunk names the completion.
fn named_once(stream: &Stream) -> Stream {
    let mut once = chunks(stream, |chunk| {
        let chunk = chunk.as_object_mut().expect("an object");
        for name in ["id", "created", "system_fingerprint"] {
            chunk.remove(name);
        }
    });
    once.events[0] = stream.events[0].clone();
    once
}

#[test]
fn a_chat_that_is_named_once_is_never_folded_into_another() {
    assert_never_folded(&of(Format::Chat, named_once));
}

/// The opening chunk has the first delta in it.
fn opened_with_content(stream: &Stream) -> Stream {
    let mut opened = stream.clone();
    let first = payload(&opened.events.remove(0));
    let mut second = payload(&opened.events[0]);
    second["choices"][0]["delta"]["role"] = first["choices"][0]["delta"]["role"].clone();
    opened.events[0] = format!("data: {second}\n\n").into_bytes();
    opened
}

#[test]
fn a_chat_whose_opening_says_something_is_never_folded_into_another() {
    assert_never_folded(&of(Format::Chat, opened_with_content));
    assert_never_folded(&of(Format::Chat, |stream| Lacking::Ids.of(&opened_with_content(stream))));
}

/// The delta after the second role tells whether the role is one of many. Until then text of both may be
/// shown. It is not committed, which the law checks.
#[test]
fn a_chat_with_a_role_alone_whose_opening_says_something_commits_nothing_of_both() {
    let (mut count, mut endings) = (Count::default(), BTreeMap::new());
    for pair in of(Format::Chat, |stream| Lacking::IdsAndTimes.of(&opened_with_content(stream))) {
        splice(&pair, &pair.second.bytes(), &mut count, &mut endings);
    }
    assert_eq!((count.wrong_calls, count.second_after_first), (0, 0));
    assert!(!endings.keys().any(|ending| ending.ends_with("incomplete")), "{endings:?}");
}

/// Some providers send a role with every delta, and nothing else that names the completion.
#[test]
fn a_chat_with_a_role_in_every_delta_is_read() {
    for (name, completion, _) in completions() {
        let plain = Lacking::IdsAndTimes.of(&stream(Format::Chat, name, &completion, false));
        let roles = chunks(&plain, |chunk| {
            if let Some(delta) = chunk.pointer_mut("/choices/0/delta") {
                delta["role"] = json!("assistant");
            }
        });
        let (plain, roles) = (read_stream(&plain), read_stream(&roles));
        assert_eq!(
            (roles.outcome.ended, roles.outcome.committed),
            (StreamEnd::Complete, plain.outcome.committed)
        );
    }
}

#[test]
fn events_written_with_blanks_are_never_folded() {
    for format in Format::ALL {
        assert_never_folded(&of(format, |stream| {
            stream.map("with blanks", |event| event.replace("\":", "\": ").replace(",\"", ", \""))
        }));
    }
}

#[test]
fn events_without_name_lines_are_never_folded() {
    for format in [Format::Messages, Format::Responses] {
        assert_never_folded(&of(format, |stream| {
            stream.map("without names", |event| match event.split_once("\ndata") {
                Some((_, rest)) => format!("data{rest}"),
                None => event.to_owned(),
            })
        }));
    }
}

#[test]
fn events_whose_kind_is_in_their_name_line_only_are_never_folded() {
    for format in [Format::Messages, Format::Responses] {
        assert_never_folded(&of(format, |stream| {
            let events = stream.events.iter().map(|event| {
                let mut payload = payload(event);
                let kind = payload.as_object_mut().expect("an object").remove("type").expect("a type");
                format!("event: {}\ndata: {payload}\n\n", kind.as_str().expect("a word")).into_bytes()
            });
            Stream { events: events.collect(), ..stream.clone() }
        }));
    }
}

#[test]
fn calls_without_ids_are_never_folded() {
    assert_never_folded(&of(Format::Chat, |stream| {
        chunks(stream, |chunk| {
            if let Some(call) = chunk.pointer_mut("/choices/0/delta/tool_calls/0") {
                call.as_object_mut().expect("an object").remove("id");
            }
        })
    }));
}

#[test]
fn calls_without_indexes_are_never_folded() {
    assert_never_folded(&of(Format::Chat, |stream| {
        chunks(stream, |chunk| {
            if let Some(call) = chunk.pointer_mut("/choices/0/delta/tool_calls/0") {
                call.as_object_mut().expect("an object").remove("index");
            }
        })
    }));
}

/// Servers that name items by their index, so that all responses have the same ids.
#[test]
fn responses_whose_items_are_named_by_place_are_never_folded() {
    assert_never_folded(&of(Format::Responses, |stream| {
        events(stream, |event| {
            let name = json!(format!("item_{}", event["output_index"]));
            if event.get("item_id").is_some() {
                event["item_id"] = name.clone();
            }
            if event.get("item").is_some() {
                event["item"]["id"] = name;
            }
        })
    }));
}

#[test]
fn responses_without_names_of_items_are_never_folded() {
    assert_never_folded(&of(Format::Responses, |stream| {
        events(stream, |event| {
            event.as_object_mut().expect("an object").remove("item_id");
            if let Some(item) = event.get_mut("item") {
                item.as_object_mut().expect("an object").remove("id");
            }
        })
    }));
}

#[test]
fn responses_without_numbers_are_never_folded() {
    assert_never_folded(&of(Format::Responses, |stream| {
        events(stream, |event| {
            event.as_object_mut().expect("an object").remove("sequence_number");
        })
    }));
}

#[test]
fn responses_that_are_named_at_both_ends_only_are_never_folded() {
    assert_never_folded(&of(Format::Responses, |stream| {
        let is_progress = |event: &Vec<u8>| payload(event)["type"] == "response.in_progress";
        let events = stream.events.iter().filter(|event| !is_progress(event));
        Stream { events: events.cloned().collect(), ..stream.clone() }
    }));
}

/// The same, with the second completion in the same second and a comment in between.
#[test]
fn a_comment_at_the_seam_hides_no_second_completion() {
    let mut count = Count::default();
    for pair in pairs().iter().filter(|pair| pair.first.name.contains("dangerous")) {
        for seam in [": keepalive\n\n", "\n", "\n\n", "\r\n\r\n", "data:\n\n", "\u{FEFF}", ": x\n"] {
            splice(pair, &[seam.as_bytes(), &pair.second.bytes()].concat(), &mut count, &mut BTreeMap::new());
        }
    }
    assert_eq!(Count { cases: 0, ..count }, Count::default());
}
