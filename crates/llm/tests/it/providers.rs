//! What single providers do, as recordings show it: read whole with their profile, and never folded into
//! another completion.

use crate::corpus::{Stream, dangerous, stream};
use crate::dialects::{self, assert_never_folded, events};
use crate::reading::read_stream;
use crate::rows::{assert_repaired, chunks, event_with, of, payload, plain, read};
use serde_json::{Value, json};
use std::cell::Cell;
use turnstream_fake_provider::Part;
use turnstream_llm::{
    AnomalyKind, Format, Profile, ProfileSettings, Repair, SpliceEvidence, StreamEnd, WithheldReason,
};

fn with(profile: &Profile, stream: Stream) -> Stream {
    Stream { profile: profile.clone(), ..stream }
}

/// Asserts that a stream is read as the usual one is.
#[track_caller]
fn assert_whole(unusual: &Stream, usual: &Stream) {
    let (read, whole) = (read(unusual), read_stream(usual));
    assert_eq!(read.outcome.ended, StreamEnd::Complete, "{}", unusual.name);
    assert_eq!((read.anomalies(), read.evidence()), (vec![], vec![]), "{}", unusual.name);
    let all = |read: &crate::reading::Read| (read.text(), read.reasoning());
    assert_eq!(all(&read), all(&whole), "{}", unusual.name);
    assert_eq!((read.calls(), read.runnable()), (whole.calls(), whole.runnable()), "{}", unusual.name);
}

/// The gateway's own opening chunk, and a role in every delta after it.
fn avian(stream: &Stream) -> Stream {
    let mut own = chunks(stream, |chunk| {
        if let Some(delta) = chunk.pointer_mut("/choices/0/delta") {
            delta["role"] = json!("assistant");
        }
    });
    let mut first = payload(&stream.events[0]);
    first["id"] = json!(format!("gateway-{}", first["id"].as_str().unwrap_or_default()));
    first["choices"][0]["delta"] = json!({"role": "assistant"});
    own.events.insert(0, format!("data: {first}\n\n").into_bytes());
    with(&Profile::AVIAN, own)
}

#[test]
fn a_first_chunk_with_an_id_of_its_own_is_part_of_the_answer() {
    let usual = plain(Format::Chat);
    assert_whole(&avian(&usual), &usual);
    let unknown = with(&Profile::UNKNOWN, avian(&usual));
    assert_eq!(read(&unknown).outcome.ended, StreamEnd::Spliced);
    assert_never_folded(&dialects::of(Format::Chat, avian));
}

/// Another id with every chunk, a time that moves, and no role.
fn compound(stream: &Stream) -> Stream {
    let number = Cell::new(0);
    let rotated = chunks(stream, |chunk| {
        number.set(number.get() + 1);
        chunk["id"] = json!(format!("{}-{}", chunk["id"].as_str().unwrap_or_default(), number.get()));
        chunk["created"] = json!(chunk["created"].as_u64().unwrap_or_default() + number.get() / 3);
    });
    with(&Profile::GROQ, rotated)
}

#[test]
fn an_id_per_chunk_is_read_and_constant_ids_of_the_same_provider_are_still_compared() {
    let usual = plain(Format::Chat);
    assert_whole(&compound(&usual), &usual);
    assert_whole(&with(&Profile::WITHOUT_IDS, compound(&usual)), &usual);
    assert_whole(&with(&Profile::GROQ, usual.clone()), &usual);
    assert_never_folded(&dialects::of(Format::Chat, |stream| with(&Profile::GROQ, stream.clone())));
    assert_never_folded(&dialects::of(Format::Chat, compound));
}

#[test]
fn a_repeated_id_after_an_id_per_chunk_is_another_completion() {
    let mut mixed = compound(&plain(Format::Chat));
    mixed.events.truncate(4);
    mixed.events.extend(plain(Format::Chat).events.into_iter().skip(3));
    let read = read(&mixed);
    assert_eq!((read.outcome.ended.clone(), read.calls()), (StreamEnd::Spliced, vec![]));
    assert_eq!(read.evidence(), [SpliceEvidence::Id]);
}

