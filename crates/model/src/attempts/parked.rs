//! A wait that is stored, so that it survives a restart. It has a wake-up time and the retry budget used so
//! far.

use crate::event::{ErrorClass, TurnError};
use crate::id::{SessionId, TurnId};
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A turn that waits for a provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parked {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The model call that is to be repeated, from 1.
    pub step: u32,
    /// The number of the turn's last attempt; the next one gets the number after it.
    pub attempt: u32,
    /// What was shown of that attempt, by the numbers of its items: void when the next one begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<u32>,
    /// Where the next request goes.
    pub route: String,
    /// When the wait began. No clock can make it longer than from here to `until`.
    pub since: Time,
    /// When it is over.
    pub until: Time,
    /// What it waits for.
    pub error: TurnError,
    /// What the turn's retries have used up.
    pub spent: Spent,
}

/// What the retries of one turn have used up. It is kept over a restart, so that a limit stays one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Milliseconds between a failure and the answer that ended it, over all that are ended.
    pub waited_ms: u64,
    /// Since when nothing but failures came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Time>,
    /// Failures since then, per class, with the time of the first of each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<ErrorClass, (u32, Time)>,
}

// === impl Parked and Spent ===

impl Parked {
    /// The wall clock was set by so many milliseconds: times before it are told as it shows them now.
    pub fn clock_moved(&mut self, by: i64) {
        for time in [&mut self.since, &mut self.until].into_iter().chain(self.error.retry_at.as_mut()) {
            move_time(time, by);
        }
        self.spent.clock_moved(by);
    }
}

impl Spent {
    /// The wall clock was set by so many milliseconds: no time was spent by that, and none won.
    pub fn clock_moved(&mut self, by: i64) {
        let firsts = self.failures.values_mut().map(|(_, first)| first);
        for time in self.failing_since.iter_mut().chain(firsts) {
            move_time(time, by);
        }
    }
}

fn move_time(time: &mut Time, by: i64) {
    *time = Time(time.0.saturating_add_signed(by));
}
