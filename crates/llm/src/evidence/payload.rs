//! One payload without the text of a model: by its members if it is JSON, else word by word.
//!
//! A cut in the body can join any member's name with any piece of text, and the result may still be JSON. So no string
//! is kept because of the member it stands under: only words of the wire formats are kept as they are.

use super::vocabulary;
use serde_json::Value;

/// Members whose text names something: the words a format knows stay, and a mark tells two names apart.
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
/// Members whose text is a word from a provider's list.
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
/// Members below which everything is the model's or the user's.
const THEIRS: [&str; 6] = ["input", "arguments", "parameters", "metadata", "instructions", "tools"];
/// Names and words of lists are not longer.
const LONGEST_NAME: usize = 160;
/// Counts and indices have at most this many digits. A longer number may be a model's: a card, a phone.
const LONGEST_NUMBER: usize = 6;

/// Writes a JSON value with its text replaced; false, and nothing written, if it is no JSON.
pub(super) fn as_json(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    let Ok(mut value) = serde_json::from_slice::<Value>(bytes) else { return false };
    hide(&mut value, "");
    // Writing into memory does not fail.
    serde_json::to_writer(out, &value).is_ok()
}

/// Writes the answer of a provider that only says what went wrong, as it is; false, and nothing written, if this is
/// anything else. No model spoke in it.
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

/// Whether a member of it is one that models write to. Providers put whole answers below `error` too.
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

/// Names and numbers in it may be secrets as well as text.
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

/// Keeps punctuation and known words; every other word becomes its length. It needs no structure, so a fault that
/// turns strings inside out shows nothing. What directly follows `"id":"` is marked, so that two ids can be told apart.
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

/// Known words and punctuation of these bytes; other words as their lengths.
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
    // Whole runs are kept or replaced, so this loses nothing.
    String::from_utf8_lossy(&out).into_owned()
}

fn marked(name: &str) -> String {
    known_words(name) + &mark(name.as_bytes())
}

/// 16 bits that differ for most pairs of names: enough to tell two apart, too few to find a text from.
fn mark(name: &[u8]) -> String {
    let hash =
        name.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    format!("#{:04x}", (hash >> 16) ^ (hash & 0xffff))
}

/// What stands for text of so many bytes.
fn length(bytes: usize) -> String {
    format!("<{bytes}>")
}