#[test]
fn content_without_an_id_after_content_with_one_is_another_completion() {
    let usual = plain(Format::Chat);
    let at = event_with(&usual, "/cache");
    let mut damaged = usual.clone();
    let mut chunk = payload(&usual.events[at]);
    chunk["id"] = Value::Null;
    damaged.events[at] = format!("data: {chunk}\n\n").into_bytes();
    let read = read(&damaged);
    assert_eq!((read.outcome.ended.clone(), read.evidence()), (StreamEnd::Spliced, vec![SpliceEvidence::Id]));
    assert_eq!(read.calls(), []);
}

/// Ids of response and items that change with every event.
fn copilot(stream: &Stream) -> Stream {
    let number = Cell::new(0);
    let rotated = events(stream, |event| {
        number.set(number.get() + 1);
        let id = json!(format!("id-{}", number.get()));
        for place in ["/response/id", "/item/id", "/item_id"] {
            if let Some(old) = event.pointer_mut(place) {
                *old = id.clone();
            }
        }
        for item in event.pointer_mut("/response/output").and_then(Value::as_array_mut).into_iter().flatten()
        {
            item["id"] = id.clone();
        }
    });
    with(&Profile::COPILOT, rotated)
}

#[test]
fn rotating_ids_of_responses_and_items_are_read_under_their_profile_only() {
    for parts in [vec![Part::text("It is done.")], vec![Part::tool_call("read", json!({"path": "/srv/a"}))]] {
        let usual = of(Format::Responses, parts);
        assert_whole(&copilot(&usual), &usual);
        let unknown = with(&Profile::UNKNOWN, copilot(&usual));
        assert_eq!(read(&unknown).outcome.ended, StreamEnd::Spliced);
    }
    assert_never_folded(&dialects::of(Format::Responses, copilot));
}

/// No ids, no times, no finish.
fn snowflake(stream: &Stream) -> Stream {
    let bare = chunks(stream, |chunk| {
        (chunk["id"], chunk["created"]) = (json!(""), json!(0));
        if let Some(choice) = chunk.pointer_mut("/choices/0") {
            choice["finish_reason"] = Value::Null;
        }
    });
    with(&Profile::SNOWFLAKE, bare)
}

#[test]
fn an_end_marker_without_a_finish_is_enough_where_the_profile_says_so() {
    let usual = of(Format::Chat, [Part::reasoning("Well."), Part::text("It is done.")]);
    assert_whole(&snowflake(&usual), &usual);
    let unknown = with(&Profile::UNKNOWN, snowflake(&usual));
    assert_eq!(read(&unknown).outcome.ended, StreamEnd::Incomplete);
    let mut cut = snowflake(&usual);
    cut.events.pop();
    assert_eq!((read(&cut).outcome.ended, read(&cut).messages()), (StreamEnd::Incomplete, vec![]));
    assert_never_folded(&dialects::of(Format::Chat, snowflake));
}

#[test]
fn blanks_after_the_end_marker_change_nothing() {
    let mut blanks = with(&Profile::OPENAI, plain(Format::Chat));
    *blanks.events.last_mut().expect("an end") = b"data: [DONE]  \n\n".to_vec();
    assert_whole(&blanks, &plain(Format::Chat));
}

/// Each call whole in one delta, all under index 0.
fn shared(stream: &Stream) -> Stream {
    let (mut whole, mut events) = (Vec::<Value>::new(), Vec::new());
    for event in &stream.events {
        let chunk = payload(event);
        let Some(delta) = chunk.pointer("/choices/0/delta/tool_calls/0") else {
            events.push(event.clone());
            continue;
        };
        let at = delta["index"].as_u64().unwrap_or_default() as usize;
        if whole.len() <= at {
            whole.push(chunk.clone());
            whole[at]["choices"][0]["delta"]["tool_calls"][0]["index"] = json!(0);
        } else {
            let function = &mut whole[at]["choices"][0]["delta"]["tool_calls"][0]["function"];
            let more = delta["function"]["arguments"].as_str().unwrap_or_default();
            function["arguments"] =
                json!(format!("{}{more}", function["arguments"].as_str().unwrap_or_default()));
        }
    }
    let calls = whole.iter().map(|chunk| format!("data: {chunk}\n\n").into_bytes());
    let end = events.iter().position(|event| String::from_utf8_lossy(event).contains("\"finish_reason\":\""));
    let end = end.expect("a finish");
    events.splice(end..end, calls.collect::<Vec<_>>());
    Stream { events, ..stream.clone() }
}

