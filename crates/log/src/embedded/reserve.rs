//! Space kept in reserve: a file of allocated blocks that is emptied when the disk is full. What it frees is
//! for the two things that help then: opening the log, and deleting sessions.

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tracing::{debug, warn};

const NAME: &str = "reserve";

/// A reserve of this part of its size is better than none.
const LEAST_PART: u64 = 8;

/// A part of this size stays free beside the reserve: SQLite's write-ahead log and small files need it also
/// while nothing is deleted.
const WORKING_PART: u64 = 8;

/// The file, and how much of it is allocated.
pub(crate) struct Reserve {
    path: PathBuf,
    size: u64,
    allocated: u64,
    /// It was released, and is not whole again.
    is_released: bool,
}

impl Reserve {
    /// The reserve of a directory. A size of zero is none.
    pub(crate) fn of(directory: &Path, size: u64) -> Self {
        let path = directory.join(NAME);
        let allocated = path.metadata().map_or(0, |found| found.len());
        Self { path, size, allocated, is_released: false }
    }

    /// The full size.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// How much is allocated.
    pub(crate) fn allocated(&self) -> u64 {
        self.allocated
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.allocated >= self.size
    }

    /// Whether so many bytes can be used up without the space that the reserve needs, or that was released
    /// from it.
    pub(crate) fn leaves_room_for(&self, bytes: u64) -> bool {
        let missing = self.size.saturating_sub(self.allocated);
        !self.is_released && (self.size == 0 || self.available() >= missing.saturating_add(bytes))
    }

    /// It was released, and is not whole again.
    pub(crate) fn is_released(&self) -> bool {
        self.is_released
    }

    /// The room that stays free beside the reserve.
    pub(crate) fn working_room(&self) -> u64 {
        self.size / WORKING_PART
    }

    /// Whether so little room is left that transactions have to be small.
    pub(crate) fn is_tight(&self) -> bool {
        self.available() < self.size
    }

    /// The bytes that the file system still has for this user. If it does not say, there is room.
    pub(crate) fn available(&self) -> u64 {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        statvfs(directory).map_or(u64::MAX / 2, |found| found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Allocates the whole size, or as much of it as leaves the working room. The error is why it is not
    /// whole.
    pub(crate) fn make(&mut self) -> io::Result<()> {
        if self.is_whole() {
            return Ok(());
        }
        let file = File::options().create(true).truncate(false).write(true).open(&self.path)?;
        let room = self.available().saturating_sub(self.working_room());
        let mut wanted = self.allocated.saturating_add(room).min(self.size);
        let mut problem = None;
        while wanted > self.allocated && wanted >= self.size / LEAST_PART {
            match allocate(&file, wanted) {
                Ok(()) => {
                    self.allocated = wanted;
                    break;
                }
                Err(error) => problem = Some(error),
            }
            wanted /= 2;
        }
        if self.is_whole() {
            self.is_released = false;
            debug!(bytes = self.size, "space is kept in reserve for a full disk");
            return Ok(());
        }
        // Blocks that a failed try has left.
        file.set_len(self.allocated)?;
        Err(problem.unwrap_or_else(|| io::ErrorKind::StorageFull.into()))
    }

    /// Gives back what the working room lacks. A start needs it for files that are not part of the log.
    pub(crate) fn make_working_room(&mut self) -> io::Result<()> {
        let missing = self.working_room().saturating_sub(self.available()).min(self.allocated);
        if missing == 0 {
            return Ok(());
        }
        let left = self.allocated - missing;
        File::options().write(true).open(&self.path)?.set_len(left)?;
        warn!(bytes = missing, "the disk is full: a part of the space that was kept in reserve is released");
        self.allocated = left;
        Ok(())
    }

    /// Gives the space back. False if there was none.
    pub(crate) fn release(&mut self) -> io::Result<bool> {
        if self.allocated == 0 {
            return Ok(false);
        }
        File::options().write(true).open(&self.path)?.set_len(0)?;
        warn!(bytes = self.allocated, "the disk is full: the space that was kept in reserve is released");
        self.allocated = 0;
        self.is_released = true;
        Ok(true)
    }
}

/// Allocates blocks up to this length.
fn allocate(file: &File, length: u64) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, length) {
        Ok(()) => Ok(()),
        // The file system cannot allocate without writing.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_up_to(file, length),
        Err(error) => Err(error.into()),
    }
}

/// Writes zeros from the end of the file up to this length.
fn write_up_to(file: &File, length: u64) -> io::Result<()> {
    let zeros = vec![0; 256 * 1024];
    let mut at = file.metadata()?.len();
    while at < length {
        let piece = (length - at).min(zeros.len() as u64);
        file.write_all_at(&zeros[..piece as usize], at)?;
        at += piece;
    }
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::{Reserve, write_up_to};
    use std::fs::File;

    #[test]
    fn a_reserve_is_made_found_again_and_released_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut reserve = Reserve::of(directory.path(), 64 << 10);
        assert!(!reserve.release().unwrap(), "there is nothing to release");
        reserve.make().unwrap();
        let mut reserve = Reserve::of(directory.path(), 64 << 10);
        assert!(reserve.is_whole());
        assert!(reserve.release().unwrap());
        assert_eq!(directory.path().join("reserve").metadata().unwrap().len(), 0);
        assert!(!reserve.is_whole() && !reserve.release().unwrap());
        reserve.make().unwrap();
        assert_eq!(reserve.allocated(), 64 << 10);
    }

    #[test]
    fn without_allocation_a_file_is_written_from_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, [1; 100]).unwrap();
        write_up_to(&File::options().write(true).open(&path).unwrap(), 150).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), [[1; 50], [1; 50], [0; 50]].concat());
    }

    #[test]
    fn released_space_is_not_for_others_until_it_is_whole_again() {
        let directory = tempfile::tempdir().unwrap();
        let mut reserve = Reserve::of(directory.path(), 64 << 10);
        reserve.make().unwrap();
        assert!(reserve.leaves_room_for(1) && !reserve.leaves_room_for(1 << 60));
        assert!(reserve.release().unwrap());
        assert!(!reserve.leaves_room_for(1));
        reserve.make().unwrap();
        assert!(reserve.leaves_room_for(1));
    }

    #[test]
    fn a_disk_with_room_keeps_its_whole_reserve_at_a_start() {
        let directory = tempfile::tempdir().unwrap();
        let mut reserve = Reserve::of(directory.path(), 64 << 10);
        reserve.make().unwrap();
        reserve.make_working_room().unwrap();
        assert!(reserve.is_whole());
    }

    #[test]
    fn a_reserve_that_does_not_fit_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        // More than any disk has.
        let mut reserve = Reserve::of(directory.path(), 1 << 60);
        reserve.make().unwrap_err();
        assert_eq!((reserve.allocated(), reserve.is_whole()), (0, false));
        assert_eq!(directory.path().join("reserve").metadata().unwrap().len(), 0);
    }
}
