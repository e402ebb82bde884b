//! The end of one wait, on the clock that does not jump.

use super::Clock;
use std::time::Duration;
use turnstream_model::attempts::Parked;

/// Clocks are looked at this often: a timer stands still while the machine is suspended, and the wall clock may jump.
pub const LOOK: Duration = Duration::from_secs(15);

/// When a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alarm {
    ends: Duration,
}

impl Alarm {
    /// A wait that begins now.
    pub fn after(how_long: Duration, clock: &dyn Clock) -> Self {
        Self { ends: clock.elapsed().saturating_add(how_long) }
    }

    /// A wait that began before a restart. If the wall clock was set back since, it is not longer than it ever was.
    pub fn resumed(parked: &Parked, clock: &dyn Clock) -> Self {
        let whole = parked.until.0.saturating_sub(parked.since.0);
        let left = parked.until.0.saturating_sub(clock.wall().0).min(whole);
        Self::after(Duration::from_millis(left), clock)
    }

    /// How long to sleep before looking again; none when it is over.
    pub fn left(&self, clock: &dyn Clock) -> Option<Duration> {
        let left = self.ends.saturating_sub(clock.elapsed());
        (!left.is_zero()).then_some(left.min(LOOK))
    }
}
