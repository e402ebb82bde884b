//! What the flusher does on a full disk: deletes first, with the space that is kept in reserve for them.

use super::flusher::Flusher;
use crate::error::{StoreFault, is_disk_full};
use tracing::warn;
use turnstream_model::Chain;

/// With less room than this part of the reserve, the disk is full.
const LEAST_ROOM: u64 = 32;

/// There is no room for the reserve, or none beside it.
#[derive(Debug, thiserror::Error)]
#[error("there is no room beside the {bytes} bytes that are kept in reserve: {error}")]
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

    /// Makes the reserve again once there is room. The log is degraded while there is neither room for it nor
    /// as much in the database, and while the disk has no room at all.
    pub(super) fn keep_reserve(&mut self) {
        if self.reserve.size() == 0 || self.eraser.is_under_way() {
            return;
        }
        let made = match self.reserve.make() {
            Err(error) if is_disk_full(&error) => Err(error),
            // A file that cannot be made for another reason says nothing about the room.
            made => {
                self.reserve_file.note(made);
                Ok(())
            }
        };
        let (size, allocated) = (self.reserve.size(), self.reserve.allocated());
        let room = self.reserve.available() + self.database.free_bytes();
        let problem = match made {
            Ok(()) if room >= size / LEAST_ROOM => None,
            Ok(()) => Some(std::io::ErrorKind::StorageFull.into()),
            Err(_) if allocated > 0 && allocated + room >= size => None,
            Err(error) => Some(error),
        };
        match problem {
            None => self.reports.reserve_health.sound(),
            Some(error) => {
                let fault = StoreFault::new(NoReserve { bytes: size, error });
                self.reports.reserve_health.degraded(&fault);
            }
        }
    }
}
