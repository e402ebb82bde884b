//! A plain typed parse of provider events, as in a client without checks. The reader is compared with it.

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// The result of a parse.
#[derive(Debug, Clone, Copy)]
pub struct Parsed {
    /// Bytes of text, reasoning and arguments in the event's deltas.
    pub bytes: usize,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de> + Default"))]
#[allow(dead_code, reason = "parsed and not looked at")]
struct Chunk<S> {
    id: S,
    object: S,
    created: u64,
    model: S,
    choices: Vec<Choice<S>>,
    usage: Option<ChatUsage>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "parsed and not looked at")]
struct ChatUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de> + Default"))]
#[allow(dead_code, reason = "parsed and not looked at")]
struct Choice<S> {
    index: u32,
    delta: ChatDelta<S>,
    finish_reason: Option<S>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de> + Default"))]
#[allow(dead_code, reason = "parsed and not looked at")]
struct ChatDelta<S> {
    #[serde(default)]
    role: S,
    #[serde(default)]
    content: S,
    #[serde(default)]
    reasoning_content: S,
    #[serde(default)]
    tool_calls: Vec<ToolCall<S>>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de> + Default"))]
#[allow(dead_code, reason = "parsed and not looked at")]
struct ToolCall<S> {
    index: u32,
    #[serde(default)]
    id: S,
    function: Function<S>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de> + Default"))]
#[allow(dead_code, reason = "parsed and not looked at")]
struct Function<S> {
    #[serde(default)]
    name: S,
    #[serde(default)]
    arguments: S,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de> + Default"))]
#[allow(dead_code, reason = "parsed and not looked at")]
struct ResponseEvent<S> {
    #[serde(rename = "type")]
    kind: S,
    sequence_number: u64,
    #[serde(default)]
    output_index: u32,
    #[serde(default)]
    item_id: S,
    #[serde(default)]
    delta: S,
    #[serde(default)]
    item: Option<Item<S>>,
    #[serde(default)]
    response: Option<Response<S>>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de> + Default"))]
#[allow(dead_code, reason = "parsed and not looked at")]
struct Response<S> {
    id: S,
    model: S,
    output: Vec<Item<S>>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de> + Default"))]
#[allow(dead_code, reason = "parsed and not looked at")]
struct Item<S> {
    #[serde(rename = "type")]
    kind: S,
    #[serde(default)]
    name: S,
    #[serde(default)]
    call_id: S,
    #[serde(default)]
    arguments: S,
    #[serde(default)]
    content: Vec<Part<S>>,
    #[serde(default)]
    summary: Vec<Part<S>>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de> + Default"))]
#[allow(dead_code, reason = "parsed and not looked at")]
struct Part<S> {
    text: S,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de> + Default"))]
#[allow(dead_code, reason = "parsed and not looked at")]
struct MessageEvent<S> {
    #[serde(rename = "type")]
    kind: S,
    #[serde(default)]
    index: u32,
    #[serde(default)]
    delta: Option<MessageDelta<S>>,
    #[serde(default)]
    content_block: Option<Block<S>>,
    #[serde(default)]
    message: Option<Message<S>>,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de> + Default"))]
#[allow(dead_code, reason = "parsed and not looked at")]
struct Message<S> {
    id: S,
    model: S,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de> + Default"))]
#[allow(dead_code, reason = "parsed and not looked at")]
struct Block<S> {
    #[serde(rename = "type")]
    kind: S,
    #[serde(default)]
    id: S,
    #[serde(default)]
    name: S,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de> + Default"))]
#[allow(dead_code, reason = "parsed and not looked at")]
struct MessageDelta<S> {
    #[serde(default, rename = "type")]
    kind: S,
    #[serde(default)]
    text: S,
    #[serde(default)]
    thinking: S,
    #[serde(default)]
    partial_json: S,
    #[serde(default)]
    stop_reason: S,
}

/// A string that is borrowed unless it has escapes, as in the reader's own types.
#[derive(Default)]
struct Borrowed<'a>(Cow<'a, str>);

impl Deref for Borrowed<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Borrowed<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BorrowedVisitor;

        impl<'de> Visitor<'de> for BorrowedVisitor {
            type Value = Borrowed<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Borrowed(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Borrowed(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(BorrowedVisitor)
    }
}

/// The types of each format.
#[derive(Debug, Clone, Copy)]
pub enum Wire {
    /// Chat completions.
    Chat,
    /// Responses.
    Responses,
    /// Messages.
    Messages,
}

impl Wire {
    /// Parses a payload to types with `String`, as most clients do.
    pub fn parse_owned(self, data: &str) -> Parsed {
        self.parse::<String>(data)
    }

    /// Parses a payload to types that borrow from it.
    pub fn parse_borrowed(self, data: &str) -> Parsed {
        self.parse::<Borrowed<'_>>(data)
    }

    fn parse<'a, S: Deserialize<'a> + Default + Deref<Target = str>>(self, data: &'a str) -> Parsed {
        let bytes = match self {
            Self::Chat => chat(&typed::<Chunk<S>>(data)),
            Self::Responses => typed::<ResponseEvent<S>>(data).delta.len(),
            Self::Messages => messages(&typed::<MessageEvent<S>>(data)),
        };
        Parsed { bytes }
    }
}

fn typed<'a, T: Deserialize<'a>>(data: &'a str) -> T {
    serde_json::from_str(data).unwrap_or_else(|error| panic!("{data} is not an event: {error}"))
}

fn chat<S: Deref<Target = str>>(chunk: &Chunk<S>) -> usize {
    let of = |choice: &Choice<S>| {
        let calls: usize = choice.delta.tool_calls.iter().map(|call| call.function.arguments.len()).sum();
        choice.delta.content.len() + choice.delta.reasoning_content.len() + calls
    };
    chunk.choices.iter().map(of).sum()
}

fn messages<S: Deref<Target = str>>(event: &MessageEvent<S>) -> usize {
    let of = |delta: &MessageDelta<S>| delta.text.len() + delta.thinking.len() + delta.partial_json.len();
    event.delta.as_ref().map_or(0, of)
}
