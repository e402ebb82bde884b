//! The timer for the heartbeats of a silent stream.

use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// Fires when nothing was sent for a while. Sending is cheap: the timer itself is moved only when it fires.
pub(crate) struct HeartbeatTimer {
    every: Duration,
    last_sent: Instant,
    timer: Pin<Box<Sleep>>,
}

impl HeartbeatTimer {
    pub(crate) fn new(every: Duration) -> Self {
        Self { every, last_sent: Instant::now(), timer: Box::pin(tokio::time::sleep(every)) }
    }

    /// Something was sent.
    pub(crate) fn sent(&mut self) {
        self.last_sent = Instant::now();
    }

    /// Returns when nothing was sent for so long. Safe to drop and call again.
    pub(crate) async fn due(&mut self) {
        loop {
            self.timer.as_mut().await;
            let due = self.last_sent + self.every;
            let now = Instant::now();
            self.timer.as_mut().reset(due.max(now + Duration::from_millis(1)));
            if due <= now {
                return;
            }
        }
    }
}
