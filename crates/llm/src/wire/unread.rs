//! Members that the readers do not know, kept as received.

use super::chat::{Content, Delta, FunctionDelta, ToolDelta};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

type Members<'a> = BTreeMap<String, &'a RawValue>;

/// What is not read of a choice of a chat chunk.
#[derive(Debug, Default)]
pub(crate) struct UnreadChoice {
    /// Of the delta.
    pub(crate) delta: Option<String>,
    /// Of its tool calls, in their order.
    pub(crate) calls: Vec<Option<String>>,
}

#[derive(Default, Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
}

/// What is not read of each choice of a chat chunk.
pub(crate) fn chat(data: &str) -> Vec<UnreadChoice> {
    let chunk: Chunk<'_> = turnstream_json::from_str(data).unwrap_or_default();
    let choices = chunk.choices.into_iter().flatten();
    choices.map(|choice| choice.delta.and_then(|raw| unread_of(raw.get())).unwrap_or_default()).collect()
}

fn unread_of(delta: &str) -> Option<UnreadChoice> {
    let mut delta: Members<'_> = turnstream_json::from_str(delta).ok()?;
    let calls: Option<Vec<&RawValue>> =
        delta.get("tool_calls").and_then(|raw| turnstream_json::from_str(raw.get()).ok());
    let calls = calls.into_iter().flatten().map(|call| of_call(call.get())).collect();
    delta.retain(|name, raw| match name.as_str() {
        "content" => has_unread_parts(raw.get()),
        "function_call" => members(raw.get(), FunctionDelta::MEMBERS).is_some(),
        name => !Delta::MEMBERS.contains(&name),
    });
    Some(UnreadChoice { delta: rest(delta, &[]), calls })
}

