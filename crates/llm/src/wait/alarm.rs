//! The end of one wait, in elapsed time.

use super::Clock;
use std::time::Duration;
use turnstream_model::attempts::Parked;

/// How often the clocks are checked: timers stop while the machine is suspended, and the wall clock may be
/// set.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(15);

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alarm {
    ends: Duration,
}

impl Alarm {
    /// A wait that starts now.
    pub fn after(length: Duration, clock: &dyn Clock) -> Self {
        Self { ends: clock.elapsed().saturating_add(length) }
    }

    /// A wait that started before a restart. If the wall clock was set back since, its full length is the
    /// limit.
    pub fn resumed(parked: &Parked, clock: &dyn Clock) -> Self {
        let whole = parked.until.0.saturating_sub(parked.since.0);
        let left = parked.until.0.saturating_sub(clock.wall().0).min(whole);
        Self::after(Duration::from_millis(left), clock)
    }

    /// How long to sleep before the next check; `None` when the wait is over.
    pub fn left(&self, clock: &dyn Clock) -> Option<Duration> {
        let left = self.ends.saturating_sub(clock.elapsed());
        (!left.is_zero()).then_some(left.min(CHECK_INTERVAL))
    }
}
