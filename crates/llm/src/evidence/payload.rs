//! One payload without the text of a model: by its members if it is JSON, else word by word.

use serde_json::Value;

/// Members whose text is a provider's own name of something. A cut in the middle of one may join it with text that follows.
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
/// A name of a provider is not longer.
const NAME: usize = 160;
/// Nor is a word of one of its lists.
const LISTED_WORD: usize = 48;
/// Words that stay in a payload that is no JSON.
const WORDS: [&str; 51] = [
    "data",
    "event",
    "id",
    "object",
    "chat",
    "completion",
    "chunk",
    "created",
    "model",
    "choices",
    "index",
    "delta",
    "role",
    "assistant",
    "content",
    "reasoning",
    "reasoning_content",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "finish_reason",
    "stop",
    "length",
    "type",
    "text",
    "text_delta",
    "input_json_delta",
    "partial_json",
    "thinking",
    "thinking_delta",
    "message",
    "error",
    "code",
    "usage",
    "response",
    "output",
    "item",
    "item_id",
    "sequence_number",
    "null",
    "true",
    "false",
    "DONE",
    // Of comments.
    "OPENROUTER",
    "PROCESSING",
    "keepalive",
    "keep",
    "alive",
    "heartbeat",
    "ping",
];

/// Writes a JSON value with its text replaced; false, and nothing written, if it is no JSON.
pub(super) fn as_json(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    let Ok(mut value) = serde_json::from_slice::<Value>(bytes) else { return false };
    hide(&mut value, Under::Event, "");
    // Writing into memory does not fail.
    serde_json::to_writer(out, &value).is_ok()
}

/// What a member is part of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Under {
    Event,
    Error,
}

fn hide(value: &mut Value, under: Under, name: &str) {
    match value {
        Value::String(text) => {
            let stays = match under {
                Under::Event if NAMES.contains(&name) => is_name(text),
                Under::Event => LISTED.contains(&name) && is_listed(text),
                // Messages of errors are whole and not a model's: the redactor sees all of them.
                Under::Error => true,
            };
            if !stays {
                *text = length(text.len());
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| hide(value, under, name)),
        Value::Object(members) => {
            for (name, value) in members {
                if THEIRS.contains(&name.as_str()) {
                    hide_whole(value);
                } else {
                    let is_error = under == Under::Error || name == "error";
                    hide(value, if is_error { Under::Error } else { Under::Event }, name);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
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

/// Words of lists are written so; a program under `code` is not, nor is a word with text behind it, as a rule.
fn is_listed(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.".contains(&byte);
    // Some write theirs in capitals.
    let shouts = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
    text.len() <= LISTED_WORD && (text.bytes().all(is_part) || text.bytes().all(shouts))
}

/// Ids and models are written so.
fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:@+=|".contains(&byte);
    text.len() <= NAME && text.bytes().all(is_part)
}

/// Keeps punctuation, known words and what directly follows `"id":"`; every other word becomes its length. It needs no
/// structure, so a fault that turns strings inside out shows nothing.
pub(super) fn by_words(bytes: &[u8], out: &mut Vec<u8>) {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
    let mut rest = bytes;
    let mut is_id = false;
    while let Some(first) = rest.first() {
        if !is_letter(first) {
            out.push(*first);
            rest = &rest[1..];
            // Ids have hyphens in them.
            is_id = (is_id && *first == b'-') || out.ends_with(b"\"id\":\"") || out.ends_with(b"\"id\": \"");
            continue;
        }
        let end = rest.iter().position(|byte| !is_letter(byte)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let is_known = std::str::from_utf8(word).is_ok_and(|word| WORDS.contains(&word));
        if is_known || (is_id && word.len() <= 64 && word.is_ascii()) {
            out.extend_from_slice(word);
        } else {
            out.extend_from_slice(length(word.len()).as_bytes());
        }
        rest = after;
    }
}

/// What stands for text of so many bytes.
fn length(bytes: usize) -> String {
    format!("<{bytes}>")
}
