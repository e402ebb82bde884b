//! Deadlines and a failing disk. No deadline runs while its keeper waits for the disk. The deadlines of
//! approvals and questions do not run while the disk fails, since answers are refused.

use super::Keeper;
use super::connection::Connection;
use crate::disk_failure;
use std::time::Duration;
use tokio::time::Instant;
use turnstream_log::{HealthWatch, Log};

/// Since when the disk fails, as of the keeper's last check.
pub(super) struct Outage {
    health: HealthWatch,
    since: Option<Instant>,
}

impl Outage {
    pub(super) fn new(log: &Log) -> Self {
        let health = log.watch_health();
        Self { health, since: disk_failure::current(log).map(|_| Instant::now()) }
    }

    /// Returns when the disk's health has changed. Safe to drop and call again.
    pub(super) async fn changed(&mut self) {
        if self.health.changed().await.is_none() {
            // The log is closed: the keeper's next append fails.
            std::future::pending().await
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// The start of the time for an answer to what is asked now. The length of an outage is added at its end.
    pub(super) fn asked_at(&self) -> Instant {
        self.since.unwrap_or_else(Instant::now)
    }
}

impl Keeper {
    /// Checks the disk. After an outage, approvals and questions get its length added to their deadlines.
    pub(super) fn check_disk(&mut self) {
        let fails = disk_failure::current(&self.shared.log).is_some();
        match self.outage.since {
            None if fails => self.outage.since = Some(Instant::now()),
            Some(since) if !fails => {
                self.outage.since = None;
                self.waits.postpone(since.elapsed());
            }
            None | Some(_) => {}
        }
    }

    /// The keeper has waited for the disk: every deadline is moved by the length of the wait.
    pub(super) fn thaw(&mut self) {
        let waited: Duration = self.clocks.thaw();
        if let Connection::Connecting(making) = &mut self.connection {
            making.deadline += waited;
        }
        if let Some(recovery) = &mut self.recovery {
            recovery.deadline += waited;
        }
        // During an outage, `check_disk` adds the whole length at its end.
        if !self.outage.is_on() {
            self.waits.postpone(waited);
        }
    }
}
