//! Tokens and cost of a turn. Claude Code counts per process, with subagents, so a turn is the difference of
//! two results.

use super::wire::{Line, ModelUsage};
use serde::Deserialize;
use serde_json::Map;
use std::collections::BTreeMap;
use turnstream_model::event::{Cost, Usage};

/// The counts of a process at its last result.
#[derive(Default)]
pub(super) struct ProcessUsage {
    tokens: Tokens,
    cost: f64,
    /// The size of the context of the model in use.
    pub(super) context_size: Option<u64>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Tokens {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

/// The line of a transcript in which Claude Code stores its totals. A process that resumes the session goes
/// on from there (seen in 2.1.325; 2.1.197 stores none and begins at zero).
#[derive(Default, Deserialize)]
#[serde(default)]
struct StoredTotals {
    #[serde(rename = "type")]
    kind: String,
    #[serde(rename = "totalCostUSD")]
    cost: f64,
    #[serde(rename = "modelUsage")]
    models: BTreeMap<String, ModelUsage>,
}

impl ProcessUsage {
    /// The counts with which a process begins that resumes the session of this transcript.
    pub(super) fn stored_in(transcript: &[u8]) -> Self {
        let lines = transcript.split(|byte| *byte == b'\n').rev();
        let mut totals = lines.filter_map(|line| turnstream_json::from_slice::<StoredTotals>(line).ok());
        let totals = totals.find(|totals| totals.kind == "cost-state").unwrap_or_default();
        Self { tokens: sum(&totals.models), cost: totals.cost, context_size: None }
    }

    /// What the turn of this result used. Nothing counted means unknown: an interrupted call is counted as
    /// zero.
    pub(super) fn turn(&mut self, result: &Line<'_>, model: Option<&str>) -> (Option<Usage>, Option<Cost>) {
        let tokens = sum(&result.model_usage);
        let before = std::mem::replace(&mut self.tokens, tokens);
        let known = model.and_then(|model| result.model_usage.get(model));
        let used = known.or_else(|| result.model_usage.values().next());
        self.context_size = used.and_then(|used| used.context_window).or(self.context_size);
        let usage = tokens.since(before);
        let cost = result.total_cost_usd.and_then(|total| {
            let before = std::mem::replace(&mut self.cost, total);
            // Smaller differences are rounding errors of floats.
            let amount = ((total - before) * 1e12).round() / 1e12;
            (amount > 0.0).then(|| Cost { amount, currency: "USD".to_owned(), extra: Map::new() })
        });
        (usage, cost)
    }
}

impl Tokens {
    /// The difference; `None` if nothing was counted.
    fn since(self, before: Self) -> Option<Usage> {
        (self != before).then(|| Usage {
            input: Some(self.input.saturating_sub(before.input)),
            output: Some(self.output.saturating_sub(before.output)),
            cache_read: Some(self.cache_read.saturating_sub(before.cache_read)),
            cache_write: Some(self.cache_write.saturating_sub(before.cache_write)),
            ..Usage::default()
        })
    }
}

fn sum(models: &BTreeMap<String, ModelUsage>) -> Tokens {
    models.values().fold(Tokens::default(), |sum, model| Tokens {
        input: sum.input.saturating_add(model.input_tokens),
        output: sum.output.saturating_add(model.output_tokens),
        cache_read: sum.cache_read.saturating_add(model.cache_read_input_tokens),
        cache_write: sum.cache_write.saturating_add(model.cache_creation_input_tokens),
    })
}
