//! What the model calls of one turn took together, as the log says it, and whether the end of the turn says less.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

const MEMBERS: [&str; 5] = ["input", "output", "reasoning", "cache_read", "cache_write"];

/// Sums of money that differ by less are the same: adding floats in another order gives another last digit.
const SAME_MONEY: f64 = 1e-9;

/// The sums of one turn. A repeated call took what it took, so the calls it superseded count too.
#[derive(Default)]
pub(super) struct Spent {
    tokens: BTreeMap<&'static str, u64>,
    money: BTreeMap<String, f64>,
}

impl Spent {
    /// Takes in the end of a model call.
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

    /// Every way in which the end of the turn says less than its calls. Only an end that promises its sums is held to them:
    /// earlier versions wrote the agent's own total, whatever it was.
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
