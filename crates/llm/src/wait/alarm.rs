//! One wait on two clocks. Pure: both readings come in.

use super::Clock;
use std::time::Duration;
use turnstream_model::attempts::Parked;
use turnstream_model::time::Time;

/// The wall clock is looked at this often, so that a jump of it is noticed.
const LOOK: Duration = Duration::from_secs(15);

/// When a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// By the wall clock.
    until: Time,
    /// By the monotonic clock.
    latest: Duration,
}

impl Alarm {
    /// A wait that begins now.
    pub fn new(until: Time, clock: &dyn Clock) -> Self {
        let left = Duration::from_millis(until.0.saturating_sub(clock.wall().0));
        Self { until, latest: clock.monotonic().saturating_add(left) }
    }

    /// A wait that began before a restart. If the wall clock was set back since, it is not longer than it ever was.
    pub fn resumed(parked: &Parked, clock: &dyn Clock) -> Self {
        let whole = parked.until.0.saturating_sub(parked.since.0);
        let left = parked.until.0.saturating_sub(clock.wall().0).min(whole);
        let latest = clock.monotonic().saturating_add(Duration::from_millis(left));
        Self { until: parked.until, latest }
    }

    /// How long to sleep before looking again; none when it is over.
    pub fn left(&self, wall: Time, monotonic: Duration) -> Option<Duration> {
        let by_wall = Duration::from_millis(self.until.0.saturating_sub(wall.0));
        let by_monotonic = self.latest.saturating_sub(monotonic);
        let left = by_wall.min(by_monotonic);
        (!left.is_zero()).then_some(left.min(LOOK))
    }

    /// Sleeps until it is over.
    pub async fn wait(&self, clock: &dyn Clock) {
        while let Some(left) = self.left(clock.wall(), clock.monotonic()) {
            clock.sleep(left).await;
        }
    }
}
