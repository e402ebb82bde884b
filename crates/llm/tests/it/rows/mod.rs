//! The documented ways in which streams break, each as a mutation of a rendered stream, read at every split
//! position. The row numbers are those of the list of reports.

mod content;
mod ends;
mod framing;

pub(crate) use ends::failing;

use crate::corpus::{Stream, dangerous, dangerous_again, stream};
use crate::reading::{Read, read_in_every_split, read_stream};
use serde_json::Value;
use turnstream_fake_provider::{Completion, Part};
use turnstream_llm::{AnomalyKind, Format, Head, Repair, StreamEnd, StreamEvent};

#[track_caller]
pub(crate) fn read(stream: &Stream) -> Read {
    read_in_every_split(stream.format, &stream.profile, &Head::stream(), &stream.bytes())
}

pub(crate) fn plain(format: Format) -> Stream {
    stream(format, "dangerous", &dangerous(), false)
}

pub(crate) fn again(format: Format) -> Stream {
    stream(format, "dangerous", &dangerous_again(), true)
}

pub(crate) fn of(format: Format, parts: impl IntoIterator<Item = Part>) -> Stream {
    stream(format, "", &Completion::of(parts), false)
}

pub(crate) fn payload(event: &[u8]) -> Value {
    let text = std::str::from_utf8(event).expect("rendered text");
    let data = text.lines().find_map(|line| line.strip_prefix("data: ")).expect("a data line");
    serde_json::from_str(data).unwrap_or(Value::Null)
}

/// The chat stream with every chunk changed as JSON; `[DONE]` stays.
pub(crate) fn chunks(stream: &Stream, change: impl Fn(&mut Value)) -> Stream {
    let events = stream.events.iter().map(|event| match payload(event) {
        Value::Null => event.clone(),
        mut chunk => {
            change(&mut chunk);
            format!("data: {chunk}\n\n").into_bytes()
        }
    });
    Stream { events: events.collect(), ..stream.clone() }
}

pub(crate) fn event_with(stream: &Stream, needle: &str) -> usize {
    let found = stream.events.iter().position(|event| String::from_utf8_lossy(event).contains(needle));
    found.unwrap_or_else(|| panic!("{} has no {needle}", stream.name))
}

/// Asserts a complete stream with the same calls and text, and exactly this repair.
#[track_caller]
pub(crate) fn assert_repaired(damaged: &Stream, whole: &Stream, repairs: &[(Repair, u32)]) {
    let (read, whole) = (read(damaged), read_stream(whole));
    assert_eq!(read.outcome.ended, StreamEnd::Complete, "{}", damaged.name);
    assert_eq!((read.calls(), read.text()), (whole.calls(), whole.text()), "{}", damaged.name);
    assert_eq!(read.anomalies(), [], "{}", damaged.name);
    assert_eq!(read.outcome.repairs.iter().collect::<Vec<_>>(), repairs, "{}", damaged.name);
}

/// Asserts a tainted stream of which nothing is committed.
#[track_caller]
pub(super) fn assert_tainted(damaged: &Stream, kind: AnomalyKind) -> Read {
    let read = read(damaged);
    assert_eq!(read.outcome.ended, StreamEnd::Corrupt, "{}", damaged.name);
    assert_eq!(read.anomalies().first(), Some(&kind), "{}", damaged.name);
    assert_eq!(read.outcome.committed, [], "{}", damaged.name);
    assert!(read.said.iter().any(|said| matches!(said, StreamEvent::Tainted { .. })), "{}", damaged.name);
    read
}
