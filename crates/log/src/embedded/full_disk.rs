//! What the flusher does on a full disk: deletes first, with the space that is kept in reserve for them.

use super::flusher::Flusher;
use crate::error::StoreFault;
use tracing::warn;
use turnstream_model::Chain;

/// There is no room for the reserve.
#[derive(Debug, thiserror::Error)]
#[error("{bytes} bytes cannot be kept in reserve: {error}")]
struct NoReserve {
    bytes: u64,
    #[source]
    error: std::io::Error,
}

impl Flusher {
    /// On a full disk, deletes go before everything else: only they can make room. The reserve is for them
    /// alone, so that other writes cannot use it up.
    pub(super) fn make_room(&mut self) {
        if self.is_removing {
            return self.release_reserve();
        }
        for command in self.queue.take_deletes() {
            self.execute(command);
        }
        if self.eraser.is_under_way() {
            self.erase();
        }
    }

    pub(super) fn release_reserve(&mut self) {
        if let Err(error) = self.reserve.release() {
            warn!(error = %Chain(&error), "the space in reserve cannot be released");
        }
    }

    /// Makes the reserve again once there is room. Until then the log is degraded, unless the database has as
    /// much room for new events.
    pub(super) fn keep_reserve(&mut self) {
        if self.reserve.is_whole() || self.eraser.is_under_way() {
            return;
        }
        let Err(error) = self.reserve.make() else { return self.reports.reserve_health.sound() };
        let room = self.reserve.allocated() + self.database.free_bytes();
        if self.reserve.allocated() > 0 && room >= self.reserve.size() {
            return self.reports.reserve_health.sound();
        }
        self.reports
            .reserve_health
            .degraded(&StoreFault::new(NoReserve { bytes: self.reserve.size(), error }));
    }
}
