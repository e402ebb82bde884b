//! No deadline runs while its keeper waits for the disk, and none of a person while nobody can answer.

use super::Keeper;
use super::connection::Connection;
use crate::trouble;
use std::time::Duration;
use tokio::time::Instant;
use turnstream_log::{HealthWatch, Log};

/// Since when the disk fails, as far as the keeper has looked.
pub(super) struct Outage {
    health: HealthWatch,
    since: Option<Instant>,
}

impl Outage {
    pub(super) fn new(log: &Log) -> Self {
        let health = log.watch_health();
        Self { health, since: trouble::now(log).map(|_| Instant::now()) }
    }

    /// Returns when it may be over, or may have begun. Safe to drop and call again.
    pub(super) async fn changed(&mut self) {
        if self.health.changed().await.is_none() {
            // The log is closed: the keeper hears of that when it appends.
            std::future::pending().await
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// From when on somebody who is asked now has time. What an outage takes is added when it is over.
    pub(super) fn asked_at(&self) -> Instant {
        self.since.unwrap_or_else(Instant::now)
    }
}

impl Keeper {
    /// Looks whether the disk fails. People get back the time in which they could not answer.
    pub(super) fn look_at_disk(&mut self) {
        let fails = trouble::now(&self.shared.log).is_some();
        match self.outage.since {
            None if fails => self.outage.since = Some(Instant::now()),
            Some(since) if !fails => {
                self.outage.since = None;
                self.waits.postpone(since.elapsed());
            }
            None | Some(_) => {}
        }
    }

    /// The keeper has waited for the disk: whatever ran when it began has the time again that was left.
    pub(super) fn thaw(&mut self) {
        let waited: Duration = self.clocks.thaw();
        if let Connection::Making(making) = &mut self.connection {
            making.deadline += waited;
        }
        if let Some(recovery) = &mut self.recovery {
            recovery.deadline += waited;
        }
        // In an outage they get the whole of it when it is over.
        if !self.outage.is_on() {
            self.waits.postpone(waited);
        }
    }
}
