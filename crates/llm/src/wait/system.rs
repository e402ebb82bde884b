//! The clocks of the system.

use super::Clock;
use rustix::time::{ClockId, clock_gettime};
use std::pin::Pin;
use std::time::Duration;
use turnstream_model::time::Time;

/// A clock that continues while the machine is suspended. `std::time::Instant` does not.
#[cfg(target_os = "linux")]
const ELAPSED: ClockId = ClockId::Boottime;
/// On macOS this clock continues too. Elsewhere it is the best there is.
#[cfg(not(target_os = "linux"))]
const ELAPSED: ClockId = ClockId::Monotonic;

/// The clocks of the system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn wall(&self) -> Time {
        Time::now()
    }

    fn elapsed(&self) -> Duration {
        let time = clock_gettime(ELAPSED);
        // Time since the machine started: neither part is negative, and `tv_nsec` is below a second.
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
    }

    fn sleep(&self, length: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(length))
    }
}
