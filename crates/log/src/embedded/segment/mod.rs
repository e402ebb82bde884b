//! Segment files in front of the database: a commit is one write and one `fdatasync` of allocated blocks.
//!
//! SQLite alone is as safe, but at 50,000 deltas/s the slowest 1% of its commits took thirty times as long
//! (`cargo xtask bench log` measures both). The events of a segment are flushed into the database soon after,
//! and the file is reused.

mod header;
pub(crate) mod record;
mod scan;

pub(crate) use scan::{Damage, FilePosition, Replay, ScannedSegments};

use super::sqlite::Revision;
use crate::batch::Group;
use crate::error::is_disk_full;
use header::Header;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::{debug, warn};
use turnstream_model::Chain;

/// The size of the file header. Records begin after it, at a block boundary.
const START: u64 = 4096;

/// A larger write buffer is freed after the commit that needed it.
const KEPT_BUFFER: usize = 4 << 20;

/// A segment file.
struct Segment {
    path: PathBuf,
    file: File,
    serial: u64,
    size: u64,
    /// It holds records of this use or an earlier one.
    is_stale: bool,
}

/// The current segment of a log, and the pool of the others.
pub(crate) struct Segments {
    current: Option<Segment>,
    offset: u64,
    pool: Arc<SegmentPool>,
    next_serial: u64,
    boot: u64,
    revision: Revision,
    /// A failed record may be complete at the current offset, and recovery must not find it there.
    dirty: bool,
    buffer: Vec<u8>,
}

/// Segments that wait for the flusher, and free ones. Creating a file takes as long as many commits, so the
/// flusher does it ahead of time.
pub(crate) struct SegmentPool {
    directory: PathBuf,
    /// The size of a segment. A larger record gets a file of its own size.
    size: u64,
    next_name: AtomicU64,
    /// There will be no further commit, so no files are needed.
    is_closing: AtomicBool,
    /// The serial of the current segment; 0 before the first commit.
    current: AtomicU64,
    /// The next commit must go into a new segment.
    is_rotation_requested: AtomicBool,
    /// The room on the disk is for a removal: no file is created for a commit.
    is_room_taken: AtomicBool,
    /// The writer needed a file, and the disk had no room for it.
    lacks_room: AtomicBool,
    files: Mutex<Files>,
}

#[derive(Default)]
struct Files {
    /// Full segments that are not flushed yet, oldest first.
    waiting: VecDeque<Segment>,
    free: Vec<Segment>,
}

/// The number of free files to keep ready.
const READY: usize = 2;

/// How a new file is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// A commit waits for it.
    Fast,
    /// In the background: a single sync of the whole file would delay commits.
    InSteps,
}

/// Bytes per write of a new file.
const STEP: usize = 256 * 1024;

impl Segments {
    /// Takes over the files of earlier runs, whose records are in the database or no longer needed. Every new
    /// record carries the boot id and the revision of the database.
    pub(crate) fn begin(
        scanned: ScannedSegments,
        boot: u64,
        revision: Revision,
        size: u64,
    ) -> io::Result<Self> {
        let next_serial = scanned.last_serial() + 1;
        // Incomplete files, and files that may hold records of any serial, are created again.
        for path in scanned.blank.into_iter().chain(scanned.unread.into_iter().map(|segment| segment.path)) {
            debug!(path = %path.display(), "removing an unusable segment file");
            std::fs::remove_file(path)?;
            turnstream_failpoint::reach("log.segment.remove");
        }
        let pool = SegmentPool {
            directory: scanned.directory,
            size: size.max(2 * START),
            next_name: AtomicU64::new(scanned.next_name),
            is_closing: AtomicBool::new(false),
            current: AtomicU64::new(0),
            is_rotation_requested: AtomicBool::new(false),
            is_room_taken: AtomicBool::new(false),
            lacks_room: AtomicBool::new(false),
            files: Mutex::new(Files {
                waiting: VecDeque::new(),
                free: scanned.used.into_iter().map(|(_, segment)| segment).collect(),
            }),
        };
        Ok(Self {
            current: None,
            offset: START,
            pool: Arc::new(pool),
            next_serial,
            boot,
            revision,
            dirty: false,
            buffer: Vec::new(),
        })
    }

