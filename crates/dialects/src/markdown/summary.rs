//! The end of a page: tokens, cost and counts.

use super::Page;
use super::text::inline;
use std::collections::BTreeMap;
use turnstream_model::event::{Outcome, Usage};
use turnstream_model::fold::State;

pub(super) fn write(state: &State, page: &mut Page) {
    if state.turns.is_empty() {
        return;
    }
    let mut usage = Usage::default();
    let mut cost: BTreeMap<&str, f64> = BTreeMap::new();
    for turn in &state.turns {
        turn.usage.iter().for_each(|of_turn| usage.add(of_turn));
        if let Some(of_turn) = &turn.cost {
            *cost.entry(&of_turn.currency).or_default() += of_turn.amount;
        }
    }
    let mut table = format!("| | |\n|---|---|\n| Turns | {} |", turns(state));
    if let Some(tokens) = tokens(&usage) {
        table.push_str(&format!("\n| Tokens | {tokens} |"));
    }
    let cost: Vec<String> = cost.iter().map(|(currency, amount)| money(*amount, currency)).collect();
    if !cost.is_empty() {
        table.push_str(&format!("\n| Cost | {} |", cost.join(", ")));
    }
    page.block("---");
    page.block(&table);
}

/// How many there were, and how many of them did not come to their end.
fn turns(state: &State) -> String {
    let count = |outcome| state.turns.iter().filter(|turn| turn.outcome == Some(outcome)).count();
    let others = [
        (count(Outcome::Cancelled), "cancelled"),
        (count(Outcome::Failed), "failed"),
        (count(Outcome::Lost), "lost"),
    ];
    let others: Vec<String> = others
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    match others.is_empty() {
        true => state.turns.len().to_string(),
        false => format!("{}, of which {}", state.turns.len(), others.join(", ")),
    }
}

fn tokens(usage: &Usage) -> Option<String> {
    let Usage { input, output, reasoning, cache_read, cache_write, extra: _ } = usage;
    let always = [(*input, "in"), (*output, "out")];
    let if_any = [
        (*reasoning, "thinking"),
        (*cache_read, "read from the cache"),
        (*cache_write, "written to the cache"),
    ];
    let if_any = if_any.map(|(count, word)| (count.filter(|count| *count > 0), word));
    let known =
        always.into_iter().chain(if_any).filter_map(|(count, word)| Some(format!("{} {word}", count?)));
    let known: Vec<String> = known.collect();
    (!known.is_empty()).then(|| known.join(", "))
}

/// Small amounts with the digits that matter.
fn money(amount: f64, currency: &str) -> String {
    let text = if amount.abs() >= 1.0 { format!("{amount:.2}") } else { format!("{amount:.6}") };
    let text =
        if amount.abs() >= 1.0 { text.as_str() } else { text.trim_end_matches('0').trim_end_matches('.') };
    format!("{text} {}", inline(currency))
}
