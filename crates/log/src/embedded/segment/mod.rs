//! Pre-written files in front of the database: a commit is one write and one `fdatasync` of already allocated blocks.
//!
//! SQLite alone commits as safely, and under 50,000 deltas/s its slowest hundredth took thirty times as long
//! (`cargo xtask bench log` measures both sides). What is in a segment is settled in the database moments later,
//! and the file is used again.

mod header;
mod left;
pub(crate) mod record;

pub(crate) use left::{Damage, Left, Place, Replay};

use super::sqlite::Revision;
use crate::batch::Group;
use header::Header;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The file's own header; records begin behind it, at a block of their own.
const START: u64 = 4096;

/// A buffer that grew beyond this for one commit is given back after it.
const KEPT_BUFFER: usize = 4 << 20;

/// A file of records.
struct Segment {
    path: PathBuf,
    file: File,
    serial: u64,
    size: u64,
    /// It holds records of this or of an earlier use.
    is_stale: bool,
}

/// The segments of a log: one that is written, and the others.
pub(crate) struct Segments {
    current: Option<Segment>,
    offset: u64,
    spares: Arc<Spares>,
    next_serial: u64,
    boot: u64,
    revision: Revision,
    /// A record that failed may be whole at the current place, and must not be found there.
    dirty: bool,
    buffer: Vec<u8>,
}

/// Files that wait to be settled, and files that are free. Making one takes as long as many commits, so it is done beside
/// them.
pub(crate) struct Spares {
    directory: PathBuf,
    /// Room in one segment. A record that is larger gets a file of its own size.
    size: u64,
    next_name: AtomicU64,
    /// There will be no other commit, and no need for files.
    is_closing: AtomicBool,
    /// The segment that is written; 0 before the first commit.
    current: AtomicU64,
    /// The next commit shall go into another one.
    is_turn_wanted: AtomicBool,
    files: Mutex<Files>,
}

#[derive(Default)]
struct Files {
    /// Full ones, the oldest first.
    waiting: VecDeque<Segment>,
    free: Vec<Segment>,
}

/// How many files are ready at any time: one is in use moments after another.
const READY: usize = 2;

/// How a new file is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Somebody waits for it.
    Fast,
    /// Commits go on beside it: one sync of all of it would hold them up.
    InSteps,
}

/// What is written of a new file at a time.
const STEP: usize = 256 * 1024;

impl Segments {
    /// What was left is in the database or of no use: its files are written anew, under this boot. Every record tells how
    /// far the database was.
    pub(crate) fn begin(left: Left, boot: u64, revision: Revision, size: u64) -> io::Result<Self> {
        let next_serial = left.last_serial() + 1;
        // Files that may not be whole, or hold records of any serial, are made anew.
        for path in left.blank.into_iter().chain(left.unread.into_iter().map(|segment| segment.path)) {
            std::fs::remove_file(path)?;
            turnstream_failpoint::reach("log.segment.remove");
        }
        let spares = Spares {
            directory: left.directory,
            size: size.max(2 * START),
            next_name: AtomicU64::new(left.next_name),
            is_closing: AtomicBool::new(false),
            current: AtomicU64::new(0),
            is_turn_wanted: AtomicBool::new(false),
            files: Mutex::new(Files {
                waiting: VecDeque::new(),
                free: left.used.into_iter().map(|(_, segment)| segment).collect(),
            }),
        };
        Ok(Self {
            current: None,
            offset: START,
            spares: Arc::new(spares),
            next_serial,
            boot,
            revision,
            dirty: false,
            buffer: Vec::new(),
        })
    }

    /// Makes these events durable. Returns the serial of the segment that holds the last ones.
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
            // An attempt that failed may have had some.
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
        // Only now: a record that failed is written again at the same place, which makes its pages dirty again.
        self.offset += buffer.len() as u64;
        self.dirty = false;
        Ok(segment.serial)
    }

    /// The files that are free, for the thread that keeps some ready.
    pub(crate) fn spares(&self) -> Arc<Spares> {
        self.spares.clone()
    }

    /// Makes sure that a record that failed is not found at the current place.
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
        // Nothing will be written over it here any more.
        self.erase()?;
        let mut segment = self.spares.take(START + needed)?;
        segment.serial = self.next_serial;
        segment.is_stale = true;
        let (serial, boot, revision) = (segment.serial, self.boot, self.revision.get());
        let header = Header { serial, boot, revision, previous_end: self.offset };
        if let Err(error) = header.write(&segment) {
            self.spares.lock().free.push(segment);
            return Err(error);
        }
        turnstream_failpoint::reach("log.segment.rotated");
        self.next_serial += 1;
        self.offset = START;
        self.spares.lock().waiting.extend(self.current.replace(segment));
        // Only now: whoever sees this finds the one before among those that wait.
        self.spares.current.store(serial, Ordering::Release);
        Ok(())
    }

    /// Goes on in another file, if that is wanted, so that this one can be erased when it is settled. Returns the serial of
    /// the new one.
    pub(crate) fn turn_over_if_wanted(&mut self) -> io::Result<Option<u64>> {
        if !self.spares.is_turn_wanted() {
            return Ok(None);
        }
        // Where nothing was written yet, there is nothing to leave.
        let turned = self.current.is_some();
        if turned {
            self.rotate(0)?;
        }
        // Only now: whoever wanted it takes this for the sign that it is done.
        self.spares.is_turn_wanted.store(false, Ordering::Release);
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
            // In steps: one sync of all of it would hold up the commits beside it.
            self.file.sync_data()?;
            turnstream_failpoint::reach("log.erase.segment");
            at += piece;
        }
        Ok(())
    }
}

