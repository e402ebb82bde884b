//! Pre-written files in front of the database: a commit is one write and one `fdatasync` of already allocated blocks.
//!
//! SQLite alone commits as safely, and under 50,000 deltas/s its slowest hundredth took thirty times as long
//! (`cargo xtask bench log` measures both sides). What is in a segment is settled in the database moments later,
//! and the file is used again.

pub(crate) mod record;

use crate::batch::Group;
use record::Recovered;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The file's own header; records begin behind it, at a block of their own.
const START: u64 = 4096;
const MAGIC: &[u8; 8] = b"turnseg1";

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

/// What was found in the segments of a log that was not closed.
pub(crate) struct Replay {
    /// Every whole record, in the order of the commits.
    pub(crate) groups: Vec<Recovered>,
    /// A commit that was cut off: which file, and from where on it is not read. It was never acknowledged.
    pub(crate) torn: Option<(PathBuf, u64)>,
}

impl Segments {
    /// Reads what the owner of that boot left. Segments of another boot belong to another history: the database was
    /// restored, or has them already.
    pub(crate) fn open(directory: &Path, boot: Option<u64>, size: u64) -> io::Result<(Self, Replay)> {
        let mut found: Vec<(bool, Segment)> = Vec::new();
        let mut next_name = 0;
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            let Some(number) = number_of(&path) else { continue };
            next_name = next_name.max(number + 1);
            let mut file = OpenOptions::new().read(true).write(true).open(&path)?;
            let size = file.metadata()?.len();
            match read_header(&mut file)? {
                Some((serial, theirs)) => {
                    found.push((Some(theirs) == boot, Segment { path, file, serial, size }));
                }
                // Its making was cut off: nothing was ever written to it.
                None => std::fs::remove_file(&path)?,
            }
        }
        found.sort_by_key(|(_, segment)| segment.serial);
        let next_serial = found.last().map_or(1, |(_, segment)| segment.serial + 1);
        let mut replay = Replay { groups: Vec::new(), torn: None };
        for (_, segment) in found.iter_mut().filter(|(ours, _)| *ours) {
            segment.replay(&mut replay)?;
        }
        let spares = Spares {
            directory: directory.to_owned(),
            size: size.max(2 * START),
            next_name: AtomicU64::new(next_name),
            free: Mutex::new(found.into_iter().map(|(_, segment)| segment).collect()),
        };
        let segments = Self {
            current: None,
            offset: 0,
            waiting: VecDeque::new(),
            spares: Arc::new(spares),
            next_serial,
            boot: 0,
            dirty: false,
            buffer: Vec::new(),
        };
        Ok((segments, replay))
    }

    /// What was replayed is in the database; from here on the files are written under this boot.
    pub(crate) fn begin(&mut self, boot: u64) {
        self.boot = boot;
    }

    /// Makes these events durable. Returns the serial of the segment that holds them.
    pub(crate) fn append(&mut self, groups: &[Group]) -> io::Result<u64> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = self.append_with(groups, &mut buffer);
        self.buffer = buffer;
        result
    }

    fn append_with(&mut self, groups: &[Group], buffer: &mut Vec<u8>) -> io::Result<u64> {
        let serial = self.current.as_ref().map_or(self.next_serial, |segment| segment.serial);
        record::encode(groups, serial, buffer);
        let fits =
            self.current.as_ref().is_some_and(|segment| self.offset + buffer.len() as u64 <= segment.size);
        if !fits {
            self.rotate(buffer.len() as u64)?;
            let serial = self.current.as_ref().map_or(0, |segment| segment.serial);
            record::encode(groups, serial, buffer);
        }
        let Some(segment) = &self.current else { return Err(io::Error::other("no segment to write to")) };
        self.dirty = true;
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
            self.spares.lock().extend(self.waiting.pop_front());
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
        if let Err(error) = segment.write_header(self.boot) {
            self.spares.lock().push(segment);
            return Err(error);
        }
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
        file.sync_all()?;
        File::open(&self.directory)?.sync_all()?;
        Ok(Segment { path: path.to_owned(), file, serial: 0, size })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Segment>> {
        // A push or a take cannot panic half-way.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Segment {
    fn write_header(&self, boot: u64) -> io::Result<()> {
        let mut header = [0; 24];
        header[..8].copy_from_slice(MAGIC);
        header[8..16].copy_from_slice(&self.serial.to_le_bytes());
        header[16..].copy_from_slice(&boot.to_le_bytes());
        self.file.write_all_at(&header, 0)?;
        self.file.sync_data()
    }

    fn replay(&mut self, replay: &mut Replay) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(START))?;
        self.file.read_to_end(&mut bytes)?;
        let mut at = 0;
        while let Some((groups, length)) = record::decode(&bytes[at..], self.serial) {
            replay.groups.extend(groups);
            at += length;
        }
        // The header of a record of this segment without the rest of it: a commit that was cut off.
        let is_torn = bytes.get(at + 8..at + record::HEADER) == Some(&self.serial.to_le_bytes()[..]);
        if is_torn {
            replay.torn = Some((self.path.clone(), START + at as u64));
        }
        Ok(())
    }
}

fn number_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("segment-")?.parse().ok()
}

/// Serial and boot; `None` for a file that was never put to use.
fn read_header(file: &mut File) -> io::Result<Option<(u64, u64)>> {
    let mut header = [0; 24];
    match file.read_exact(&mut header) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
    Ok((&header[..8] == MAGIC).then(|| (number(&header[8..16]), number(&header[16..]))))
}