#[test]
fn whole_calls_under_one_index_are_several_calls_if_an_id_names_the_completion() {
    let two = [
        Part::tool_call("read", json!({"path": "/srv/a"})),
        Part::tool_call("write", json!({"path": "/srv/b", "text": "x"})),
    ];
    let usual = of(Format::Chat, two);
    assert_eq!(read_stream(&usual).calls().len(), 2);
    for profile in [Profile::UNKNOWN, Profile::GOOGLE] {
        assert_whole(&with(&profile, shared(&usual)), &usual);
    }
    let nameless = chunks(&shared(&usual), |chunk| (chunk["id"], chunk["created"]) = (json!(""), json!(0)));
    let read = read(&nameless);
    assert_eq!((read.anomalies(), read.calls()), (vec![AnomalyKind::Conflict], vec![]));
    assert_never_folded(&dialects::of(Format::Chat, shared));
}

#[test]
fn an_error_line_of_llama_cpp_is_the_providers_error() {
    let mut failed = plain(Format::Chat);
    failed.events.truncate(4);
    failed.events.push(b"error: {\"error\":{\"code\":500,\"message\":\"failed to decode\"}}\n\n".to_vec());
    let read = read(&failed);
    let StreamEnd::Failed(error) = &read.outcome.ended else { panic!("{:?}", read.outcome.ended) };
    assert_eq!((error.message.as_str(), error.status), ("failed to decode", Some(500)));
    assert_eq!(read.calls(), []);
}

#[test]
fn an_error_in_a_choice_is_the_providers_error() {
    let failed = chunks(&plain(Format::Chat), |chunk| {
        if chunk["choices"][0]["finish_reason"] == "tool_calls" {
            chunk["choices"][0]["error"] = json!({"code": 502, "message": "Upstream is gone"});
        }
    });
    let read = read(&failed);
    let StreamEnd::Failed(error) = &read.outcome.ended else { panic!("{:?}", read.outcome.ended) };
    assert_eq!((error.message.as_str(), error.status), ("Upstream is gone", Some(502)));
}

#[test]
fn a_repeated_start_with_nothing_between_is_one_message() {
    let usual = plain(Format::Messages);
    let mut twice = usual.clone();
    twice.events.insert(1, usual.events[0].clone());
    assert_repaired(&twice, &usual, &[(Repair::DuplicateEvent, 1)]);
    // After the first block it is another message.
    let mut late = usual.clone();
    let begun = event_with(&usual, "content_block_start") + 1;
    late.events.insert(begun, usual.events[0].clone());
    assert_eq!(read(&late).outcome.ended, StreamEnd::Spliced);
}

/// A stream of responses in which the calls are done while their status says `in_progress`.
fn in_progress(stream: &Stream) -> Stream {
    events(stream, |event| {
        let is_call = |item: &Value| item["type"] == "function_call";
        let items = match event["type"].as_str() {
            Some("response.output_item.done") => vec![&mut event["item"]],
            _ => event
                .pointer_mut("/response/output")
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
                .collect(),
        };
        for item in items.into_iter().filter(|item| is_call(item)) {
            item["status"] = json!("in_progress");
        }
    })
}

#[test]
fn calls_of_programs_are_confirmed_by_the_end_of_the_response_alone() {
    let usual = plain(Format::Responses);
    assert_whole(&in_progress(&usual), &usual);
    let mut cut = in_progress(&usual);
    cut.events.pop();
    let read = read(&cut);
    assert_eq!((read.outcome.ended.clone(), read.calls()), (StreamEnd::Incomplete, vec![]));
    assert_never_folded(&dialects::of(Format::Responses, in_progress));
}

#[test]
fn indexes_with_gaps_make_no_item_of_the_list_a_second_one() {
    let parts = [Part::text("First."), Part::tool_call("read", json!({"path": "/srv/a"}))];
    let usual = of(Format::Responses, parts);
    let gaps = events(&usual, |event| {
        if event["output_index"] == json!(1) {
            event["output_index"] = json!(3);
        }
    });
    assert_whole(&gaps, &usual);
    assert_whole(&with(&Profile::COPILOT, gaps), &usual);
}

