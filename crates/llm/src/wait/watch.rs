//! Notices when the wall clock is set.

use super::Clock;
use std::time::Duration;
use turnstream_model::time::Time;

/// The smallest difference between wall time and elapsed time that counts as a set clock. Time servers
/// correct up to half a second without a jump.
pub const JUMP: Duration = Duration::from_secs(1);

/// Compares the wall clock with elapsed time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallWatch {
    wall: Time,
    elapsed: Duration,
}

impl WallWatch {
    /// Starts with the clocks as they are.
    pub fn new(clock: &dyn Clock) -> Self {
        Self { wall: clock.wall(), elapsed: clock.elapsed() }
    }

    /// By how many milliseconds the wall clock was set since the last check, if it was. Differences below
    /// [`JUMP`] add up.
    pub fn moved(&mut self, clock: &dyn Clock) -> Option<i64> {
        let now = Self::new(clock);
        let passed = now.elapsed.saturating_sub(self.elapsed).as_millis();
        let expected = self.wall.plus_millis(u64::try_from(passed).unwrap_or(u64::MAX));
        let by = i64::try_from(i128::from(now.wall.0) - i128::from(expected.0)).unwrap_or(i64::MAX);
        if u128::from(by.unsigned_abs()) < JUMP.as_millis() {
            return None;
        }
        *self = now;
        Some(by)
    }
}
