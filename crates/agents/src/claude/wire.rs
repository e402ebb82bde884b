//! The lines that Claude Code prints, as far as the adapter reads them. Members that it does not read are
//! skipped, and every member may be missing.

use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use turnstream_json::Piece;
use turnstream_model::event::Usage;

/// One line. Its type and subtype say which members it has.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Line<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) subtype: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) uuid: Cow<'a, str>,
    /// The tool call of the subagent that the line is about.
    pub(super) parent_tool_use_id: Option<String>,
    #[serde(borrow)]
    pub(super) event: Option<StreamEvent<'a>>,
    pub(super) message: Option<Message>,
    pub(super) tool_use_result: Option<Value>,
    #[serde(rename = "isReplay")]
    pub(super) is_replay: bool,
    #[serde(rename = "isSynthetic")]
    pub(super) is_synthetic: bool,
    /// Of an error message of the agent: the kind of the error. Of a retry: what is retried.
    pub(super) error: Option<String>,
    // === system ===
    pub(super) session_id: Option<String>,
    pub(super) model: Option<String>,
    #[serde(rename = "permissionMode")]
    pub(super) permission_mode: Option<String>,
    pub(super) status: Option<String>,
    pub(super) state: Option<String>,
    pub(super) attempt: Option<u32>,
    pub(super) retry_delay_ms: Option<f64>,
    pub(super) error_status: Option<u16>,
    pub(super) task_id: Option<String>,
    pub(super) tool_use_id: Option<String>,
    pub(super) patch: Option<TaskPatch>,
    pub(super) compact_metadata: Option<CompactMetadata>,
    // === rate_limit_event ===
    pub(super) rate_limit_info: Option<RateLimitInfo>,
    // === result ===
    pub(super) is_error: bool,
    pub(super) api_error_status: Option<u16>,
    pub(super) stop_reason: Option<String>,
    pub(super) terminal_reason: Option<String>,
    pub(super) result: Option<String>,
    pub(super) errors: Vec<String>,
    #[serde(rename = "modelUsage")]
    pub(super) model_usage: BTreeMap<String, ModelUsage>,
    pub(super) total_cost_usd: Option<f64>,
    // === control ===
    pub(super) request_id: Option<String>,
    pub(super) request: Option<ControlRequest>,
    pub(super) response: Option<ControlResponse>,
}

/// What a subscription still allows. With an API key Claude Code does not tell it.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RateLimitInfo {
    /// `allowed`, `allowed_warning` or `rejected`.
    pub(super) status: String,
    /// When the limit is over, in seconds.
    pub(super) resets_at: Option<u64>,
}

/// Type and subtype of a line whose other members could not be read.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct LineName {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) subtype: String,
    pub(super) request_id: String,
}

/// One event of a model's stream.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamEvent<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    pub(super) index: usize,
    pub(super) message: Option<Message>,
    pub(super) content_block: Option<Block>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    pub(super) usage: Option<TokenUsage>,
}

/// What a stream event adds.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) text: Option<Piece<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<Piece<'a>>,
    #[serde(borrow)]
    pub(super) partial_json: Option<Piece<'a>>,
    pub(super) stop_reason: Option<String>,
}

/// A message of the model or of the user.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message {
    pub(super) id: String,
    pub(super) model: Option<String>,
    pub(super) content: Content,
    pub(super) stop_reason: Option<String>,
    pub(super) usage: Option<TokenUsage>,
}

/// The content of a message: a text or blocks.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Text(String),
    Blocks(Vec<Block>),
}

/// One content block.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Block {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) text: Option<String>,
    pub(super) thinking: Option<String>,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) input: Option<Value>,
    pub(super) tool_use_id: Option<String>,
    pub(super) content: Option<Value>,
    pub(super) is_error: Option<bool>,
}

/// Tokens of one model call.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TokenUsage {
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    pub(super) cache_read_input_tokens: Option<u64>,
    pub(super) cache_creation_input_tokens: Option<u64>,
}

/// Tokens of one model since the process started, with those of subagents.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ModelUsage {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) cache_read_input_tokens: u64,
    pub(super) cache_creation_input_tokens: u64,
    pub(super) context_window: Option<u64>,
}

/// A change of a background task.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct TaskPatch {
    pub(super) status: Option<String>,
}

/// What a compaction did.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct CompactMetadata {
    pub(super) post_tokens: Option<u64>,
}

/// A request of the agent.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ControlRequest {
    pub(super) subtype: String,
    pub(super) tool_name: String,
    pub(super) input: Value,
    pub(super) permission_suggestions: Vec<Value>,
    pub(super) tool_use_id: Option<String>,
    /// The task of the subagent that asks.
    pub(super) agent_id: Option<String>,
}

/// The agent's answer to a request.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ControlResponse {
    pub(super) subtype: String,
    pub(super) request_id: String,
    pub(super) response: Value,
    pub(super) error: Option<String>,
}

// === impl Line ===

impl Line<'_> {
    /// True for the result of an interrupted turn.
    pub(super) fn is_aborted(&self) -> bool {
        matches!(self.terminal_reason.as_deref(), Some("aborted_streaming" | "aborted_tools"))
    }
}

// === impl Content ===

impl Default for Content {
    fn default() -> Self {
        Self::Blocks(Vec::new())
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of content blocks")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Content, E> {
        Ok(Content::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, blocks: A) -> Result<Content, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(blocks)).map(Content::Blocks)
    }
}

// === impl Block ===

impl Block {
    /// True for a call of a tool, also of one that the provider runs.
    pub(super) fn is_call(&self) -> bool {
        self.kind == "tool_use" || self.kind.ends_with("_tool_use")
    }

    /// True for the result of a call.
    pub(super) fn is_result(&self) -> bool {
        self.kind == "tool_result" || self.kind.ends_with("_tool_result")
    }
}

// === impl TokenUsage ===

impl TokenUsage {
    /// The same numbers; those that are missing come from an earlier report about the same call.
    pub(super) fn or(self, earlier: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.or(earlier.input_tokens),
            output_tokens: self.output_tokens.or(earlier.output_tokens),
            cache_read_input_tokens: self.cache_read_input_tokens.or(earlier.cache_read_input_tokens),
            cache_creation_input_tokens: self
                .cache_creation_input_tokens
                .or(earlier.cache_creation_input_tokens),
        }
    }

    /// The tokens that the context holds after the call.
    pub(super) fn context(self) -> Option<u64> {
        let parts = [self.output_tokens, self.cache_read_input_tokens, self.cache_creation_input_tokens];
        let more = parts.into_iter().flatten().fold(0, u64::saturating_add);
        self.input_tokens.map(|input| input.saturating_add(more))
    }

    /// The numbers in the form of the log.
    pub(super) fn into_usage(self) -> Usage {
        Usage {
            input: self.input_tokens,
            output: self.output_tokens,
            cache_read: self.cache_read_input_tokens,
            cache_write: self.cache_creation_input_tokens,
            ..Usage::default()
        }
    }
}
