//! Tokens of model calls. Codex counts per thread, so a call is the difference of two totals.
//!
//! Its numbers are wrong in three cases. After a context overflow the total is the size of the context, with
//! no tokens in or out (capture `f_context_window`). After an answer that was cut by its limit, `last` is
//! zero (`m_incomplete`). After a compaction, `last` is an estimate of the context (`m_compact`).

use super::wire::{TokenUsage, Tokens};
use serde_json::Map;
use turnstream_model::event::{Context, Usage};

/// The tokens of one thread.
#[derive(Default)]
pub(super) struct ThreadUsage {
    /// The last total; `None` for a thread with earlier calls, until Codex reports one.
    total: Option<Tokens>,
}

/// A model call that Codex has counted.
pub(super) struct CountedCall {
    pub(super) usage: Usage,
    /// The call ended as it should: its own numbers say so too.
    pub(super) complete: bool,
}

impl ThreadUsage {
    /// Of a thread without any call.
    pub(super) fn new() -> Self {
        Self { total: Some(Tokens::default()) }
    }

    /// The call since the last report; `None` if nothing was counted, or the totals cannot be compared.
    pub(super) fn count(&mut self, report: &TokenUsage) -> Option<CountedCall> {
        let call = match self.total.replace(report.total) {
            Some(before) => since(report.total, before)?,
            None => since(report.last, Tokens::default())?,
        };
        let complete = call == report.last;
        Some(CountedCall { usage: in_log(call), complete })
    }

    /// The total of a thread that goes on: it belongs to earlier calls.
    pub(super) fn resume(&mut self, total: Tokens) {
        self.total = Some(total);
    }
}

/// Tokens in the form of the log, which has no number in another one.
pub(super) fn in_log(tokens: Tokens) -> Usage {
    Usage {
        input: Some(tokens.input_tokens.saturating_sub(tokens.cached_input_tokens)),
        output: Some(tokens.output_tokens.saturating_sub(tokens.reasoning_output_tokens)),
        reasoning: Some(tokens.reasoning_output_tokens),
        cache_read: Some(tokens.cached_input_tokens),
        cache_write: Some(tokens.cache_write_input_tokens),
        ..Usage::default()
    }
}

/// How full the context is, as far as Codex tells.
pub(super) fn context(report: &TokenUsage) -> Option<Context> {
    let used = Some(report.last.total_tokens).filter(|used| *used > 0)?;
    Some(Context { used: Some(used), size: report.model_context_window, extra: Map::new() })
}

/// The difference; `None` if there is none, or if a number has shrunk.
fn since(now: Tokens, before: Tokens) -> Option<Tokens> {
    let call = Tokens {
        total_tokens: now.total_tokens.checked_sub(before.total_tokens)?,
        input_tokens: now.input_tokens.checked_sub(before.input_tokens)?,
        cached_input_tokens: now.cached_input_tokens.checked_sub(before.cached_input_tokens)?,
        cache_write_input_tokens: now
            .cache_write_input_tokens
            .checked_sub(before.cache_write_input_tokens)?,
        output_tokens: now.output_tokens.checked_sub(before.output_tokens)?,
        reasoning_output_tokens: now.reasoning_output_tokens.checked_sub(before.reasoning_output_tokens)?,
    };
    (call.input_tokens > 0 || call.output_tokens > 0).then_some(call)
}