/// The stream of a call without arguments.
fn without_arguments(format: Format) -> Stream {
    let usual = of(format, [Part::tool_call("list", json!({}))]);
    match format {
        Format::Chat => chunks(&usual, |chunk| {
            if let Some(function) = chunk.pointer_mut("/choices/0/delta/tool_calls/0/function") {
                function["arguments"] = json!("");
            }
        }),
        Format::Messages => {
            let keep = |event: &Vec<u8>| !String::from_utf8_lossy(event).contains("input_json_delta");
            Stream { events: usual.events.iter().filter(|event| keep(event)).cloned().collect(), ..usual }
        }
        Format::Responses => events(&usual, |event| {
            for place in ["/item/arguments", "/arguments", "/delta"] {
                if let Some(arguments) = event.pointer_mut(place) {
                    *arguments = json!("");
                }
            }
            let listed = event.pointer_mut("/response/output").and_then(Value::as_array_mut);
            listed.into_iter().flatten().for_each(|item| item["arguments"] = json!(""));
        }),
    }
}

#[test]
fn a_call_without_arguments_is_whole_in_every_format() {
    for format in Format::ALL {
        let read = read(&without_arguments(format));
        assert_eq!(read.outcome.ended, StreamEnd::Complete, "{format:?}");
        let calls: Vec<_> = read.runnable().into_iter().map(|(_, name, input)| (name, input)).collect();
        assert_eq!(calls, [("list", "{}")], "{format:?}");
    }
}

#[test]
fn empty_arguments_prove_nothing_after_damage_or_under_another_finish() {
    let stopped = chunks(&without_arguments(Format::Chat), |chunk| {
        if chunk["choices"][0]["finish_reason"] == "tool_calls" {
            chunk["choices"][0]["finish_reason"] = json!("stop");
        }
    });
    let read = read(&stopped);
    assert_eq!(read.calls(), []);
    assert_eq!(read.outcome.withheld[0].reason, WithheldReason::BadArguments);
    let mut damaged = without_arguments(Format::Responses);
    damaged.events.remove(2);
    let read = read_stream(&damaged);
    assert_eq!(read.calls(), [], "{:?}", read.outcome);
}

#[test]
fn a_profile_of_a_configuration_has_every_knob_and_its_own_texts() {
    let table = json!({"based_on": "openai", "id": "constant-or-per-chunk", "created": "varies",
        "fingerprint": "without-id", "opening": "anywhere", "done": "without-finish", "call_index": "shared",
        "empty_arguments": "invalid", "sequence": "ignored", "response_id": "varies", "item_id": "varies",
        "pings": "known", "error_finishes": ["broke"], "overflows": ["Too much text"],
        "throttles": [{"error_type": "api_error", "message_contains": "Slow down"}]});
    let settings: ProfileSettings = serde_json::from_value(table).expect("a table");
    let profile = settings.clone().profile("mine").expect("a profile");
    assert_eq!(profile.name, "mine");
    let plain = ProfileSettings { based_on: Some("openai".to_owned()), ..ProfileSettings::default() };
    let copy = Profile { name: "copy".into(), ..Profile::OPENAI };
    assert_eq!(plain.clone().profile("copy"), Ok(copy));
    let usual = of(Format::Chat, [Part::text("It is done.")]);
    assert_whole(&with(&profile, snowflake(&usual)), &usual);
    let named = |settings: ProfileSettings, name| settings.profile(name).expect_err("an error").to_string();
    assert!(named(plain, "openai").contains("is built in"));
    let base = ProfileSettings { based_on: Some("opnai".to_owned()), ..ProfileSettings::default() };
    let error = named(base, "mine");
    assert!(error.contains("\"opnai\"") && error.contains("snowflake"), "{error}");
    let empty = ProfileSettings { overflows: Some(vec!["".into()]), ..ProfileSettings::default() };
    assert!(named(empty, "mine").contains("overflows"));
    let unknown = serde_json::from_value::<ProfileSettings>(json!({"idd": "varies"}));
    assert!(unknown.is_err());
}

#[test]
fn built_in_profiles_have_names_of_their_own() {
    for profile in Profile::ALL {
        assert_eq!(Profile::named(&profile.name), Some(profile));
    }
    assert_eq!(stream(Format::Chat, "x", &dangerous(), false).profile, Profile::UNKNOWN);
}
