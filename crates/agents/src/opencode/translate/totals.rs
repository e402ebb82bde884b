//! Tokens and money of one turn, its subagents included: opencode counts per message, and per step of one.

use crate::opencode::info::{CacheTokens, MessageInfo, Tokens};
use serde_json::Value;
use std::collections::BTreeMap;
use turnstream_model::event::{Cost, Usage};
use turnstream_model::signal::Signal;

/// What one message took. It is stated several times, each time in whole.
#[derive(Clone, Copy, Default, PartialEq)]
struct Taken {
    tokens: Tokens,
    cost: f64,
}

/// The sums of one turn.
#[derive(Default)]
pub(super) struct Totals {
    /// In an order of its own: sums of money depend on it.
    messages: BTreeMap<String, Taken>,
    model: Option<(String, String)>,
    said: Option<(Usage, f64)>,
}

impl Totals {
    /// Takes in what a message took so far; a message repeats its numbers, and a step's are its message's. They only grow: a
    /// message that was asked for a while ago comes after newer events, with zeros (capture m-subagent).
    pub(super) fn count(&mut self, message: &str, tokens: Option<&Tokens>, cost: Option<f64>) {
        let taken = self.messages.entry(message.to_owned()).or_default();
        if let Some(tokens) = tokens {
            taken.tokens = most(&taken.tokens, tokens);
        }
        taken.cost = cost.map_or(taken.cost, |cost| cost.max(taken.cost));
    }

    /// Notes which model answers.
    pub(super) fn answered_by(&mut self, info: &MessageInfo) {
        if let (Some(provider), Some(model)) = (&info.provider, &info.model) {
            self.model = Some((provider.clone(), model.clone()));
        }
    }

    /// The sums, if they changed since they were last said.
    pub(super) fn news(&mut self) -> Option<Signal> {
        let cost = self.cost();
        let usage = self.usage();
        if self.is_nothing() || self.said.as_ref() == Some(&(usage.clone(), cost)) {
            return None;
        }
        self.said = Some((usage.clone(), cost));
        Some(Signal::Usage { usage: Some(usage), cost: Some(dollars(cost)), context: None })
    }

    /// All tokens of the turn, for a limit.
    pub(super) fn tokens(&self) -> u64 {
        self.messages.values().fold(0, |sum, taken| u64::saturating_add(sum, whole(all(&taken.tokens))))
    }

    /// All money of the turn, for a limit.
    pub(super) fn cost(&self) -> f64 {
        let sum: f64 = self.messages.values().map(|taken| taken.cost).sum();
        // What is smaller than that is not money but the error of adding floats.
        (sum * 1e12).round() / 1e12
    }

    fn is_nothing(&self) -> bool {
        self.messages.values().all(|taken| *taken == Taken::default())
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

/// The tokens of one call, as the log has them.
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

/// Money, as the log has it: opencode counts dollars.
pub(super) fn dollars(amount: f64) -> Cost {
    Cost { amount, currency: "USD".to_owned(), extra: serde_json::Map::new() }
}

/// The larger number of each.
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

/// A count that JSON may have written as a float; what is no count is nothing.
fn whole(count: f64) -> u64 {
    // A cast of a float saturates, and not-a-number is zero.
    count as u64
}
