//! Reads the segments that the last run left, and tells an incomplete last commit from damage.
//!
//! A record is written only after the previous one is synced, and a segment only after the previous one is
//! full. So no complete record can follow an incomplete commit. If one does, acknowledged events are
//! unreadable.

use super::header::{Head, Header};
use super::record::{self, RecoveredGroup};
use super::{START, Segment};
use crate::error::StoreFault;
use crate::store::StoreError;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::debug;

/// The segment files of a directory, as found.
pub(crate) struct ScannedSegments {
    pub(super) directory: PathBuf,
    pub(super) used: Vec<(Header, Segment)>,
    /// Files without a valid header.
    pub(super) unread: Vec<Segment>,
    /// Files that were never written to.
    pub(super) blank: Vec<PathBuf>,
    pub(super) next_name: u64,
}

/// A byte position in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilePosition {
    pub(crate) path: Arc<Path>,
    pub(crate) byte: u64,
}

/// Acknowledged events that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) position: FilePosition,
    pub(crate) problem: StoreFault,
}

/// What the database may lack.
#[derive(Default)]
pub(crate) struct Replay {
    /// Every complete record, in commit order.
    pub(crate) records: Vec<(FilePosition, Vec<RecoveredGroup>)>,
    /// A revision that the database had reached.
    pub(crate) revision: u64,
    /// Where an incomplete last commit begins. It was never acknowledged.
    pub(crate) torn: Option<FilePosition>,
    pub(crate) damage: Option<Damage>,
}

/// The records of one segment.
struct Contents {
    path: Arc<Path>,
    header: Header,
    records: Vec<(FilePosition, Vec<RecoveredGroup>)>,
    revision: u64,
    /// Where the last complete record ends.
    end: u64,
    /// The position of a complete record after an invalid one.
    behind: Option<u64>,
    /// A record header follows the last complete record.
    is_cut: bool,
}

impl ScannedSegments {
    /// Scans every segment file of the directory. Changes nothing.
    pub(crate) fn scan(directory: &Path) -> io::Result<Self> {
        let mut scanned = Self {
            directory: directory.to_owned(),
            used: Vec::new(),
            unread: Vec::new(),
            blank: Vec::new(),
            next_name: 0,
        };
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            let Some(number) = number_of(&path) else { continue };
            scanned.next_name = scanned.next_name.max(number + 1);
            let file = OpenOptions::new().read(true).write(true).open(&path)?;
            let size = file.metadata()?.len();
            let mut segment = Segment { path, file, serial: 0, size, is_stale: true };
            let start = segment.read(0, START + record::HEADER as u64)?;
            let is_record =
                start.get(START as usize..).is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0));
            match Head::of(&start) {
                Head::Sound(header) => {
                    segment.serial = header.serial;
                    scanned.used.push((header, segment));
                }
                Head::Blank if !is_record => scanned.blank.push(segment.path),
                Head::Blank | Head::Unreadable => scanned.unread.push(segment),
            }
        }
        scanned.used.sort_by_key(|(header, _)| header.serial);
        Ok(scanned)
    }

    /// True if a log has written to these files.
    pub(crate) fn is_used(&self) -> bool {
        !self.used.is_empty()
    }

    /// The highest serial so far.
    pub(crate) fn last_serial(&self) -> u64 {
        self.used.iter().map(|(header, _)| header.serial).max().unwrap_or(0)
    }

    /// Removes a file whose events are in the database. `note` records that: a file that is missing without
    /// it would count as damage.
    pub(crate) fn discard(
        &mut self,
        path: &Path,
        note: impl FnOnce(u64) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let Some(place) = self.used.iter().position(|(_, segment)| segment.path == path) else {
            return Ok(());
        };
        note(self.used[place].0.serial)?;
        std::fs::remove_file(path)?;
        // Closing it frees its room.
        self.used.remove(place);
        debug!(path = %path.display(), "removed a recovered segment file, because the disk is full");
        Ok(())
    }

    /// Reads what the run `boot` wrote after the segment `flushed`, the last one that the database has
    /// completely. Of other runs only the headers are read: their events are in the database, or belong to a
    /// history that it does not have.
    pub(crate) fn replay(&mut self, boot: u64, flushed: u64) -> io::Result<Replay> {
        let mut replay = Replay::default();
        let mut contents: BTreeMap<u64, Contents> = BTreeMap::new();
        for (header, segment) in &mut self.used {
            replay.revision = replay.revision.max(header.revision);
            if header.boot != boot || header.serial <= flushed {
                continue;
            }
            let found = Contents::read(*header, segment)?;
            // A header whose sync failed may also be in a second file, without records after it.
            if contents.get(&header.serial).is_none_or(|other| other.end < found.end) {
                contents.insert(header.serial, found);
            }
        }
        for segment in &mut self.unread {
            replay.damage = replay.damage.or(lost_with_its_header(segment, flushed)?);
        }
        replay.damage = replay.damage.or_else(|| damage(&contents, flushed, &self.directory));
        let last = contents.keys().last().copied();
        for (serial, found) in contents {
            replay.revision = replay.revision.max(found.revision);
            replay.records.extend(found.records);
            if found.is_cut && Some(serial) == last {
                replay.torn = Some(FilePosition { path: found.path, byte: found.end });
            }
        }
        Ok(replay)
    }
}

