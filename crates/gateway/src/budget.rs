//! Changes of budgets, as the configuration and clients give them.

use crate::error::RequestError;
use serde::{Deserialize, Deserializer};
use turnstream_model::event::{Budget, Caps};

/// A change of caps. What is absent stays as it is, and `Some(None)` lifts a cap.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapsChange {
    /// Model calls.
    #[serde(default, deserialize_with = "given")]
    pub steps: Option<Option<u64>>,
    /// Milliseconds.
    #[serde(default, deserialize_with = "given")]
    pub time: Option<Option<u64>>,
    /// Tokens of all kinds.
    #[serde(default, deserialize_with = "given")]
    pub tokens: Option<Option<u64>>,
    /// Dollars.
    #[serde(default, deserialize_with = "given")]
    pub cost: Option<Option<f64>>,
}

/// A change of the caps of a session.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetChange {
    /// The caps of each turn.
    #[serde(default)]
    pub turn: CapsChange,
    /// The caps of all turns together.
    #[serde(default)]
    pub session: CapsChange,
}

/// A member that is there, and may be null.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl CapsChange {
    /// The caps after the change.
    pub(crate) fn applied_to(&self, caps: &Caps) -> Caps {
        let Self { steps, time, tokens, cost } = self;
        Caps {
            steps: steps.unwrap_or(caps.steps),
            time: time.unwrap_or(caps.time),
            tokens: tokens.unwrap_or(caps.tokens),
            cost: cost.unwrap_or(caps.cost),
        }
    }

    /// Refuses caps that nothing could stay below.
    pub(crate) fn check(&self) -> Result<(), RequestError> {
        let Self { steps, time, tokens, cost } = self;
        let zero = |cap: &Option<Option<u64>>| *cap == Some(Some(0));
        let no_cost = cost.flatten().is_some_and(|cost| !(cost > 0.0 && cost.is_finite()));
        let named =
            [("steps", zero(steps)), ("time", zero(time)), ("tokens", zero(tokens)), ("cost", no_cost)];
        match named.into_iter().find(|(_, is_wrong)| *is_wrong) {
            Some((cap, _)) => Err(RequestError::BadBudget { cap }),
            None => Ok(()),
        }
    }

    /// Whether these caps are what the change asks for.
    fn is_in(&self, caps: &Caps) -> bool {
        self.applied_to(caps) == *caps
    }
}

impl BudgetChange {
    /// The caps after the change.
    pub(crate) fn applied_to(&self, budget: &Budget) -> Budget {
        let Self { turn, session } = self;
        Budget { turn: turn.applied_to(&budget.turn), session: session.applied_to(&budget.session) }
    }

    /// Refuses caps that nothing could stay below.
    pub(crate) fn check(&self) -> Result<(), RequestError> {
        self.turn.check()?;
        self.session.check()
    }

    /// Whether these caps are what the change asks for. Caps that it does not name may be any.
    pub(crate) fn is_in(&self, budget: &Budget) -> bool {
        self.turn.is_in(&budget.turn) && self.session.is_in(&budget.session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_stays_and_null_lifts_a_cap() {
        let change: BudgetChange =
            serde_json::from_str(r#"{"turn":{"steps":null,"tokens":7},"session":{"cost":2.5}}"#).unwrap();
        let turn = Caps { steps: Some(5), time: Some(9), ..Caps::default() };
        let old = Budget { turn, session: Caps::default() };
        let new = change.applied_to(&old);
        let turn = Caps { steps: None, time: Some(9), tokens: Some(7), cost: None };
        assert_eq!(new, Budget { turn, session: Caps { cost: Some(2.5), ..Caps::default() } });
        assert!(change.is_in(&new) && !change.is_in(&old));
        assert!(BudgetChange::default().is_in(&old));
    }

    #[test]
    fn a_cap_of_nothing_is_refused_by_its_name() {
        let refused = |text: &str| serde_json::from_str::<CapsChange>(text).unwrap().check().unwrap_err();
        for (text, cap) in [
            (r#"{"steps":0}"#, "steps"),
            (r#"{"time":0}"#, "time"),
            (r#"{"tokens":0}"#, "tokens"),
            (r#"{"cost":0}"#, "cost"),
            (r#"{"cost":-1}"#, "cost"),
        ] {
            assert_eq!(refused(text), RequestError::BadBudget { cap });
        }
        assert!(serde_json::from_str::<CapsChange>(r#"{"turns":1}"#).is_err());
    }
}
