//! The clocks of the system.

use super::Clock;
use rustix::time::{ClockId, clock_gettime};
use std::pin::Pin;
use std::time::{Duration, SystemTime};
use turnstream_model::time::Time;

/// The clock that goes on while the machine is suspended. The standard library's does not.
#[cfg(target_os = "linux")]
const PASSING: ClockId = ClockId::Boottime;
/// On macOS this one does; elsewhere it is the best there is.
#[cfg(not(target_os = "linux"))]
const PASSING: ClockId = ClockId::Monotonic;

/// The clocks of the system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn wall(&self) -> Time {
        // A clock that shows a time before 1970 is not set; waits then end by the other clock.
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Time(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn elapsed(&self) -> Duration {
        let time = clock_gettime(PASSING);
        // Since the machine started: neither part is negative, and the second is below a second.
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
    }

    fn sleep(&self, how_long: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(how_long))
    }
}
