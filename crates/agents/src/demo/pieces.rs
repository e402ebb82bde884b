//! The pieces of a burst.
//!
//! With `stamp` each piece has its number and the time at which it was sent, so that a reader in another
//! process can check for missing pieces and measure delays. The form is `@NUMBER:MICROS;` with 8 and 16
//! digits, filled with `x`. The microseconds are of the monotonic clock, which all processes of a machine
//! share.

use super::act::Burst;
use rustix::time::{ClockId, clock_gettime};
use std::num::NonZeroUsize;

/// The size of a stamp in bytes, and so the smallest size of a piece with one.
pub(super) const STAMP: usize = 27;

/// Creates the pieces one after the other.
pub(super) struct Pieces {
    plain: String,
    /// The text of each message so far, if the pieces have stamps.
    stamped: Option<Vec<String>>,
    messages: usize,
    made: usize,
}

impl Pieces {
    pub(super) fn of(burst: &Burst) -> Self {
        let messages = burst.messages.map_or(1, NonZeroUsize::get);
        let stamped = burst.stamp.then(|| vec![String::new(); messages]);
        Self { plain: "x".repeat(burst.bytes), stamped, messages, made: 0 }
    }

    /// The next piece, with the index of its message.
    pub(super) fn next(&mut self) -> (usize, String) {
        let now = clock_gettime(ClockId::Monotonic);
        self.make(now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000)
    }

    /// The text of each message. Pieces that were sent before a restart have the time 0.
    pub(super) fn whole(mut self, count: usize) -> Vec<String> {
        let Self { messages, .. } = self;
        while self.stamped.is_some() && self.made < count {
            self.make(0);
        }
        self.stamped.unwrap_or_else(|| {
            let share = |message| count / messages + usize::from(message < count % messages);
            (0..messages).map(|message| self.plain.repeat(share(message))).collect()
        })
    }

    fn make(&mut self, micros: u64) -> (usize, String) {
        let number = self.made;
        let message = number % self.messages;
        self.made += 1;
        let Some(all) = self.stamped.as_mut().and_then(|stamped| stamped.get_mut(message)) else {
            return (message, self.plain.clone());
        };
        let start = all.len();
        all.push_str(&format!("@{number:08}:{micros:016};"));
        all.push_str(self.plain.get(STAMP..).unwrap_or_default());
        (message, all[start..].to_owned())
    }
}
