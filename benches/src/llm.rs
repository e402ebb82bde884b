//! A bare typed parse of provider events, as a client without any checks does it: the measure for the reader.

use serde::Deserialize;
use std::borrow::Cow;

/// What a parse came to.
#[derive(Debug, Clone, Copy)]
pub struct Parsed {
    /// Bytes of text, reasoning and arguments in the event's deltas.
    pub bytes: usize,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "parsed and not looked at")]
struct Chunk<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    object: Cow<'a, str>,
    created: u64,
    #[serde(borrow)]
    model: Cow<'a, str>,
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
    usage: Option<ChatUsage>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "parsed and not looked at")]
struct ChatUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "parsed and not looked at")]
struct Choice<'a> {
    index: u32,
    #[serde(borrow)]
    delta: ChatDelta<'a>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "parsed and not looked at")]
struct ChatDelta<'a> {
    #[serde(borrow, default)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Cow<'a, str>,
    #[serde(borrow, default)]
    reasoning_content: Cow<'a, str>,
    #[serde(borrow, default)]
    tool_calls: Vec<ToolCall<'a>>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "parsed and not looked at")]
struct ToolCall<'a> {
    index: u32,
    #[serde(borrow, default)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "parsed and not looked at")]
struct Function<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    arguments: Cow<'a, str>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "parsed and not looked at")]
struct ResponseEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    sequence_number: u64,
    #[serde(default)]
    output_index: u32,
    #[serde(borrow, default)]
    item_id: Cow<'a, str>,
    #[serde(borrow, default)]
    delta: Cow<'a, str>,
    #[serde(borrow, default)]
    item: Option<Item<'a>>,
    #[serde(borrow, default)]
    response: Option<Response<'a>>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "parsed and not looked at")]
struct Response<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    model: Cow<'a, str>,
    #[serde(borrow)]
    output: Vec<Item<'a>>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "parsed and not looked at")]
struct Item<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    call_id: Cow<'a, str>,
    #[serde(borrow, default)]
    arguments: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Vec<Part<'a>>,
    #[serde(borrow, default)]
    summary: Vec<Part<'a>>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "parsed and not looked at")]
struct Part<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "parsed and not looked at")]
struct MessageEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    index: u32,
    #[serde(borrow, default)]
    delta: Option<MessageDelta<'a>>,
    #[serde(borrow, default)]
    content_block: Option<Block<'a>>,
    #[serde(borrow, default)]
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "parsed and not looked at")]
struct Message<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    model: Cow<'a, str>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "parsed and not looked at")]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    id: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "parsed and not looked at")]
struct MessageDelta<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Cow<'a, str>,
    #[serde(borrow, default)]
    thinking: Cow<'a, str>,
    #[serde(borrow, default)]
    partial_json: Cow<'a, str>,
    #[serde(borrow, default)]
    stop_reason: Cow<'a, str>,
}

fn typed<'a, T: Deserialize<'a>>(data: &'a str) -> T {
    serde_json::from_str(data).unwrap_or_else(|error| panic!("{data} is not an event: {error}"))
}

/// Parses a chunk of chat completions.
pub fn parse_chat(data: &str) -> Parsed {
    let chunk: Chunk<'_> = typed(data);
    let of = |choice: &Choice<'_>| {
        let calls: usize = choice.delta.tool_calls.iter().map(|call| call.function.arguments.len()).sum();
        choice.delta.content.len() + choice.delta.reasoning_content.len() + calls
    };
    Parsed { bytes: chunk.choices.iter().map(of).sum() }
}

/// Parses an event of responses.
pub fn parse_responses(data: &str) -> Parsed {
    let event: ResponseEvent<'_> = typed(data);
    Parsed { bytes: event.delta.len() }
}

/// Parses an event of messages.
pub fn parse_messages(data: &str) -> Parsed {
    let event: MessageEvent<'_> = typed(data);
    let of = |delta: MessageDelta<'_>| delta.text.len() + delta.thinking.len() + delta.partial_json.len();
    Parsed { bytes: event.delta.map_or(0, of) }
}
