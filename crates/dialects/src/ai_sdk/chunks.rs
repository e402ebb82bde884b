//! Writes single chunks.

use crate::dialect::FrameSink;
use serde_json::{Map, Value, json};
use turnstream_model::fold::Item;

/// The name under which our own members are in `providerMetadata` and in the metadata of messages.
pub(super) const OURS: &str = "turnstream";

/// The two kinds of parts that are texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextKind {
    Text,
    Reasoning,
}

impl TextKind {
    const fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Reasoning => "reasoning",
        }
    }
}

/// What a text part says about itself besides its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    None,
    /// It goes on with the text of an earlier part of the same item.
    Continues,
    /// Another part of the same item, or of none, replaces it.
    Superseded,
}

pub(super) fn put(out: &mut impl FrameSink, chunk: &Value) {
    out.frame(None, chunk.to_string().as_bytes());
}

/// A chunk without members.
pub(super) fn bare(out: &mut impl FrameSink, kind: &str) {
    put(out, &json!({"type": kind}));
}

pub(super) fn text_start(out: &mut impl FrameSink, kind: TextKind, item: &Item, mark: Mark) {
    let id = item.id.as_str();
    put(
        out,
        &json!({"type": format!("{}-start", kind.word()), "id": id, "providerMetadata": tag(item, mark)}),
    );
}

/// The frequent chunk, written without a tree.
pub(super) fn text_delta(
    out: &mut impl FrameSink,
    kind: TextKind,
    id: &str,
    text: &str,
    buffer: &mut Vec<u8>,
) {
    buffer.clear();
    buffer.extend_from_slice(b"{\"type\":\"");
    buffer.extend_from_slice(kind.word().as_bytes());
    buffer.extend_from_slice(b"-delta\",\"id\":");
    string(id, buffer);
    buffer.extend_from_slice(b",\"delta\":");
    string(text, buffer);
    buffer.push(b'}');
    out.frame(None, buffer);
}

/// The end says again whose text it is if it also says something about it.
pub(super) fn text_end(out: &mut impl FrameSink, kind: TextKind, item: &Item, mark: Mark) {
    let mut chunk = json!({"type": format!("{}-end", kind.word()), "id": item.id.as_str()});
    if item.incomplete || mark != Mark::None {
        chunk["providerMetadata"] = tag(item, mark);
    }
    put(out, &chunk);
}

fn tag(item: &Item, mark: Mark) -> Value {
    let mut members = Map::new();
    members.insert("item".to_owned(), json!(item.id));
    if item.incomplete {
        members.insert("incomplete".to_owned(), json!(true));
    }
    match mark {
        Mark::None => {}
        Mark::Continues => drop(members.insert("continues".to_owned(), json!(true))),
        Mark::Superseded => drop(members.insert("superseded".to_owned(), json!(true))),
    }
    json!({OURS: members})
}

/// A data part. One with the same name and id replaces it.
pub(super) fn data(out: &mut impl FrameSink, name: &str, id: &str, data: Value) {
    put(out, &json!({"type": format!("data-{name}"), "id": id, "data": data}));
}

/// Data that is in no message: only `onData` of a page gets it.
pub(super) fn transient(out: &mut impl FrameSink, name: &str, data: Value) {
    put(out, &json!({"type": format!("data-{name}"), "data": data, "transient": true}));
}

fn string(text: &str, buffer: &mut Vec<u8>) {
    let written = serde_json::to_writer(buffer, text);
    debug_assert!(written.is_ok(), "a Vec takes every byte");
}
