//! Removes model text from one payload: by its members if it is JSON, otherwise word by word.
//!
//! A cut in the body can join any member name with any text, and the result may still be JSON. So no string
//! is kept because of its member. Only words of the wire formats are kept.

use super::vocabulary;
use serde_json::Value;

/// Members with names and ids. Known words are kept, and a hash mark tells two names apart.
const NAMES: [&str; 12] = [
    "id",
    "model",
    "name",
    "call_id",
    "item_id",
    "response_id",
    "tool_use_id",
    "request_id",
    "system_fingerprint",
    "provider",
    "@type",
    "quotaId",
];
/// Members with a word from a fixed list of the provider.
const LISTED: [&str; 12] = [
    "object",
    "type",
    "role",
    "finish_reason",
    "native_finish_reason",
    "stop_reason",
    "status",
    "code",
    "service_tier",
    "param",
    "reason",
    "event",
];
/// Members below which everything comes from the model or the user.
const THEIRS: [&str; 6] = ["input", "arguments", "parameters", "metadata", "instructions", "tools"];
/// The longest name or listed word.
const LONGEST_NAME: usize = 160;
/// The most digits of a count or index. A longer number may be model text, such as a card number.
const LONGEST_NUMBER: usize = 6;

/// Writes a JSON value with its text replaced. Returns false and writes nothing if it is not JSON.
pub(super) fn as_json(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    let Ok(mut value) = serde_json::from_slice::<Value>(bytes) else { return false };
    hide(&mut value, "");
    // Writing into memory does not fail.
    serde_json::to_writer(out, &value).is_ok()
}

/// Writes an answer unchanged that consists of an error and nothing else: it has no model text. Otherwise
/// returns false and writes nothing.
pub(super) fn as_error(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    let Ok(Value::Object(members)) = serde_json::from_slice::<Value>(bytes) else { return false };
    let is_error = |(name, value): (&String, &Value)| match name.as_str() {
        "error" => !holds_an_answer(value),
        "message" | "detail" | "type" | "code" | "status" | "param" | "request_id" | "object" => {
            !value.is_object() && !value.is_array()
        }
        _ => false,
    };
    let only_an_error = !members.is_empty() && members.iter().all(is_error);
    if only_an_error {
        out.extend_from_slice(bytes);
    }
    only_an_error
}

/// Whether a value has members with model output. Providers put whole answers below `error` too.
fn holds_an_answer(value: &Value) -> bool {
    const WRITTEN: [&str; 12] = [
        "choices",
        "content",
        "delta",
        "output",
        "candidates",
        "parts",
        "text",
        "thinking",
        "reasoning",
        "role",
        "arguments",
        "input",
    ];
    match value {
        Value::Object(members) => {
            members.iter().any(|(name, value)| WRITTEN.contains(&name.as_str()) || holds_an_answer(value))
        }
        Value::Array(list) => list.iter().any(holds_an_answer),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn hide(value: &mut Value, name: &str) {
    match value {
        Value::String(text) => {
            *text = if text.len() > LONGEST_NAME {
                length(text.len())
            } else if NAMES.contains(&name) {
                marked(text)
            } else if LISTED.contains(&name) {
                known_words(text)
            } else {
                length(text.len())
            };
        }
        Value::Number(number) => {
            let digits = number.to_string();
            if digits.len() > LONGEST_NUMBER {
                *value = Value::String(marked(&digits));
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| hide(value, name)),
        Value::Object(members) => {
            for (name, mut value) in std::mem::take(members) {
                if THEIRS.contains(&name.as_str()) {
                    hide_whole(&mut value);
                } else {
                    hide(&mut value, &name);
                }
                let known = known_words(&name);
                members.insert(if known == name { name } else { marked(&name) }, value);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Replaces a value by its length. Its names and numbers may be secrets too.
fn hide_whole(value: &mut Value) {
    let bytes = match value {
        Value::Null => return,
        Value::String(text) => text.len(),
        Value::Array(list) if list.is_empty() => return,
        Value::Object(members) if members.is_empty() => return,
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string().len(),
    };
    *value = Value::String(length(bytes));
}

/// Keeps punctuation and known words, and replaces every other word by its length.
///
/// It needs no structure, so damage that confuses inside and outside of strings reveals nothing. A value
/// directly after `"id":"` gets a hash mark, so that two ids can be told apart.
pub(super) fn by_words(bytes: &[u8], out: &mut Vec<u8>) {
    const ID: [&[u8]; 2] = [b"\"id\":\"", b"\"id\": \""];
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == b'"') {
        let (before, after) = rest.split_at(at + 1);
        words(before, out);
        rest = after;
        if ID.iter().any(|id| bytes[..bytes.len() - rest.len()].ends_with(id)) {
            let end = rest.iter().position(|byte| *byte == b'"').unwrap_or(rest.len());
            let (id, after) = rest.split_at(end);
            words(id, out);
            out.extend_from_slice(mark(id).as_bytes());
            rest = after;
        }
    }
    words(rest, out);
}

/// Writes known words and punctuation as they are, and other words as their lengths.
fn words(bytes: &[u8], out: &mut Vec<u8>) {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || !byte.is_ascii();
    for run in bytes.chunk_by(|one, next| is_letter(one) == is_letter(next)) {
        if !is_letter(&run[0]) || vocabulary::has(run) {
            out.extend_from_slice(run);
        } else {
            out.extend_from_slice(length(run.len()).as_bytes());
        }
    }
}

fn known_words(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    words(text.as_bytes(), &mut out);
    // Only whole runs are kept or replaced, so this is valid UTF-8.
    String::from_utf8_lossy(&out).into_owned()
}

fn marked(name: &str) -> String {
    known_words(name) + &mark(name.as_bytes())
}

/// A 16-bit hash: enough to tell two names apart, too little to recover a text.
fn mark(name: &[u8]) -> String {
    let hash =
        name.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    format!("#{:04x}", (hash >> 16) ^ (hash & 0xffff))
}

/// The replacement for a text of this many bytes.
fn length(bytes: usize) -> String {
    format!("<{bytes}>")
}
