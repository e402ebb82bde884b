//! Counts of what was removed since the log was opened.

use std::sync::atomic::{AtomicU64, Ordering};

/// What was removed since the log was opened. The counts only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Sessions that were deleted.
    pub sessions: u64,
    /// Turns that were trimmed.
    pub turns: u64,
    /// Events that were trimmed.
    pub events: u64,
    /// Bytes of those events.
    pub bytes: u64,
    /// Completed passes that erased everything removed so far from every file.
    pub erasures: u64,
}

/// The live counters behind [`Removed`].
#[derive(Default)]
pub(crate) struct RemovalCounts {
    sessions: AtomicU64,
    turns: AtomicU64,
    events: AtomicU64,
    bytes: AtomicU64,
    erasures: AtomicU64,
}

impl RemovalCounts {
    pub(crate) fn deleted(&self) {
        self.sessions.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn trimmed(&self, turns: u64, events: u64, bytes: u64) {
        self.turns.fetch_add(turns, Ordering::Relaxed);
        self.events.fetch_add(events, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn erased(&self) {
        self.erasures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Removed {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Removed {
            sessions: read(&self.sessions),
            turns: read(&self.turns),
            events: read(&self.events),
            bytes: read(&self.bytes),
            erasures: read(&self.erasures),
        }
    }
}