impl Drop for Segments {
    fn drop(&mut self) {
        // Whoever is making a file need not finish it.
        self.spares.is_closing.store(true, Ordering::Relaxed);
    }
}

impl Spares {
    /// Has files ready before they are needed.
    pub(crate) fn top_up(&self, pace: Pace) -> io::Result<()> {
        while self.lock().free.len() < READY {
            let segment = self.make(self.size, pace)?;
            self.lock().free.push(segment);
        }
        Ok(())
    }

    /// Everything up to this serial is in the database: those files can be used again. One that was made for a large
    /// record goes.
    pub(crate) fn settled(&self, serial: u64) {
        while let Some(segment) = self.next_settled(serial) {
            if segment.size <= self.size || std::fs::remove_file(&segment.path).is_err() {
                self.lock().free.push(segment);
            } else {
                turnstream_failpoint::reach("log.segment.discard");
            }
        }
    }

    /// The segment that is written; 0 before the first commit.
    pub(crate) fn current(&self) -> u64 {
        self.current.load(Ordering::Acquire)
    }

    /// The writer shall go on in another file.
    pub(crate) fn want_turn(&self) {
        self.is_turn_wanted.store(true, Ordering::Release);
    }

    /// False when the writer has gone on in another file since that was wanted. No commit is then under way that began
    /// before.
    pub(crate) fn is_turn_wanted(&self) -> bool {
        self.is_turn_wanted.load(Ordering::Acquire)
    }

    /// True when no segment up to this one waits to be settled.
    pub(crate) fn are_settled(&self, serial: u64) -> bool {
        self.lock().waiting.front().is_none_or(|oldest| oldest.serial > serial)
    }

    /// The newest use of a file that is free and was not erased; `None` when there is no such file.
    pub(crate) fn stale(&self) -> Option<u64> {
        self.lock().free.iter().filter(|segment| segment.is_stale).map(|segment| segment.serial).max()
    }

    /// Overwrites one free file, except for its header. It has to be settled, and noted as such: after a crash its records
    /// are not there any more.
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

    fn next_settled(&self, serial: u64) -> Option<Segment> {
        self.lock().waiting.pop_front_if(|segment| segment.serial <= serial)
    }

    /// A file with so much room: a free one, or else a new one.
    fn take(&self, room: u64) -> io::Result<Segment> {
        let size = self.size.max(room);
        let mut files = self.lock();
        if let Some(index) = files.free.iter().position(|segment| segment.size >= size) {
            return Ok(files.free.swap_remove(index));
        }
        drop(files);
        self.make(size, Pace::Fast)
    }

    /// Makes one more file and writes all of it: blocks that are allocated and written sync twice as fast.
    fn make(&self, size: u64, pace: Pace) -> io::Result<Segment> {
        let name = self.next_name.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.join(format!("segment-{name}"));
        let made = self.make_at(&path, size, pace);
        if made.is_err() {
            // On a full disk what is left of it would be in the way; if it cannot go, it is taken up at the next start.
            let _ = std::fs::remove_file(&path);
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
        // A push or a take cannot panic half-way.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Batch, Merge};
    use crate::queue::{Append, Content, Queue};
    use crate::session::Session;
    use crate::store::Known;
    use std::time::Instant;
    use tokio::sync::oneshot;
    use turnstream_model::cursor::{Generation, Seq};
    use turnstream_model::event::{Body, Draft};
    use turnstream_model::id::SessionId;
    use turnstream_model::time::Time;

    async fn batch() -> Batch {
        let generation = Generation::new("g").unwrap();
        let known = Known { key: 1, generation, epoch: 1, oldest: Seq(1), head: Seq(0) };
        let drafts = vec![Draft::new(Body::SessionEnded { reason: "r".into() })];
        let content = Content::Drafts(drafts, Time(1));
        let append = Append {
            session: Arc::new(Session::new(&SessionId::from("s"), &known)),
            epoch: 1,
            since: Instant::now(),
            permit: Queue::new(1).room(&content, 1).await.unwrap(),
            content,
            weight: 1,
            done: oneshot::channel().0,
        };
        Batch::of(vec![append], Merge::Nothing)
    }

    #[tokio::test]
    async fn a_record_that_failed_and_is_not_wanted_any_more_is_not_found() {
        let directory = tempfile::tempdir().unwrap();
        let records = || Left::scan(directory.path()).unwrap().replay(7, 0).unwrap().records.len();
        let left = Left::scan(directory.path()).unwrap();
        let mut segments = Segments::begin(left, 7, Revision::new(0), 8 * START).unwrap();
        let batch = batch().await;
        segments.append(batch.groups.iter()).unwrap();
        assert_eq!(records(), 1);
        // The bytes of the next one have come to the disk, and its sync has failed.
        let offset = segments.offset;
        segments.append(batch.groups.iter()).unwrap();
        (segments.offset, segments.dirty) = (offset, true);
        assert_eq!(records(), 2);
        segments.append(std::iter::empty()).unwrap();
        assert_eq!(records(), 1);
    }
}
