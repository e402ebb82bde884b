//! The pieces of a burst. With `stamp` each says which one it is and when it was sent, so that a reader in another process
//! knows what is missing and how long it took: `@NUMBER:MICROS;` in 8 and 16 digits, then `x` up to the size. The microseconds
//! are of the clock that every process on the machine reads alike.

use super::act::Burst;
use rustix::time::{ClockId, clock_gettime};
use std::fmt::Write;
use std::num::NonZeroUsize;

/// The bytes of a stamp; a piece with one is not smaller.
pub(super) const STAMP: usize = 27;

/// Makes the pieces, one after the other.
pub(super) struct Pieces {
    plain: String,
    /// All stamped pieces so far, message by message: no two are alike.
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

    /// The next one, sent now, and the message that it belongs to.
    pub(super) fn next(&mut self) -> (usize, String) {
        let now = clock_gettime(ClockId::Monotonic);
        self.make(now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000)
    }

    /// The text of each message. Pieces that were not made now, because they were before, have no time.
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
        // Writing to a String does not fail.
        let _ = write!(all, "@{number:08}:{micros:016};");
        all.push_str(self.plain.get(STAMP..).unwrap_or_default());
        (message, all[start..].to_owned())
    }
}