    /// Makes these events durable. Returns the serial of the segment that holds them.
    pub(crate) fn append<'a>(&mut self, groups: impl Iterator<Item = &'a Group> + Clone) -> io::Result<u64> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = self.append_with(groups, &mut buffer);
        if buffer.capacity() <= KEPT_BUFFER {
            self.buffer = buffer;
        }
        result
    }

    fn append_with<'a>(
        &mut self,
        groups: impl Iterator<Item = &'a Group> + Clone,
        buffer: &mut Vec<u8>,
    ) -> io::Result<u64> {
        if groups.clone().next().is_none() {
            // An earlier try of this commit may have written a record.
            self.erase()?;
            return Ok(self.next_serial - 1);
        }
        let serial = self.current.as_ref().map_or(self.next_serial, |segment| segment.serial);
        let revision = self.revision.get();
        record::encode(groups.clone(), serial, revision, buffer);
        let fits =
            self.current.as_ref().is_some_and(|segment| self.offset + buffer.len() as u64 <= segment.size);
        if !fits {
            self.rotate(buffer.len() as u64)?;
            let serial = self.current.as_ref().map_or(0, |segment| segment.serial);
            record::encode(groups, serial, revision, buffer);
        }
        let Some(segment) = &self.current else { return Err(io::Error::other("no segment to write to")) };
        self.dirty = true;
        turnstream_failpoint::reach("log.before_write");
        segment.file.write_all_at(buffer, self.offset)?;
        turnstream_failpoint::reach("log.before_sync");
        segment.file.sync_data()?;
        turnstream_failpoint::reach("log.after_sync");
        // Only after the sync: a failed record is written again at the same offset, which makes its pages
        // dirty again.
        self.offset += buffer.len() as u64;
        self.dirty = false;
        Ok(segment.serial)
    }

    /// The pool, for the thread that keeps free files ready.
    pub(crate) fn pool(&self) -> Arc<SegmentPool> {
        self.pool.clone()
    }

    /// Makes sure that recovery does not find a failed record at the current offset.
    fn erase(&mut self) -> io::Result<()> {
        if let Some(segment) = self.current.as_ref().filter(|_| self.dirty) {
            let room = segment.size.saturating_sub(self.offset).min(record::HEADER as u64);
            segment.file.write_all_at(&[0; record::HEADER][..room as usize], self.offset)?;
            turnstream_failpoint::reach("log.segment.erase");
            segment.file.sync_data()?;
            self.dirty = false;
        }
        Ok(())
    }

    fn rotate(&mut self, needed: u64) -> io::Result<()> {
        // Nothing will overwrite the failed record in this file any more.
        self.erase()?;
        let mut segment = self.pool.take_free(START + needed)?;
        segment.serial = self.next_serial;
        segment.is_stale = true;
        let (serial, boot, revision) = (segment.serial, self.boot, self.revision.get());
        let header = Header { serial, boot, revision, previous_end: self.offset };
        if let Err(error) = header.write(&segment) {
            self.pool.lock().free.push(segment);
            return Err(error);
        }
        debug!(serial, "changed to a new segment");
        turnstream_failpoint::reach("log.segment.rotated");
        self.next_serial += 1;
        self.offset = START;
        self.pool.lock().waiting.extend(self.current.replace(segment));
        // Only now: whoever reads the new serial finds the previous segment among the waiting ones.
        self.pool.current.store(serial, Ordering::Release);
        Ok(())
    }

    /// Changes to a new segment if that was requested, so that the current one can be erased after its flush.
    /// Returns the serial of the new segment.
    pub(crate) fn rotate_if_requested(&mut self) -> io::Result<Option<u64>> {
        if !self.pool.is_rotation_requested() {
            return Ok(None);
        }
        // Before the first commit there is no segment to leave.
        let turned = self.current.is_some();
        if turned {
            self.rotate(0)?;
        }
        // Only now: whoever requested the rotation takes this as its completion.
        self.pool.is_rotation_requested.store(false, Ordering::Release);
        Ok(self.current.as_ref().filter(|_| turned).map(|segment| segment.serial))
    }
}

impl Segment {
    fn erase(&self) -> io::Result<()> {
        let zeros = vec![0; STEP];
        let mut at = START;
        while at < self.size {
            let piece = (self.size - at).min(zeros.len() as u64);
            self.file.write_all_at(&zeros[..piece as usize], at)?;
            // In steps: a single sync of the whole file would delay commits.
            self.file.sync_data()?;
            turnstream_failpoint::reach("log.erase.segment");
            at += piece;
        }
        Ok(())
    }
}

