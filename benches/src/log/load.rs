//! An open-loop load: a fixed rate of deltas over many sessions, whether or not the log keeps up.

use std::time::{Duration, Instant};

/// The load.
pub(crate) struct Load {
    pub(crate) sessions: usize,
    pub(crate) rate: u64,
    pub(crate) length: Duration,
}

/// Deltas are sent in ticks of this length.
const TICK: Duration = Duration::from_millis(1);

impl Load {
    pub(crate) fn total(&self) -> u64 {
        (self.rate as f64 * self.length.as_secs_f64()) as u64
    }

    /// The number of deltas that are due after this time.
    pub(crate) fn due(&self, elapsed: Duration) -> u64 {
        ((elapsed.as_secs_f64() * self.rate as f64) as u64).min(self.total())
    }

    /// Waits for the next tick.
    pub(crate) fn rest(&self) -> Duration {
        TICK
    }
}

/// 200 bytes of text that begin with the delta's number.
pub(crate) fn text(number: u64) -> String {
    format!("{number:012}{:x<188}", "")
}

/// The number in a JSON line with such a text.
pub(crate) fn number(json: &[u8]) -> u64 {
    let text = json.windows(9).position(|window| window == b"\"text\":\"0").map(|at| &json[at + 8..at + 20]);
    text.and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(u64::MAX)
}

/// When each delta was sent, by number.
pub(crate) struct Sent {
    start: Instant,
}

impl Sent {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now() }
    }

    pub(crate) fn micros(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }
}
