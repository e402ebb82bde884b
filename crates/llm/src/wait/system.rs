//! The clocks of the system.

use super::Clock;
use std::pin::Pin;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;
use turnstream_model::time::Time;

/// The clocks of the system.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    began: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { began: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn wall(&self) -> Time {
        // A clock that shows a time before 1970 is not set; waits then end by the other clock.
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Time(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.began.elapsed()
    }

    fn sleep(&self, how_long: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(tokio::time::sleep(how_long))
    }
}