impl Drop for Segments {
    fn drop(&mut self) {
        // A file that is being created need not be finished.
        self.pool.is_closing.store(true, Ordering::Relaxed);
    }
}

impl SegmentPool {
    /// Creates free files ahead of time.
    pub(crate) fn top_up(&self, pace: Pace) -> io::Result<()> {
        while self.lock().free.len() < READY {
            match self.make(self.size, pace) {
                Ok(segment) => self.lock().free.push(segment),
                // No further file is needed.
                Err(_) if self.is_closing.load(Ordering::Relaxed) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The room that [`SegmentPool::top_up`] needs at most.
    pub(crate) fn ready_bytes(&self) -> u64 {
        self.size.saturating_mul(READY as u64)
    }

    /// While the room is taken, a commit that finds no free file fails as on a full disk.
    pub(crate) fn take_room(&self, is_taken: bool) {
        self.is_room_taken.store(is_taken, Ordering::Relaxed);
    }

    /// Whether the last file that the writer needed could not be made, because the disk is full.
    pub(crate) fn lacks_room(&self) -> bool {
        self.lacks_room.load(Ordering::Relaxed)
    }

    /// The database has every event up to this serial: these files are free. A file of a large record is
    /// deleted.
    pub(crate) fn mark_flushed(&self, serial: u64) {
        while let Some(segment) = self.pop_flushed(serial) {
            if segment.size <= self.size {
                self.lock().free.push(segment);
                continue;
            }
            let path = segment.path.display();
            match std::fs::remove_file(&segment.path) {
                Ok(()) => {
                    debug!(%path, bytes = segment.size, "removed the segment file of a large commit");
                    turnstream_failpoint::reach("log.segment.discard");
                }
                Err(error) => {
                    warn!(%path, error = %Chain(&error), "a large segment file cannot be removed; it is reused");
                    self.lock().free.push(segment);
                }
            }
        }
    }

    /// The serial of the current segment; 0 before the first commit.
    pub(crate) fn current(&self) -> u64 {
        self.current.load(Ordering::Acquire)
    }

    /// Asks the writer to change to a new segment.
    pub(crate) fn request_rotation(&self) {
        self.is_rotation_requested.store(true, Ordering::Release);
    }

    /// False once the writer has changed to a new segment after a request. No commit that began before the
    /// request is then in progress.
    pub(crate) fn is_rotation_requested(&self) -> bool {
        self.is_rotation_requested.load(Ordering::Acquire)
    }

    /// True if every segment up to this one is flushed.
    pub(crate) fn are_flushed(&self, serial: u64) -> bool {
        self.lock().waiting.front().is_none_or(|oldest| oldest.serial > serial)
    }

    /// The newest serial of a free file that is not erased. `None` if there is no such file.
    pub(crate) fn stale(&self) -> Option<u64> {
        self.lock().free.iter().filter(|segment| segment.is_stale).map(|segment| segment.serial).max()
    }

    /// Overwrites one free file except for its header. Its events must be flushed and recorded as such: after
    /// a crash they are not in the file any more.
    pub(crate) fn erase_one(&self) -> io::Result<()> {
        let mut files = self.lock();
        let Some(place) = files.free.iter().position(|segment| segment.is_stale) else { return Ok(()) };
        let mut segment = files.free.swap_remove(place);
        drop(files);
        let erased = segment.erase();
        segment.is_stale = erased.is_err();
        self.lock().free.push(segment);
        erased
    }

    fn pop_flushed(&self, serial: u64) -> Option<Segment> {
        self.lock().waiting.pop_front_if(|segment| segment.serial <= serial)
    }

    /// A file with this much room, free or newly created.
    fn take_free(&self, room: u64) -> io::Result<Segment> {
        let size = self.size.max(room);
        let mut files = self.lock();
        if let Some(index) = files.free.iter().position(|segment| segment.size >= size) {
            self.lacks_room.store(false, Ordering::Relaxed);
            return Ok(files.free.swap_remove(index));
        }
        drop(files);
        if self.is_room_taken.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let made = self.make(size, Pace::Fast);
        let is_full = made.as_ref().err().is_some_and(|error| is_disk_full(error));
        self.lacks_room.store(is_full, Ordering::Relaxed);
        made
    }

    /// Creates a file and writes all of it: blocks that are allocated and written sync twice as fast.
    fn make(&self, size: u64, pace: Pace) -> io::Result<Segment> {
        let name = self.next_name.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.join(format!("segment-{name}"));
        let made = self.make_at(&path, size, pace);
        match &made {
            Ok(_) => debug!(path = %path.display(), bytes = size, "made a segment file"),
            Err(_) => {
                // On a full disk the partial file would be in the way.
                if let Err(error) = std::fs::remove_file(&path) {
                    let path = path.display();
                    debug!(%path, error = %Chain(&error), "no partial segment file to remove");
                }
            }
        }
        made
    }

    fn make_at(&self, path: &Path, size: u64, pace: Pace) -> io::Result<Segment> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        let zeros = vec![0; STEP];
        let mut left = size;
        while left > 0 {
            let piece = left.min(zeros.len() as u64);
            file.write_all(&zeros[..piece as usize])?;
            left -= piece;
            if pace == Pace::InSteps {
                file.sync_data()?;
                if self.is_closing.load(Ordering::Relaxed) {
                    return Err(io::Error::other("the log is closing"));
                }
            }
        }
        turnstream_failpoint::reach("log.segment.make");
        file.sync_all()?;
        turnstream_failpoint::reach("log.segment.synced");
        File::open(&self.directory)?.sync_all()?;
        turnstream_failpoint::reach("log.segment.made");
        Ok(Segment { path: path.to_owned(), file, serial: 0, size, is_stale: false })
    }

    fn lock(&self) -> MutexGuard<'_, Files> {
        // No panic can happen during a push or a removal.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Batch, Merge};
    use crate::queue::{Append, Content, Queue};
    use crate::session::Session;
    use crate::store::SessionRecord;
    use std::time::Instant;
    use tokio::sync::oneshot;
    use turnstream_model::cursor::{Generation, Seq};
    use turnstream_model::event::{Body, Draft};
    use turnstream_model::id::SessionId;
    use turnstream_model::time::Time;

    async fn batch() -> Batch {
        let generation = Generation::new("g").unwrap();
        let known = SessionRecord { key: 1, generation, epoch: 1, oldest: Seq(1), head: Seq(0) };
        let drafts = vec![Draft::new(Body::SessionEnded { reason: "r".into() })];
        let content = Content::Drafts(drafts, Time(1));
        let append = Append {
            session: Arc::new(Session::new(&SessionId::from("s"), &known)),
            epoch: 1,
            since: Instant::now(),
            permit: Queue::new(1).reserve(&content, 1).await.unwrap(),
            content,
            weight: 1,
            done: oneshot::channel().0,
        };
        Batch::of(vec![append], Merge::Nothing)
    }

    #[tokio::test]
    async fn while_a_removal_has_the_room_no_file_is_made_for_a_commit() {
        let directory = tempfile::tempdir().unwrap();
        let scanned = ScannedSegments::scan(directory.path()).unwrap();
        let mut segments = Segments::begin(scanned, 7, Revision::new(0), 8 * START).unwrap();
        let batch = batch().await;
        segments.pool().take_room(true);
        let error = segments.append(batch.groups.iter()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        segments.pool().take_room(false);
        segments.append(batch.groups.iter()).unwrap();
    }

    #[tokio::test]
    async fn a_record_that_failed_and_is_not_wanted_any_more_is_not_found() {
        let directory = tempfile::tempdir().unwrap();
        let records = || ScannedSegments::scan(directory.path()).unwrap().replay(7, 0).unwrap().records.len();
        let scanned = ScannedSegments::scan(directory.path()).unwrap();
        let mut segments = Segments::begin(scanned, 7, Revision::new(0), 8 * START).unwrap();
        let batch = batch().await;
        segments.append(batch.groups.iter()).unwrap();
        assert_eq!(records(), 1);
        // The bytes of the next record have reached the disk, but its sync has failed.
        let offset = segments.offset;
        segments.append(batch.groups.iter()).unwrap();
        (segments.offset, segments.dirty) = (offset, true);
        assert_eq!(records(), 2);
        segments.append(std::iter::empty()).unwrap();
        assert_eq!(records(), 1);
    }
}
