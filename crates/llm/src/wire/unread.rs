//! Members that the readers do not know, kept as received.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

type Members<'a> = BTreeMap<String, &'a RawValue>;

/// What is not read of a chat chunk.
#[derive(Debug, Default)]
pub(crate) struct UnreadChunk {
    /// Of the delta.
    pub(crate) delta: Option<String>,
    /// Of its tool calls, in their order.
    pub(crate) calls: Vec<Option<String>>,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    delta: Option<Members<'a>>,
}

#[derive(Deserialize)]
struct Part {
    #[serde(default, rename = "type")]
    kind: Option<String>,
}

const CHAT: [&str; 8] = [
    "role",
    "content",
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "refusal",
    "tool_calls",
    "function_call",
];
const CALL: [&str; 4] = ["index", "id", "type", "function"];

/// What is not read of the first choice of a chat chunk.
pub(crate) fn chat(data: &str) -> UnreadChunk {
    let Ok(Chunk { choices }) = turnstream_json::from_str(data) else { return UnreadChunk::default() };
    let first = choices.into_iter().flatten().next();
    let Some(mut delta) = first.and_then(|choice| choice.delta) else { return UnreadChunk::default() };
    let calls: Option<Vec<Members<'_>>> =
        delta.get("tool_calls").and_then(|raw| turnstream_json::from_str(raw.get()).ok());
    let calls = calls.into_iter().flatten().map(|call| rest(call, &CALL)).collect();
    let content = delta.remove("content").filter(|raw| has_unread_parts(raw.get()));
    delta.retain(|name, _| !CHAT.contains(&name.as_str()));
    delta.extend(content.map(|raw| ("content".to_owned(), raw)));
    UnreadChunk { delta: rest(delta, &[]), calls }
}

/// The members of an object that are not among the known ones, as an object; `None` without any.
pub(crate) fn members(raw: &str, known: &[&str]) -> Option<String> {
    rest(turnstream_json::from_str(raw).ok()?, known)
}

fn rest(mut members: Members<'_>, known: &[&str]) -> Option<String> {
    members.retain(|name, raw| !known.contains(&name.as_str()) && has_content(raw.get()));
    if members.is_empty() { None } else { serde_json::to_string(&members).ok() }
}

/// Numbers are counters and token ids, which no request repeats.
fn has_content(raw: &str) -> bool {
    match raw.as_bytes() {
        [b'"', inner @ .., b'"'] => !inner.is_empty(),
        [b'[', inner @ .., b']'] | [b'{', inner @ .., b'}'] => !inner.trim_ascii().is_empty(),
        _ => false,
    }
}

fn has_unread_parts(content: &str) -> bool {
    let parts: Vec<Part> = turnstream_json::from_str(content).unwrap_or_default();
    parts.iter().filter_map(|part| part.kind.as_deref()).any(|kind| !["text", "thinking"].contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::{chat, members};

    #[test]
    fn what_is_known_or_empty_is_not_kept() {
        let chunk = r#"{"choices":[{"delta":{"role":"assistant","content":"x","audio":null,"images":[],"token_id":7}}]}"#;
        let unread = chat(chunk);
        assert_eq!((unread.delta, unread.calls), (None, Vec::new()));
    }

    #[test]
    fn unknown_members_of_deltas_parts_and_calls_are_kept_as_received() {
        let chunk = r#"{"choices":[{"delta":{"content":[{"type":"reference","ids":[1]}],"annotations":[{"a": 1.50}],
            "tool_calls":[{"index":0,"id":"c","function":{}},{"index":1,"extra_content":{"google":{"thought_signature":"s"}}}]}}]}"#;
        let unread = chat(chunk);
        let delta = r#"{"annotations":[{"a": 1.50}],"content":[{"type":"reference","ids":[1]}]}"#;
        assert_eq!(unread.delta.as_deref(), Some(delta));
        let signature = r#"{"extra_content":{"google":{"thought_signature":"s"}}}"#;
        assert_eq!(unread.calls, [None, Some(signature.to_owned())]);
    }

    #[test]
    fn an_object_without_unknown_members_has_nothing_unread() {
        assert_eq!(members(r#"{"type":"text","text":"x","citations":null}"#, &["type", "text"]), None);
        assert_eq!(members("[1]", &[]), None);
    }
}
