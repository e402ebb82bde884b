//! What a model says: completions of text, reasoning and tool calls, or a refusal, or raw bytes.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// One answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// A completion in the wire format that was asked for, streamed or whole as asked.
    Completion(Completion),
    /// An error body of that wire format under a status. Status 200 is the error JSON inside a 200.
    Refusal(Refusal),
    /// Bytes as they are: an HTML page, a captured stream.
    Raw(Raw),
}

/// What the model produced, and what it cost.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Completion {
    /// In order.
    #[serde(default)]
    pub parts: Vec<Part>,
    /// Token counts.
    #[serde(default)]
    pub usage: Usage,
    /// Why it stopped. Default: tool calls if there are any, else stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<Finish>,
}

/// One thing a model produced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Part {
    /// Visible text.
    Text {
        /// The text and its deltas.
        text: Pieces,
    },
    /// Reasoning: `reasoning_content`, a reasoning summary, or a signed thinking block.
    Reasoning {
        /// The text and its deltas.
        text: Pieces,
    },
    /// A tool call. Several in one completion are parallel calls.
    ToolCall {
        /// The tool. In the Responses format `SPACE/TOOL` is a tool of a namespace.
        name: String,
        /// The arguments and their deltas.
        arguments: Arguments,
        /// The call id. Default: made from the request's identity.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    },
}

/// Text and how it is cut into deltas. In JSON a string, or an array of strings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Pieces {
    /// Deltas of [`AUTOMATIC_DELTA`] characters.
    Automatic(String),
    /// Exactly these deltas.
    Given(Vec<String>),
}

/// Tool arguments and how they are cut into deltas. In JSON an object, or an array of strings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Arguments {
    /// Exactly these deltas, valid JSON together or not.
    Given(Vec<String>),
    /// This JSON in compact form, in deltas of [`AUTOMATIC_DELTA`] characters.
    Automatic(Value),
}

/// Characters per delta where the script does not say.
pub const AUTOMATIC_DELTA: usize = 12;

/// Token counts as the wire formats report them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Input tokens, cached ones included.
    pub input: u64,
    /// Of those, read from the cache.
    #[serde(default)]
    pub cached: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Of those, reasoning.
    #[serde(default)]
    pub reasoning: u64,
}

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It was done.
    Stop,
    /// It wants tools run.
    ToolCalls,
    /// It ran out of output tokens.
    Length,
    /// A filter stopped it.
    ContentFilter,
    /// A word no client knows.
    Other(String),
    /// It does not say: the stream ends in order on the transport, without a finish and without the terminal
    /// event of its format.
    Missing,
}

/// An error answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// What the body says.
    pub error: ErrorBody,
    /// When to come back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<RetryAfter>,
    /// More headers, like those in which a provider tells its limits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// The error inside a body or an in-band event. Each wire format wraps it in its own way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorBody {
    /// `server_error`, `overloaded_error`, `rate_limit_error` …
    #[serde(rename = "type")]
    pub kind: String,
    /// For a person.
    pub message: String,
    /// `rate_limit_exceeded`, `insufficient_quota` …; the Messages format has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// The three ways providers say when to come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryAfter {
    /// `retry-after: 7`
    Seconds(u64),
    /// `retry-after:` with the HTTP date this many seconds after the request.
    Date(u64),
    /// `retry-after-ms: 1500`
    Millis(u64),
}

/// A body as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Raw {
    /// The HTTP status.
    pub status: u16,
    /// The `content-type`.
    pub content_type: String,
    /// The body.
    pub body: Bytes,
}

/// Bytes. In JSON a string, or an array of numbers where they are not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Bytes {
    /// UTF-8.
    Text(String),
    /// Anything.
    Binary(Vec<u8>),
}

// === impl Completion ===

impl Completion {
    /// These parts, with default usage and the finish they imply.
    pub fn of(parts: impl IntoIterator<Item = Part>) -> Self {
        Self { parts: parts.into_iter().collect(), ..Self::default() }
    }

    /// Only this text.
    pub fn text(text: &str) -> Self {
        Self::of([Part::text(text)])
    }

    /// Why it stopped, implied or said.
    pub fn finish(&self) -> Finish {
        let calls = self.parts.iter().any(|part| matches!(part, Part::ToolCall { .. }));
        let implied = if calls { Finish::ToolCalls } else { Finish::Stop };
        self.finish.clone().unwrap_or(implied)
    }

    /// With another finish than the parts imply.
    #[must_use]
    pub fn finished(mut self, finish: Finish) -> Self {
        self.finish = Some(finish);
        self
    }
}

// === impl Part ===

impl Part {
    /// Text in automatic deltas.
    pub fn text(text: &str) -> Self {
        Self::Text { text: Pieces::Automatic(text.to_owned()) }
    }

    /// Reasoning in automatic deltas.
    pub fn reasoning(text: &str) -> Self {
        Self::Reasoning { text: Pieces::Automatic(text.to_owned()) }
    }

    /// A tool call with these arguments in automatic deltas.
    pub fn tool_call(name: &str, arguments: Value) -> Self {
        Self::ToolCall { name: name.to_owned(), arguments: Arguments::Automatic(arguments), id: None }
    }
}

// === impl Pieces and Arguments ===

impl Pieces {
    /// The deltas in order.
    pub fn deltas(&self) -> Vec<String> {
        match self {
            Self::Automatic(text) => automatic_deltas(text),
            Self::Given(deltas) => deltas.clone(),
        }
    }
}

impl Arguments {
    /// The deltas in order.
    pub fn deltas(&self) -> Vec<String> {
        match self {
            Self::Automatic(json) => automatic_deltas(&json.to_string()),
            Self::Given(deltas) => deltas.clone(),
        }
    }
}

fn automatic_deltas(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(AUTOMATIC_DELTA).map(|delta| delta.iter().collect()).collect()
}

// === impl Usage ===

impl Default for Usage {
    fn default() -> Self {
        Self { input: 100, cached: 0, output: 10, reasoning: 0 }
    }
}

// === impl Refusal and ErrorBody ===

impl Refusal {
    /// An error of this kind under this status.
    pub fn new(status: u16, kind: &str, message: &str) -> Self {
        Self { status, error: ErrorBody::new(kind, message), retry_after: None, headers: BTreeMap::new() }
    }

    /// That says when to come back.
    #[must_use]
    pub fn retry_after(mut self, when: RetryAfter) -> Self {
        self.retry_after = Some(when);
        self
    }

    /// With one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }
}

impl ErrorBody {
    /// An error of this kind.
    pub fn new(kind: &str, message: &str) -> Self {
        Self { kind: kind.to_owned(), message: message.to_owned(), code: None }
    }
}

// === impl Bytes ===

impl Bytes {
    /// The bytes themselves.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Binary(bytes) => bytes,
        }
    }
}

impl From<&str> for Bytes {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

// === impl From for Reply ===

impl From<Completion> for Reply {
    fn from(completion: Completion) -> Self {
        Self::Completion(completion)
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

impl From<Raw> for Reply {
    fn from(raw: Raw) -> Self {
        Self::Raw(raw)
    }
}
