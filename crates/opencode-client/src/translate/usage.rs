//! Tokens and cost of one turn, with those of subagents. opencode counts per message and per step.

use crate::info::{CacheTokens, MessageInfo, Tokens};
use serde_json::Value;
use std::collections::BTreeMap;
use turnstream_model::event::{Cost, Usage};
use turnstream_model::signal::Signal;

/// Tokens and cost of one message. opencode reports them several times, always as totals.
#[derive(Clone, Copy, Default, PartialEq)]
struct MessageUsage {
    tokens: Tokens,
    cost: f64,
}

/// The sums of one turn.
#[derive(Default)]
pub(super) struct TurnUsage {
    /// Sorted: a sum of floats depends on the order.
    messages: BTreeMap<String, MessageUsage>,
    model: Option<(String, String)>,
    reported: Option<(Usage, f64)>,
}

impl TurnUsage {
    /// Notes the numbers of a message. They never decrease: a fetched message may come after newer events,
    /// with zeros (capture m-subagent).
    pub(super) fn count(&mut self, message: &str, tokens: Option<&Tokens>, cost: Option<f64>) {
        let taken = self.messages.entry(message.to_owned()).or_default();
        if let Some(tokens) = tokens {
            taken.tokens = most(&taken.tokens, tokens);
        }
        taken.cost = cost.map_or(taken.cost, |cost| cost.max(taken.cost));
    }

    /// Notes the model.
    pub(super) fn answered_by(&mut self, info: &MessageInfo) {
        if let (Some(provider), Some(model)) = (&info.provider, &info.model) {
            self.model = Some((provider.clone(), model.clone()));
        }
    }

    /// The sums, if they changed since they were last reported.
    pub(super) fn changes(&mut self) -> Option<Signal> {
        let cost = self.cost();
        let usage = self.usage();
        if self.is_nothing() || self.reported.as_ref() == Some(&(usage.clone(), cost)) {
            return None;
        }
        self.reported = Some((usage.clone(), cost));
        Some(Signal::Usage { usage: Some(usage), cost: Some(dollars(cost)), context: None })
    }

    /// All tokens of the turn, for a limit.
    pub(super) fn tokens(&self) -> u64 {
        self.messages.values().fold(0, |sum, taken| u64::saturating_add(sum, whole(all(&taken.tokens))))
    }

    /// All money of the turn, for a limit.
    pub(super) fn cost(&self) -> f64 {
        let sum: f64 = self.messages.values().map(|taken| taken.cost).sum();
        // Smaller amounts are rounding errors of the sum.
        (sum * 1e12).round() / 1e12
    }

    fn is_nothing(&self) -> bool {
        self.messages.values().all(|taken| *taken == MessageUsage::default())
    }

    fn usage(&self) -> Usage {
        let sum = |of: fn(&Tokens) -> f64| {
            Some(
                self.messages
                    .values()
                    .fold(0, |sum: u64, taken| sum.saturating_add(whole(of(&taken.tokens)))),
            )
        };
        let mut usage = Usage {
            input: sum(|tokens| tokens.input),
            output: sum(|tokens| tokens.output),
            reasoning: sum(|tokens| tokens.reasoning),
            cache_read: sum(|tokens| tokens.cache.read),
            cache_write: sum(|tokens| tokens.cache.write),
            ..Usage::default()
        };
        usage.extra.insert("total".to_owned(), Value::from(self.tokens()));
        if let Some((provider, model)) = &self.model {
            usage.extra.insert("provider".to_owned(), Value::from(provider.as_str()));
            usage.extra.insert("model".to_owned(), Value::from(model.as_str()));
        }
        usage
    }
}

/// The tokens of one model call.
pub(super) fn usage_of(tokens: &Tokens) -> Usage {
    Usage {
        input: Some(whole(tokens.input)),
        output: Some(whole(tokens.output)),
        reasoning: Some(whole(tokens.reasoning)),
        cache_read: Some(whole(tokens.cache.read)),
        cache_write: Some(whole(tokens.cache.write)),
        ..Usage::default()
    }
}

/// A cost in dollars.
pub(super) fn dollars(amount: f64) -> Cost {
    Cost { amount, currency: "USD".to_owned(), extra: serde_json::Map::new() }
}

/// The larger value of each count.
fn most(one: &Tokens, other: &Tokens) -> Tokens {
    let total = match (one.total, other.total) {
        (Some(one), Some(other)) => Some(one.max(other)),
        (one, other) => one.or(other),
    };
    Tokens {
        total,
        input: one.input.max(other.input),
        output: one.output.max(other.output),
        reasoning: one.reasoning.max(other.reasoning),
        cache: CacheTokens {
            read: one.cache.read.max(other.cache.read),
            write: one.cache.write.max(other.cache.write),
        },
    }
}

fn all(tokens: &Tokens) -> f64 {
    let parts = tokens.input + tokens.output + tokens.reasoning + tokens.cache.read + tokens.cache.write;
    tokens.total.unwrap_or(parts)
}

/// A count that may have been written as a float. A cast saturates, and not-a-number becomes zero.
fn whole(count: f64) -> u64 {
    count as u64
}
