//! Budgets on the wire: caps on what turns and sessions may use, and what they have used.

use super::{Cost, Redact, Secrets, Usage, Weigh};
use crate::words::words;
use serde::{Deserialize, Serialize};

/// The currency of caps on cost. Costs in other currencies are not counted.
pub const CAPPED_CURRENCY: &str = "USD";

words! {
    /// What a cap is on.
    pub enum Cap {
        /// Model calls.
        Steps = "steps",
        /// The time in which the agent works.
        Time = "time",
        /// Tokens of all kinds.
        Tokens = "tokens",
        /// Dollars.
        Cost = "cost",
    }
}

words! {
    /// What a cap is for.
    pub enum Scope {
        /// One turn.
        Turn = "turn",
        /// All turns of a session together.
        Session = "session",
    }
}

/// Caps. What is absent has none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Caps {
    /// Model calls, repeated ones included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Milliseconds in which the agent works. Waiting for a person does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<u64>,
    /// Tokens of all kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

/// The caps of a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// The caps of each turn.
    #[serde(default, skip_serializing_if = "Caps::is_empty")]
    pub turn: Caps,
    /// The caps of all turns together.
    #[serde(default, skip_serializing_if = "Caps::is_empty")]
    pub session: Caps,
}

/// What was used. What is absent was not told by the agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// Model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Milliseconds in which the agent worked.
    #[serde(default)]
    pub time: u64,
    /// Tokens of all kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

impl Caps {
    /// True without a cap.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The first cap that this use has reached.
    pub fn reached_by(&self, used: &Used) -> Option<Cap> {
        let reached = |cap: Option<u64>, used: Option<u64>| cap.is_some_and(|cap| used >= Some(cap));
        if reached(self.steps, used.steps) {
            Some(Cap::Steps)
        } else if reached(self.tokens, used.tokens) {
            Some(Cap::Tokens)
        } else if self.cost.is_some_and(|cap| used.cost.is_some_and(|used| used >= cap)) {
            Some(Cap::Cost)
        } else if reached(self.time, Some(used.time)) {
            Some(Cap::Time)
        } else {
            None
        }
    }

    /// One of the caps, in words.
    pub fn shown(&self, cap: Cap) -> String {
        shown(cap, self.steps, self.time, self.tokens, self.cost)
    }
}

impl Budget {
    /// True without a cap.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Used {
    /// Both together. What one of them does not know is what the other one knows.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let sum = |one: Option<u64>, other: Option<u64>| {
            [one, other].into_iter().flatten().reduce(u64::saturating_add)
        };
        Self {
            steps: sum(self.steps, other.steps),
            time: self.time.saturating_add(other.time),
            tokens: sum(self.tokens, other.tokens),
            cost: [self.cost, other.cost].into_iter().flatten().reduce(|one, other| one + other),
        }
    }

    /// What was used of one cap, in words.
    pub fn shown(&self, cap: Cap) -> String {
        shown(cap, self.steps, Some(self.time), self.tokens, self.cost)
    }
}

/// All tokens, if one kind of them is known.
pub(crate) fn all_tokens(usage: &Usage) -> Option<u64> {
    let kinds = [usage.input, usage.output, usage.reasoning, usage.cache_read, usage.cache_write];
    kinds.into_iter().flatten().reduce(u64::saturating_add)
}

/// The amount, if the currency is that of caps.
pub(crate) fn capped_amount(cost: &Cost) -> Option<f64> {
    cost.currency.eq_ignore_ascii_case(CAPPED_CURRENCY).then_some(cost.amount)
}

fn shown(cap: Cap, steps: Option<u64>, time: Option<u64>, tokens: Option<u64>, cost: Option<f64>) -> String {
    let count = |count: Option<u64>, one: &str, many: &str| match count {
        Some(1) => format!("1 {one}"),
        Some(count) => format!("{count} {many}"),
        None => format!("an unknown number of {many}"),
    };
    match cap {
        Cap::Steps => count(steps, "step", "steps"),
        Cap::Tokens => count(tokens, "token", "tokens"),
        Cap::Time => {
            let millis = time.unwrap_or_default();
            format!("{}.{:03} seconds", millis / 1_000, millis % 1_000)
        }
        Cap::Cost => match cost {
            Some(amount) => format!("{amount:.4} {CAPPED_CURRENCY}"),
            None => "an unknown cost".to_owned(),
        },
    }
}

// Numbers only: they have no secrets, and fit into the allowance of the envelope.
macro_rules! numbers {
    ($($type:ty),+) => {$(
        impl Redact for $type {
            fn redact(&mut self, _secrets: &impl Secrets) {}
        }

        impl Weigh for $type {
            fn weight(&self) -> usize {
                96
            }
        }
    )+};
}

numbers! { Caps, Budget, Used }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_is_reached_by_what_is_known_and_by_nothing_else() {
        let caps = Caps { steps: Some(3), tokens: Some(100), cost: Some(1.5), time: Some(2_000) };
        let reached = |used: Used| caps.reached_by(&used);
        assert_eq!(reached(Used::default()), None);
        assert_eq!(reached(Used { steps: Some(2), tokens: Some(99), cost: Some(1.49), time: 1_999 }), None);
        assert_eq!(reached(Used { steps: Some(3), ..Used::default() }), Some(Cap::Steps));
        assert_eq!(reached(Used { tokens: Some(100), ..Used::default() }), Some(Cap::Tokens));
        assert_eq!(reached(Used { cost: Some(1.5), ..Used::default() }), Some(Cap::Cost));
        assert_eq!(reached(Used { time: 2_000, ..Used::default() }), Some(Cap::Time));
        assert_eq!(Caps::default().reached_by(&Used { steps: Some(9), time: 9, ..Used::default() }), None);
    }

    #[test]
    fn what_nobody_knows_stays_unknown_in_a_sum() {
        let some = Used { steps: Some(2), time: 5, tokens: None, cost: None };
        let sum = some.and(&Used { steps: None, time: 1, tokens: Some(7), cost: None });
        assert_eq!(sum, Used { steps: Some(2), time: 6, tokens: Some(7), cost: None });
    }

    #[test]
    fn only_costs_in_dollars_count() {
        let cost =
            |currency: &str| Cost { amount: 2.0, currency: currency.to_owned(), extra: Default::default() };
        assert_eq!(capped_amount(&cost("usd")), Some(2.0));
        assert_eq!(capped_amount(&cost("EUR")), None);
    }

    #[test]
    fn amounts_are_shown_with_their_units() {
        let used = Used { steps: Some(1), time: 61_005, tokens: Some(12), cost: Some(0.5) };
        let shown = [Cap::Steps, Cap::Time, Cap::Tokens, Cap::Cost].map(|cap| used.shown(cap));
        assert_eq!(shown, ["1 step", "61.005 seconds", "12 tokens", "0.5000 USD"]);
    }
}
