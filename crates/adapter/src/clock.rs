//! The clock of an adapter.

use std::time::Duration;
use tokio::time::Instant;
use turnstream_model::time::Time;

/// A monotonic clock that starts at the time of day.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    started_at: Time,
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// A clock that starts now.
    pub fn new() -> Self {
        Self { started: Instant::now(), started_at: Time::now() }
    }

    /// The current time. It never goes backwards.
    pub fn now(&self) -> Time {
        self.started_at.plus_millis(self.started.elapsed().as_millis() as u64)
    }

    /// The moment at which this clock shows that time.
    pub fn instant_of(&self, time: Time) -> Instant {
        self.started + Duration::from_millis(time.0.saturating_sub(self.started_at.0))
    }
}
