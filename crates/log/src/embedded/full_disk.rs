//! What the flusher does on a full disk: deletes first, with the space that is kept in reserve for them.

use super::flusher::Flusher;
use crate::batch::Group;
use crate::error::{StoreFault, is_disk_full};
use tracing::warn;
use turnstream_model::Chain;

/// With less room than this part of the reserve, the disk is full.
const LEAST_ROOM: u64 = 32;

/// Bytes of events per transaction on a disk that is nearly full. SQLite's write-ahead log takes a multiple.
const PIECE_BYTES: usize = 256 << 10;

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
        // Transactions that were not moved into the database take room as well.
        self.empty_log();
        if self.is_removing {
            return self.release_reserve();
        }
        self.delete_and_erase();
        self.remove_rows_first();
    }

    /// While deleted rows wait to be removed on a full disk, events that wait for the database would use up
    /// the released space. They wait until the removal has made room for them in the database.
    pub(super) fn remove_rows_first(&mut self) {
        let enough = 2 * self.reserve.working_room();
        while self.reserve.is_released()
            && self.eraser.needs_room()
            && self.database.free_bytes() < enough
            && self.delete_and_erase()
        {}
    }

    /// Executes waiting deletes, and gives the eraser a time slice. False if it has no work or no room.
    fn delete_and_erase(&mut self) -> bool {
        for command in self.queue.take_deletes() {
            self.execute(command);
        }
        self.eraser.is_under_way() && self.erase()
    }

    fn empty_log(&mut self) {
        let emptied = self.database.empty_log_of(&self.readers);
        self.checkpoints.note(emptied);
    }

    fn release_reserve(&mut self) {
        if let Err(error) = self.reserve.release() {
            warn!(error = %Chain(&error), "the space in reserve cannot be released");
        }
    }

    /// A time slice for the eraser. False if it had no room.
    pub(super) fn erase(&mut self) -> bool {
        let Self { eraser, database, readers, pool, reports, .. } = self;
        let had_room = eraser.work(database, readers, pool, reports);
        if !had_room {
            self.release_reserve();
            // The write-ahead log may have grown behind a reader.
            self.empty_log();
        }
        // A pass waits until the writer has changed to a new segment, which may need a new file.
        if self.eraser.is_under_way() && self.pool.lacks_room() {
            self.release_reserve();
        }
        let is_room_needed = self.eraser.needs_room() || !self.eraser.is_under_way();
        self.pool.take_room(self.reserve.is_released() && is_room_needed);
        had_room
    }

    /// Makes the reserve again once there is room. The log is degraded while there is no room to work in. If
    /// only a part of the reserve can be made, events are accepted as long as the database has room for them.
    pub(super) fn keep_reserve(&mut self) {
        if self.reserve.size() == 0 || self.eraser.is_under_way() {
            return;
        }
        let mut made = self.reserve.make();
        if made.is_err() && self.database.log_bytes() > self.reserve.size() / LEAST_ROOM {
            // Failed transactions have left room in the write-ahead log that is of no use there.
            self.empty_log();
            made = self.reserve.make();
        }
        let made = match made {
            Err(error) if is_disk_full(&error) => Err(error),
            // A file that cannot be made for another reason says nothing about the room.
            made => {
                self.reserve_file.note(made);
                Ok(())
            }
        };
        let (size, available) = (self.reserve.size(), self.reserve.available());
        let has_room_in_database = || self.database.free_bytes() >= self.reserve.working_room();
        let problem = match made {
            Ok(()) if available < size / LEAST_ROOM => Some(std::io::ErrorKind::StorageFull.into()),
            Ok(()) => None,
            Err(error) if available < size / LEAST_ROOM || self.reserve.allocated() == 0 => Some(error),
            Err(_) if has_room_in_database() => None,
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

/// Splits commits into pieces of about [`PIECE_BYTES`], at least one commit each.
pub(super) fn pieces(groups: &[Group]) -> Vec<&[Group]> {
    let (mut pieces, mut rest, mut bytes, mut count) = (Vec::new(), groups, 0, 0);
    while let Some(group) = rest.get(count) {
        if count > 0 && bytes + group.data.len() > PIECE_BYTES {
            let (piece, others) = rest.split_at(count);
            pieces.push(piece);
            (rest, bytes, count) = (others, 0, 0);
        }
        bytes += group.data.len();
        count += 1;
    }
    // Also without any commit there is a fold or a segment to note.
    pieces.push(rest);
    pieces
}
