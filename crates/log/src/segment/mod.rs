//! Pre-written files in front of the database: a commit is one write and one `fdatasync` of already allocated blocks.
//!
//! SQLite alone commits as safely, and under 50,000 deltas/s its slowest hundredth took thirty times as long
//! (`cargo xtask bench log` measures both sides). What is in a segment is settled in the database moments later,
//! and the file is used again.

mod header;
mod left;
pub(crate) mod record;

pub(crate) use left::{Damage, Left, Place, Replay};

use crate::batch::Group;
use crate::sqlite::Revision;
use header::Header;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
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
}

/// The segments of a log: one that is written, some that wait to be settled, some that are free.
pub(crate) struct Segments {
    current: Option<Segment>,
    offset: u64,
    waiting: VecDeque<Segment>,
    spares: Arc<Spares>,
    next_serial: u64,
    boot: u64,
    revision: Revision,
    /// A record that failed may be whole at the current place, and must not be found there.
    dirty: bool,
    buffer: Vec<u8>,
}

/// Files that are free to use. Making one takes as long as many commits, so it is done beside them.
pub(crate) struct Spares {
    directory: PathBuf,
    /// Room in one segment. A record that is larger gets a file of its own size.
    size: u64,
    next_name: AtomicU64,
    free: Mutex<Vec<Segment>>,
}

/// How many files are ready at any time: one is in use moments after another.
const READY: usize = 2;

impl Segments {
    /// What was left is in the database or of no use: its files are written anew, under this boot. Every record tells how
    /// far the database was.
    pub(crate) fn begin(left: Left, boot: u64, revision: Revision, size: u64) -> io::Result<Self> {
        let next_serial = left.last_serial() + 1;
        // Files that may not be whole, or hold records of any serial, are made anew.
        for path in left.blank.into_iter().chain(left.unread.into_iter().map(|segment| segment.path)) {
            std::fs::remove_file(path)?;
        }
        let spares = Spares {
            directory: left.directory,
            size: size.max(2 * START),
            next_name: AtomicU64::new(left.next_name),
            free: Mutex::new(left.used.into_iter().map(|(_, segment)| segment).collect()),
        };
        Ok(Self {
            current: None,
            offset: START,
            waiting: VecDeque::new(),
            spares: Arc::new(spares),
            next_serial,
            boot,
            revision,
            dirty: false,
            buffer: Vec::new(),
        })
    }

    /// Makes these events durable. Returns the serial of the segment that holds them.
    pub(crate) fn append(&mut self, groups: &[Group]) -> io::Result<u64> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = self.append_with(groups, &mut buffer);
        if buffer.capacity() <= KEPT_BUFFER {
            self.buffer = buffer;
        }
        result
    }

    fn append_with(&mut self, groups: &[Group], buffer: &mut Vec<u8>) -> io::Result<u64> {
        let serial = self.current.as_ref().map_or(self.next_serial, |segment| segment.serial);
        let revision = self.revision.get();
        record::encode(groups, serial, revision, buffer);
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

    /// Everything up to this serial is in the database: those files can be used again.
    pub(crate) fn settled(&mut self, serial: u64) {
        while self.waiting.front().is_some_and(|segment| segment.serial <= serial) {
            if let Some(segment) = self.waiting.pop_front() {
                self.spares.give_back(segment);
            }
        }
    }

    /// The files that are free, for the thread that keeps some ready.
    pub(crate) fn spares(&self) -> Arc<Spares> {
        self.spares.clone()
    }

    fn rotate(&mut self, needed: u64) -> io::Result<()> {
        if let Some(segment) = self.current.as_ref().filter(|_| self.dirty) {
            // Nothing will be written over it here any more.
            let room = segment.size.saturating_sub(self.offset).min(record::HEADER as u64);
            segment.file.write_all_at(&[0; record::HEADER][..room as usize], self.offset)?;
            segment.file.sync_data()?;
            self.dirty = false;
        }
        let mut segment = self.spares.take(START + needed)?;
        segment.serial = self.next_serial;
        let (serial, boot, revision) = (segment.serial, self.boot, self.revision.get());
        let header = Header { serial, boot, revision, previous_end: self.offset };
        if let Err(error) = header.write(&segment) {
            self.spares.lock().push(segment);
            return Err(error);
        }
        turnstream_failpoint::reach("log.segment.rotated");
        self.next_serial += 1;
        self.offset = START;
        self.waiting.extend(self.current.replace(segment));
        Ok(())
    }
}

impl Spares {
    /// Has files ready before they are needed.
    pub(crate) fn top_up(&self) -> io::Result<()> {
        while self.lock().len() < READY {
            let segment = self.make(self.size)?;
            self.lock().push(segment);
        }
        Ok(())
    }

    /// Takes a file back that is settled. One that was made for a large record goes.
    fn give_back(&self, segment: Segment) {
        if segment.size <= self.size || std::fs::remove_file(&segment.path).is_err() {
            self.lock().push(segment);
        }
    }

    /// A file with so much room: a free one, or else a new one.
    fn take(&self, room: u64) -> io::Result<Segment> {
        let size = self.size.max(room);
        let mut free = self.lock();
        if let Some(index) = free.iter().position(|segment| segment.size >= size) {
            return Ok(free.swap_remove(index));
        }
        drop(free);
        self.make(size)
    }

    /// Makes one more file and writes all of it: blocks that are allocated and written sync twice as fast.
    fn make(&self, size: u64) -> io::Result<Segment> {
        let name = self.next_name.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.join(format!("segment-{name}"));
        let made = self.make_at(&path, size);
        if made.is_err() {
            // On a full disk what is left of it would be in the way; if it cannot go, it is taken up at the next start.
            let _ = std::fs::remove_file(&path);
        }
        made
    }

    fn make_at(&self, path: &Path, size: u64) -> io::Result<Segment> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        let zeros = vec![0; 1 << 20];
        let mut left = size;
        while left > 0 {
            let piece = left.min(zeros.len() as u64);
            file.write_all(&zeros[..piece as usize])?;
            left -= piece;
        }
        turnstream_failpoint::reach("log.segment.make");
        file.sync_all()?;
        File::open(&self.directory)?.sync_all()?;
        turnstream_failpoint::reach("log.segment.made");
        Ok(Segment { path: path.to_owned(), file, serial: 0, size })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Segment>> {
        // A push or a take cannot panic half-way.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
