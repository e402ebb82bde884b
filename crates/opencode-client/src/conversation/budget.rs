//! Limits of one turn.
//!
//! opencode calls a model that never reports a stop reason again and again, without an idle in between
//! (capture j2: 52 calls in 20 seconds).

use super::Conversation;
use crate::translate::Translated;
use std::time::Duration;
use turnstream_model::event::{ErrorClass, NoticeCode, TurnError};
use turnstream_model::signal::{Ending, Signal};
use turnstream_model::time::Time;

/// How long a turn that is over a limit may take to stop.
const STOP_MILLIS: u64 = 10_000;

/// Limits of one turn; `None` means no limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// Model calls, with retries.
    pub steps: Option<u32>,
    /// Time from the first sign of work.
    pub time: Option<Duration>,
    /// Tokens of all kinds, with those of subagents.
    pub tokens: Option<u64>,
    /// Dollars, with the cost of subagents.
    pub cost: Option<f64>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { steps: Some(200), time: None, tokens: None, cost: None }
    }
}

/// When the turn started, and whether it is over a limit.
#[derive(Default)]
pub(super) struct Spent {
    since: Option<Time>,
    /// The turn is over a limit: its error, and until when it may take to stop.
    over: Option<(TurnError, Time)>,
}

impl Spent {
    pub(super) fn begin(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.is_some()
    }

    pub(super) fn over(&self) -> Option<TurnError> {
        self.over.as_ref().map(|(error, _)| error.clone())
    }

    pub(super) fn until(&self, budget: &Budget) -> Option<Time> {
        match (&self.over, self.since, budget.time) {
            (Some((_, until)), _, _) => Some(*until),
            (None, Some(since), Some(time)) => Some(since.plus_millis(time.as_millis() as u64)),
            (None, _, _) => None,
        }
    }
}

impl Conversation {
    /// Stops a turn that is over a limit.
    pub(super) fn check_budget(&mut self, now: Time) {
        if let Some((error, until)) = &self.spent.over {
            if now >= *until {
                let ending = Ending::failed(error.clone());
                self.spent = Spent::default();
                self.translator.end_turn(&mut Translated::default());
                self.stopped();
                self.report(Signal::TurnDone { native_id: None, ending });
            }
            return;
        }
        let Some(since) = self.spent.since else { return };
        let Budget { steps, time, tokens, cost } = self.budget;
        let (took, had) = (self.translator.steps(), now.0.saturating_sub(since.0));
        let (used, paid) = (self.translator.tokens(), self.translator.cost());
        let reached = if steps.is_some_and(|most| took > most) {
            format!("{took} model calls; the limit is {}", steps.unwrap_or_default())
        } else if tokens.is_some_and(|most| used > most) {
            format!("{used} tokens; the limit is {}", tokens.unwrap_or_default())
        } else if cost.is_some_and(|most| paid > most) {
            format!("{paid:.4} dollars; the limit is {:.4}", cost.unwrap_or_default())
        } else if time.is_some_and(|most| u128::from(had) >= most.as_millis()) {
            format!("{} seconds; the limit is {}", had / 1_000, time.unwrap_or_default().as_secs())
        } else {
            return;
        };
        let message = format!("the turn was stopped after {reached}");
        self.report(Signal::Notice { code: NoticeCode::Budget, message: message.clone(), detail: None });
        self.stop_for(TurnError::new(ErrorClass::Budget, message), now);
    }

    /// Stops the turn and lets it fail with this error, whatever the server reports then.
    pub fn stop_for(&mut self, error: TurnError, now: Time) {
        if !self.spent.is_over() {
            self.spent.over = Some((error, now.plus_millis(STOP_MILLIS)));
            self.stop(now);
        }
    }
}
