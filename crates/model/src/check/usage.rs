//! The tokens and cost of a turn's model calls. The end of the turn must not state less.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

const MEMBERS: [&str; 5] = ["input", "output", "reasoning", "cache_read", "cache_write"];

/// Costs that differ by less are equal: the order in which floats are added changes the last digits.
const SAME_MONEY: f64 = 1e-9;

/// The sums of one turn. Superseded calls count too, because they were made.
#[derive(Default)]
pub(super) struct UsageSums {
    tokens: BTreeMap<&'static str, u64>,
    money: BTreeMap<String, f64>,
}

impl UsageSums {
    /// Adds a model call that ended.
    pub(super) fn add(&mut self, ended: &Map<String, Value>) {
        for member in MEMBERS {
            if let Some(tokens) = tokens(ended, member) {
                let sum = self.tokens.entry(member).or_default();
                *sum = sum.saturating_add(tokens);
            }
        }
        if let Some((currency, amount)) = money(ended) {
            *self.money.entry(currency.to_owned()).or_default() += amount;
        }
    }

    /// What the end of the turn states too low. Only an end with `summed` is checked: earlier versions
    /// wrote the agent's own total.
    pub(super) fn shortfalls(&self, ended: &Map<String, Value>) -> Vec<String> {
        if ended.get("summed").and_then(Value::as_bool) != Some(true) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (member, sum) in &self.tokens {
            match tokens(ended, member) {
                Some(said) if said >= *sum => {}
                Some(said) => found.push(format!("says usage.{member} {said}, and its attempts took {sum}")),
                None => found.push(format!("has no usage.{member}, and its attempts took {sum}")),
            }
        }
        match money(ended) {
            Some((currency, said)) => {
                let sum = self.money.get(currency).copied().unwrap_or_default();
                if said < sum - SAME_MONEY * sum.abs().max(1.0) {
                    found.push(format!("says cost {said} {currency}, and its attempts took {sum}"));
                }
            }
            None => found.extend(
                self.money
                    .iter()
                    .map(|(currency, sum)| format!("has no cost, and its attempts took {sum} {currency}")),
            ),
        }
        found
    }
}

fn tokens(event: &Map<String, Value>, member: &str) -> Option<u64> {
    event.get("usage")?.get(member)?.as_u64()
}

fn money(event: &Map<String, Value>) -> Option<(&str, f64)> {
    let cost = event.get("cost")?;
    Some((cost.get("currency")?.as_str()?, cost.get("amount")?.as_f64()?))
}
