//! What an agent sends that its adapter does not know: kept in notices, bounded for each turn.
//!
//! Redaction sees one event at a time, so a secret in two pieces passes it. That is why only the first
//! message of a kind is kept raw in a turn, and of a kind that looks streamed no text at all. Others are
//! counted.

use crate::foreign_error::shorten;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use turnstream_model::event::NoticeCode;
use turnstream_model::signal::Signal;

/// The most bytes of a turn that are kept.
const MOST_BYTES: usize = 64 << 10;
/// What a notice needs beside its raw content and the name of the kind.
const NOTICE_BYTES: usize = 256;
/// Words in the names of kinds that carry pieces of something, in lower case.
const STREAMED: &[&str] = &["chunk", "delta", "partial", "progress"];

/// What was kept of the turn.
#[derive(Debug, Default)]
pub(crate) struct Unknown {
    bytes: usize,
    /// Messages that came after the first one, by kind.
    repeated: BTreeMap<String, u64>,
    /// Messages of kinds for which there was no room.
    others: u64,
}

impl Unknown {
    /// The notice about something that is not known. `None` if it is only counted.
    pub(crate) fn notice(&mut self, sender: &str, kind: &str, raw: Value) -> Option<Signal> {
        let name = shorten(kind);
        if let Some(repeated) = self.repeated.get_mut(&name) {
            *repeated += 1;
            return None;
        }
        if self.bytes > MOST_BYTES {
            self.others += 1;
            return None;
        }
        let mut message = format!("{sender} sent {name:?}, which is not known");
        // The name comes again with the counts.
        self.bytes += NOTICE_BYTES + 2 * name.len();
        let detail = self.detail(if looks_streamed(kind) { without_texts(raw) } else { raw });
        if detail.is_none() {
            message.push_str("; its content and further ones of this turn are not kept");
        }
        self.repeated.insert(name, 0);
        Some(Signal::Notice { code: NoticeCode::UnknownEvent, message, detail })
    }

    /// Counts content that is kept. `None` if the turn had too much of it.
    pub(crate) fn detail(&mut self, raw: Value) -> Option<Value> {
        self.bytes += raw.to_string().len();
        (self.bytes <= MOST_BYTES).then_some(raw)
    }

    /// The turn is over: how many messages were not kept. `None` if all were.
    pub(crate) fn end_turn(&mut self, sender: &str) -> Option<Signal> {
        let Self { bytes: _, repeated, others } = std::mem::take(self);
        let count = others + repeated.values().sum::<u64>();
        let kinds: Map<String, Value> = repeated
            .into_iter()
            .filter(|(_, more)| *more > 0)
            .map(|(kind, more)| (kind, more.into()))
            .collect();
        let message = format!("{sender} sent {count} more messages that are not known");
        let detail = (!kinds.is_empty()).then_some(Value::Object(kinds));
        (count > 0).then_some(Signal::Notice { code: NoticeCode::UnknownEvent, message, detail })
    }
}

/// Whether the messages of a kind are likely to be pieces of one text.
fn looks_streamed(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    STREAMED.iter().any(|word| kind.contains(word))
}

/// The form of a message: the names of its members, and the length of each text.
fn without_texts(value: Value) -> Value {
    match value {
        Value::String(text) => json!({"bytes": text.len()}),
        Value::Array(all) => all.into_iter().map(without_texts).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, value)| (name, without_texts(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}