/// What is not read of a call, with what is not read of its function.
fn of_call(call: &str) -> Option<String> {
    let mut call: Members<'_> = turnstream_json::from_str(call).ok()?;
    let function = call.get("function").and_then(|raw| members(raw.get(), FunctionDelta::MEMBERS));
    let function = function.and_then(|raw| RawValue::from_string(raw).ok());
    call.retain(|name, _| !ToolDelta::MEMBERS.contains(&name.as_str()));
    call.extend(function.as_deref().map(|raw| ("function".to_owned(), raw)));
    rest(call, &[])
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
pub(crate) fn has_content(raw: &str) -> bool {
    match raw.as_bytes() {
        [b'"', inner @ .., b'"'] => !inner.is_empty(),
        [b'[', inner @ .., b']'] | [b'{', inner @ .., b'}'] => !inner.trim_ascii().is_empty(),
        _ => false,
    }
}

fn has_unread_parts(content: &str) -> bool {
    turnstream_json::from_str::<Content<'_>>(content).is_ok_and(|content| content.has_unread())
}

#[cfg(test)]
mod tests {
    use super::{UnreadChoice, chat, members};
    use crate::wire;
    use crate::wire::chat::{Choice, Delta};

    fn of_first(chunk: &str) -> UnreadChoice {
        chat(chunk).into_iter().next().expect("a choice")
    }

    #[test]
    fn what_is_known_or_empty_is_not_kept() {
        let chunk = r#"{"choices":[{"delta":{"role":"assistant","content":"x","audio":null,"images":[],"token_id":7}}]}"#;
        let unread = of_first(chunk);
        assert_eq!((unread.delta, unread.calls), (None, Vec::new()));
    }

    #[test]
    fn unknown_members_of_deltas_parts_and_calls_are_kept_as_received() {
        let chunk = r#"{"choices":[{"delta":{"content":[{"type":"reference","ids":[1]}],"annotations":[{"a": 1.50}],
            "tool_calls":[{"index":0,"id":"c","function":{}},{"index":1,"extra_content":{"google":{"thought_signature":"s"}}}]}}]}"#;
        let unread = of_first(chunk);
        let delta = r#"{"annotations":[{"a": 1.50}],"content":[{"type":"reference","ids":[1]}]}"#;
        assert_eq!(unread.delta.as_deref(), Some(delta));
        let signature = r#"{"extra_content":{"google":{"thought_signature":"s"}}}"#;
        assert_eq!(unread.calls, [None, Some(signature.to_owned())]);
    }

    /// Whether each choice of a chunk has something unread, as the reader notes it. `None` if it is no chunk.
    /// Fails if something else is kept.
    fn noted(chunk: &str) -> Option<Vec<bool>> {
        let read: wire::chat::Chunk<'_> = turnstream_json::from_str(chunk).ok()?;
        let of_choice = |choice: &Choice<'_>| choice.delta.as_ref().is_some_and(Delta::has_unread);
        let noted: Vec<bool> = read.choices.list().iter().map(of_choice).collect();
        let is_kept = |UnreadChoice { delta, calls }| delta.is_some() || calls.iter().any(Option::is_some);
        let kept: Vec<bool> = chat(chunk).into_iter().map(is_kept).collect();
        assert_eq!(noted, kept, "{chunk}");
        Some(noted)
    }

    #[test]
    fn the_reader_notes_exactly_what_is_kept_of_the_fixtures() {
        let payloads = wire::quick::tests::payloads("chat");
        let chunks = payloads.iter().filter(|payload| noted(payload).is_some()).count();
        assert!(2 * chunks > payloads.len(), "{chunks} of {}", payloads.len());
    }

    /// Known and unknown members with every kind of value, in every object of a delta.
    #[test]
    fn the_reader_notes_exactly_what_is_kept_of_any_member() {
        let values =
            ["7", "null", "true", "\"\"", "\"x\"", "\"text\"", "[]", "[ ]", "[1]", "{}", "{\"a\":1}"];
        let names =
            "type text thinking id index role content reasoning refusal function name arguments images";
        let (mut unread, mut read) = (0, 0);
        for name in names.split_ascii_whitespace() {
            for value in values {
                let member = format!("\"{name}\":{value}");
                let part = format!("{{\"type\":\"thinking\",\"thinking\":[{{{member}}}]}}");
                for delta in [
                    member.clone(),
                    format!("\"content\":[{{\"type\":\"text\"}},{{{member}}}]"),
                    format!("\"content\":[{part}]"),
                    format!("\"tool_calls\":[{{}},{{{member}}}]"),
                    format!("\"tool_calls\":[{{\"function\":{{{member}}}}}]"),
                    format!("\"function_call\":{{{member}}}"),
                    format!("\"tool_calls\":[[],{{\"id\":\"c\",\"function\":{{}},\"x\":{value}}}]"),
                ] {
                    let chunk = format!("{{\"choices\":[{{\"delta\":{{{delta}}}}}]}}");
                    match noted(&chunk).as_deref() {
                        Some([true]) => unread += 1,
                        Some(_) => read += 1,
                        None => {}
                    }
                }
            }
        }
        assert!(unread > 100 && read > 100, "{unread} and {read}");
    }

    #[test]
    fn the_type_of_a_part_may_be_anything() {
        for (part, is_unread) in [
            (r#"{"type":"text","text":"hi"}"#, false),
            (r#"{"type":"t\u0065xt","text":"hi"}"#, false),
            (r#"{"type":null,"text":"hi"}"#, false),
            (r#"{"type":"text","type":"text","text":"hi"}"#, false),
            (r#"{"type":7,"text":"hi"}"#, true),
            (r#"{"type":["text"],"text":"hi"}"#, true),
            (r#"{"type":"text","type":"output_text","text":"hi"}"#, true),
        ] {
            let chunk = format!("{{\"choices\":[{{\"delta\":{{\"content\":[{part}]}}}}]}}");
            assert_eq!(noted(&chunk), Some(vec![is_unread]), "{part}");
        }
    }

    #[test]
    fn an_object_without_unknown_members_has_nothing_unread() {
        assert_eq!(members(r#"{"type":"text","text":"x","citations":null}"#, &["type", "text"]), None);
        assert_eq!(members("[1]", &[]), None);
    }
}