/// The first position at which acknowledged events are missing.
fn damage(contents: &BTreeMap<u64, Contents>, flushed: u64, directory: &Path) -> Option<Damage> {
    let mut expected = flushed + 1;
    for found in contents.values() {
        if found.header.serial != expected {
            let position = FilePosition { path: directory.into(), byte: 0 };
            let problem = StoreFault::new(format!("its segment with serial {expected} is missing"));
            return Some(Damage { position, problem });
        }
        expected += 1;
        let next = contents.get(&expected);
        let position = FilePosition { path: found.path.clone(), byte: found.end };
        if let Some(behind) = found.behind {
            let problem = StoreFault::new(format!("a complete commit follows it, at byte {behind}"));
            return Some(Damage { position, problem });
        }
        if let Some(end) = next.map(|next| next.header.previous_end).filter(|end| *end > found.end) {
            let problem = StoreFault::new(format!("its commits reached up to byte {end}"));
            return Some(Damage { position, problem });
        }
    }
    None
}

/// Damage if a file with an invalid header holds records that are not flushed. A power cut during reuse of a
/// file can also leave an invalid header, but then the records are flushed.
fn lost_with_its_header(segment: &mut Segment, flushed: u64) -> io::Result<Option<Damage>> {
    let bytes = segment.read(START, segment.size)?;
    let serial = record::serial_at(&bytes).filter(|serial| *serial > flushed);
    let lost = serial.is_some_and(|serial| record::decode(&bytes, serial).is_some());
    let position = FilePosition { path: segment.path.as_path().into(), byte: 0 };
    Ok(lost.then(|| Damage {
        position,
        problem: StoreFault::new("its header cannot be read, and commits follow it"),
    }))
}

impl Contents {
    fn read(header: Header, segment: &mut Segment) -> io::Result<Self> {
        let bytes = segment.read(START, segment.size)?;
        let path: Arc<Path> = segment.path.as_path().into();
        let (mut at, mut revision, mut records) = (0, 0, Vec::new());
        while let Some(record) = record::decode(&bytes[at..], header.serial) {
            records.push((FilePosition { path: path.clone(), byte: START + at as u64 }, record.groups));
            revision = revision.max(record.revision);
            at += record.length;
        }
        let end = START + at as u64;
        let behind = record::find(&bytes[at..], header.serial).map(|distance| end + distance as u64);
        let is_cut = record::serial_at(&bytes[at..]) == Some(header.serial);
        Ok(Self { path, header, records, revision, end, behind, is_cut })
    }
}

impl Segment {
    /// Reads the bytes of the file between two positions, or to its end.
    fn read(&mut self, from: u64, to: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(from))?;
        (&self.file).take(to.saturating_sub(from)).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

fn number_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("segment-")?.parse().ok()
}
