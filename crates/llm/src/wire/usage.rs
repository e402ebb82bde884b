//! Token counts of the three formats.

use super::Count;
use crate::attempt::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Default, Deserialize)]
struct Chat {
    #[serde(default)]
    prompt_tokens: Count,
    #[serde(default)]
    completion_tokens: Count,
    #[serde(default)]
    prompt_tokens_details: Option<CachedDetails>,
    #[serde(default)]
    completion_tokens_details: Option<ReasoningDetails>,
    /// DeepSeek.
    #[serde(default)]
    prompt_cache_hit_tokens: Count,
}

#[derive(Default, Deserialize)]
struct Responses {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    input_tokens_details: Option<CachedDetails>,
    #[serde(default)]
    output_tokens: Count,
    #[serde(default)]
    output_tokens_details: Option<ReasoningDetails>,
}

#[derive(Default, Deserialize)]
struct Messages {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    cache_read_input_tokens: Count,
    #[serde(default)]
    cache_creation_input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
}

#[derive(Default, Deserialize)]
struct CachedDetails {
    #[serde(default)]
    cached_tokens: Count,
}

#[derive(Default, Deserialize)]
struct ReasoningDetails {
    #[serde(default)]
    reasoning_tokens: Count,
}

/// Counts that cannot be read are unknown. They never make the event unreadable.
pub(crate) fn chat(raw: &RawValue) -> Usage {
    let usage: Chat = turnstream_json::from_str(raw.get()).unwrap_or_default();
    let cached = usage.prompt_tokens_details.unwrap_or_default().cached_tokens.0;
    Usage {
        input: usage.prompt_tokens.0,
        cached: cached.or(usage.prompt_cache_hit_tokens.0),
        cache_written: None,
        output: usage.completion_tokens.0,
        reasoning: usage.completion_tokens_details.unwrap_or_default().reasoning_tokens.0,
    }
}

pub(crate) fn responses(raw: &RawValue) -> Usage {
    let usage: Responses = turnstream_json::from_str(raw.get()).unwrap_or_default();
    Usage {
        input: usage.input_tokens.0,
        cached: usage.input_tokens_details.unwrap_or_default().cached_tokens.0,
        cache_written: None,
        output: usage.output_tokens.0,
        reasoning: usage.output_tokens_details.unwrap_or_default().reasoning_tokens.0,
    }
}

/// In this format `input_tokens` excludes tokens that were read from or written to the cache.
pub(crate) fn messages(raw: &RawValue) -> Usage {
    let usage: Messages = turnstream_json::from_str(raw.get()).unwrap_or_default();
    let (read, written) = (usage.cache_read_input_tokens.0, usage.cache_creation_input_tokens.0);
    let plus = |sum: u64, more: Option<u64>| sum.saturating_add(more.unwrap_or(0));
    Usage {
        input: usage.input_tokens.0.map(|input| plus(plus(input, read), written)),
        cached: read,
        cache_written: written,
        output: usage.output_tokens.0,
        reasoning: None,
    }
}
