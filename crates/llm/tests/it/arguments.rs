//! Which call a delta of arguments belongs to, and which arguments are accepted.

use crate::corpus::{Stream, stream};
use crate::reading::read_stream;
use crate::rows::payload;
use serde_json::{Value, json};
use turnstream_fake_provider::{Arguments, Completion, Part};
use turnstream_llm::{AnomalyKind, CallIndex, Format, Profile, StreamEnd, WithheldReason};

fn given(name: &str, pieces: &[&str]) -> Part {
    let arguments = Arguments::Given(pieces.iter().map(|piece| (*piece).to_owned()).collect());
    Part::ToolCall { name: name.to_owned(), arguments, id: None }
}

/// A chat stream in which these deltas replace those of its call.
fn with_deltas(profile: Profile, deltas: &[Value]) -> Stream {
    let mut chat = stream(Format::Chat, "", &Completion::of([given("bash", &["{}"])]), false);
    let is_call = |event: &Vec<u8>| payload(event).pointer("/choices/0/delta/tool_calls").is_some();
    let at = chat.events.iter().position(is_call).expect("a call");
    let chunk = payload(&chat.events[at]);
    chat.events.retain(|event| !is_call(event));
    let chunks = deltas.iter().map(|delta| {
        let mut chunk = chunk.clone();
        chunk["choices"][0]["delta"]["tool_calls"] = json!([delta]);
        format!("data: {chunk}\n\n").into_bytes()
    });
    chat.events.splice(at..at, chunks);
    Stream { profile, ..chat }
}

/// The call that was opened last is not the one with the last delta, so the delta is ambiguous.
#[test]
fn a_piece_without_id_and_index_behind_one_for_an_earlier_call_is_a_conflict() {
    let shared = Profile { call_index: CallIndex::Shared, ..Profile::UNKNOWN };
    for (profile, index) in [(Profile::UNKNOWN, None), (shared, Some(0))] {
        let delta = |id: Option<&str>, name: Option<&str>, arguments: &str| {
            let mut delta = json!({"function": {"arguments": arguments}});
            let members = delta.as_object_mut().expect("an object");
            members.extend(index.map(|index| ("index".to_owned(), json!(index))));
            members.extend(id.map(|id| ("id".to_owned(), json!(id))));
            if let Some(name) = name {
                delta["function"]["name"] = json!(name);
            }
            delta
        };
        let list = delta(Some("a"), Some("list"), "{\"path\":\"/home");
        let delete = delta(Some("b"), Some("delete"), "{\"path\":\"/tmp");
        let ends = [delta(Some("a"), None, "\"}"), delta(Some("b"), None, "\"}")];
        let clear = [&[list.clone(), delete.clone(), delta(None, None, "/x")], &ends[..]].concat();
        let read = read_stream(&with_deltas(profile.clone(), &clear));
        let calls =
            [(Some("a"), "list", "{\"path\":\"/home\"}"), (Some("b"), "delete", "{\"path\":\"/tmp/x\"}")];
        assert_eq!(read.calls(), calls);
        let unclear =
            [&[list, delete, delta(Some("a"), None, "/old"), delta(None, None, "/x")], &ends[..]].concat();
        let read = read_stream(&with_deltas(profile, &unclear));
        assert_eq!((read.anomalies(), read.calls()), (vec![AnomalyKind::Conflict], vec![]));
    }
}

/// Half a character (a sign of a lost delta), numbers out of range, and too many levels cannot be passed to
/// a tool.
#[test]
fn arguments_that_no_parser_reads_are_withheld() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let cases: [&[&str]; 4] =
        [&["{\"path\":\"", "\\ud83e", "\"}"], &["{\"\\udd80\":1}"], &["{\"limit\":1e999}"], &[&deep]];
    for format in Format::ALL {
        for pieces in cases {
            let read = read_stream(&stream(format, "", &Completion::of([given("read", pieces)]), false));
            assert_eq!((&read.outcome.ended, read.calls()), (&StreamEnd::Complete, vec![]), "{pieces:?}");
            let why: Vec<_> = read.outcome.withheld.iter().map(|call| call.reason).collect();
            assert_eq!(why, [WithheldReason::BadArguments], "{pieces:?}");
        }
        let whole = ["{\"path\":\"", "\\ud83e", "\\udd80", "\",\"n\":[-1,1.5e300,null,true]}"];
        let read = read_stream(&stream(format, "", &Completion::of([given("read", &whole)]), false));
        assert_eq!(read.calls().len(), 1);
    }
}

/// A filter may be slower than the model, and a proxy may count tokens after it.
#[test]
fn a_finish_that_takes_back_the_one_before_runs_nothing() {
    let completion = Completion::of([given("bash", &["{\"command\":\"rm\"}"])]);
    for (format, words) in
        [(Format::Chat, ["content_filter", "length"]), (Format::Messages, ["refusal", "max_tokens"])]
    {
        let whole = stream(format, "", &completion, false);
        let says = |event: &Vec<u8>, word: &str| String::from_utf8_lossy(event).contains(word);
        let is_finish = |event: &Vec<u8>| {
            ["\"tool_calls\"}", "\"tool_calls\",", "\"tool_use\","].iter().any(|word| {
                says(event, word) && (says(event, "finish_reason\":\"") || says(event, "stop_reason\":\""))
            })
        };
        let at = whole.events.iter().rposition(is_finish).expect("a finish");
        for word in words {
            let mut taken_back = whole.clone();
            let event = String::from_utf8_lossy(&whole.events[at]);
            let event = event.replace("\"tool_calls\"", &format!("\"{word}\""));
            let event = event.replace("\"tool_use\"", &format!("\"{word}\""));
            taken_back.events.insert(at + 1, event.into_bytes());
            let read = read_stream(&taken_back);
            assert_eq!((read.told_calls(), read.runnable()), (vec![], vec![]), "{word}");
            let why: Vec<_> = read.outcome.withheld.iter().map(|call| call.reason).collect();
            assert_eq!(
                (read.outcome.finish.map(|finish| finish.raw), why),
                (Some(word.to_owned()), vec![WithheldReason::Finish])
            );
        }
    }
}
