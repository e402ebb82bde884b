//! When a silent stream is to say that it is alive.

use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// A timer that is moved only when it fires, however much is said in between.
pub(crate) struct HeartbeatTimer {
    every: Duration,
    said: Instant,
    timer: Pin<Box<Sleep>>,
}

impl HeartbeatTimer {
    pub(crate) fn new(every: Duration) -> Self {
        Self { every, said: Instant::now(), timer: Box::pin(tokio::time::sleep(every)) }
    }

    /// Something was said.
    pub(crate) fn said(&mut self) {
        self.said = Instant::now();
    }

    /// Returns when nothing was said for so long. Safe to drop and call again.
    pub(crate) async fn due(&mut self) {
        loop {
            self.timer.as_mut().await;
            let due = self.said + self.every;
            let now = Instant::now();
            self.timer.as_mut().reset(due.max(now + Duration::from_millis(1)));
            if due <= now {
                return;
            }
        }
    }
}
