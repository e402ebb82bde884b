//! Tokens and cost of a turn. Claude Code counts per process, with subagents, so a turn is the difference of
//! two results.

use super::stored_line::StoredLine;
use super::wire::{Line, ModelUsage};
use serde::{Deserialize, Serialize};
use serde_json::Map;
use std::collections::BTreeMap;
use turnstream_model::event::{Cost, Usage};

/// Tokens and cost of a turn, as far as they are known.
pub(super) type Used = (Option<Usage>, Option<Cost>);

/// The counts of a process at its last result.
#[derive(Default)]
pub(super) struct ProcessUsage {
    pub(super) totals: Totals,
    /// The size of the context of the model in use.
    pub(super) context_size: Option<u64>,
}

/// What a process has counted since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Totals {
    tokens: Tokens,
    cost: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Tokens {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

impl ProcessUsage {
    /// What the turn of this result used. Nothing counted means unknown: an interrupted call is counted as
    /// zero.
    pub(super) fn turn(&mut self, result: &Line<'_>, model: Option<&str>) -> Used {
        let cost = result.total_cost_usd.unwrap_or(self.totals.cost);
        let totals = Totals::new(&result.model_usage, cost);
        let known = model.and_then(|model| result.model_usage.get(model));
        let used = known.or_else(|| result.model_usage.values().next());
        self.context_size = used.and_then(|used| used.context_window).or(self.context_size);
        totals.since(std::mem::replace(&mut self.totals, totals))
    }
}

impl Totals {
    pub(super) fn new(models: &BTreeMap<String, ModelUsage>, cost: f64) -> Self {
        Self { tokens: sum(models), cost }
    }

    /// The totals that a transcript has last. A process that resumes its session begins with them (seen in
    /// 2.1.325; 2.1.197 stores none and begins at zero).
    pub(super) fn stored_in(transcript: &[u8]) -> Option<Self> {
        StoredLine::read(transcript).filter_map(|line| line.totals()).last()
    }

    /// What was used since then; `None` if nothing was counted.
    pub(super) fn since(self, before: Self) -> Used {
        // Smaller differences are rounding errors of floats.
        let amount = ((self.cost - before.cost) * 1e12).round() / 1e12;
        let cost = (amount > 0.0).then(|| Cost { amount, currency: "USD".to_owned(), extra: Map::new() });
        (self.tokens.since(before.tokens), cost)
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
