//! What the last owner left in segments: read back in order, and told apart from what was cut off and from damage.
//!
//! A record is written only when the one before it is synced, and a segment only when the one before it is full. So
//! nothing whole stands behind a commit that was cut off: where something does, acknowledged events are unreadable.

use super::header::{Head, Header};
use super::record::{self, Recovered};
use super::{START, Segment};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The segment files of a directory as they were found.
pub(crate) struct Left {
    pub(super) directory: PathBuf,
    pub(super) used: Vec<(Header, Segment)>,
    /// Files whose header says nothing.
    pub(super) unread: Vec<Segment>,
    /// Files that nothing was ever written to.
    pub(super) blank: Vec<PathBuf>,
    pub(super) next_name: u64,
}

/// A byte of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) path: Arc<Path>,
    pub(crate) byte: u64,
}

/// Acknowledged events that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) place: Place,
    pub(crate) problem: String,
}

/// What the database may lack.
#[derive(Default)]
pub(crate) struct Replay {
    /// Every whole record, in the order of the commits.
    pub(crate) records: Vec<(Place, Vec<Recovered>)>,
    /// The database has been at least this far.
    pub(crate) revision: u64,
    /// A commit that was cut off: from there on nothing is read. It was never acknowledged.
    pub(crate) torn: Option<Place>,
    pub(crate) damage: Option<Damage>,
}

/// The records of one segment.
struct Contents {
    path: Arc<Path>,
    header: Header,
    records: Vec<(Place, Vec<Recovered>)>,
    revision: u64,
    /// Where the last whole record ends.
    end: u64,
    /// A whole record that stands behind something that is none.
    behind: Option<u64>,
    /// The header of a record follows the last whole one.
    is_cut: bool,
}

impl Left {
    /// Looks at every segment file of the directory, and changes nothing.
    pub(crate) fn scan(directory: &Path) -> io::Result<Self> {
        let mut left = Self {
            directory: directory.to_owned(),
            used: Vec::new(),
            unread: Vec::new(),
            blank: Vec::new(),
            next_name: 0,
        };
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            let Some(number) = number_of(&path) else { continue };
            left.next_name = left.next_name.max(number + 1);
            let file = OpenOptions::new().read(true).write(true).open(&path)?;
            let size = file.metadata()?.len();
            let mut segment = Segment { path, file, serial: 0, size, is_stale: true };
            let start = segment.read(0, START + record::HEADER as u64)?;
            let is_record =
                start.get(START as usize..).is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0));
            match Head::of(&start) {
                Head::Sound(header) => {
                    segment.serial = header.serial;
                    left.used.push((header, segment));
                }
                Head::Blank if !is_record => left.blank.push(segment.path),
                Head::Blank | Head::Unreadable => left.unread.push(segment),
            }
        }
        left.used.sort_by_key(|(header, _)| header.serial);
        Ok(left)
    }

    /// True when a log has written to these files.
    pub(crate) fn is_used(&self) -> bool {
        !self.used.is_empty()
    }

    /// The last use of a file so far.
    pub(crate) fn last_serial(&self) -> u64 {
        self.used.iter().map(|(header, _)| header.serial).max().unwrap_or(0)
    }

    /// Reads what that run of the log wrote after the segment `settled`, which is the last that the database has whole.
    /// Of other runs only their headers are looked at: what they wrote is in the database, or belongs to a history that
    /// it does not have.
    pub(crate) fn replay(&mut self, boot: u64, settled: u64) -> io::Result<Replay> {
        let mut replay = Replay::default();
        let mut contents: BTreeMap<u64, Contents> = BTreeMap::new();
        for (header, segment) in &mut self.used {
            replay.revision = replay.revision.max(header.revision);
            if header.boot != boot || header.serial <= settled {
                continue;
            }
            let found = Contents::read(*header, segment)?;
            // A header that could not be synced may stand in a second file, with nothing behind it.
            if contents.get(&header.serial).is_none_or(|other| other.end < found.end) {
                contents.insert(header.serial, found);
            }
        }
        for segment in &mut self.unread {
            replay.damage = replay.damage.or(lost_with_its_header(segment, settled)?);
        }
        replay.damage = replay.damage.or_else(|| damage(&contents, settled, &self.directory));
        let last = contents.keys().last().copied();
        for (serial, found) in contents {
            replay.revision = replay.revision.max(found.revision);
            replay.records.extend(found.records);
            if found.is_cut && Some(serial) == last {
                replay.torn = Some(Place { path: found.path, byte: found.end });
            }
        }
        Ok(replay)
    }
}

/// The first place at which acknowledged events are missing.
fn damage(contents: &BTreeMap<u64, Contents>, settled: u64, directory: &Path) -> Option<Damage> {
    let mut expected = settled + 1;
    for found in contents.values() {
        if found.header.serial != expected {
            let place = Place { path: directory.into(), byte: 0 };
            let problem = format!("its segment with serial {expected} is missing");
            return Some(Damage { place, problem });
        }
        expected += 1;
        let next = contents.get(&expected);
        let place = Place { path: found.path.clone(), byte: found.end };
        if let Some(behind) = found.behind {
            let problem = format!("a whole commit stands behind it, at byte {behind}");
            return Some(Damage { place, problem });
        }
        if let Some(end) = next.map(|next| next.header.previous_end).filter(|end| *end > found.end) {
            return Some(Damage { place, problem: format!("its commits went up to byte {end}") });
        }
    }
    None
}

/// A file with an unreadable header holds commits that nothing else has. When the power goes while a file is put to use
/// again, its header may be unreadable too, but what is in it has been settled.
fn lost_with_its_header(segment: &mut Segment, settled: u64) -> io::Result<Option<Damage>> {
    let bytes = segment.read(START, segment.size)?;
    let serial = record::serial_at(&bytes).filter(|serial| *serial > settled);
    let lost = serial.is_some_and(|serial| record::decode(&bytes, serial).is_some());
    let place = Place { path: segment.path.as_path().into(), byte: 0 };
    Ok(lost
        .then(|| Damage { place, problem: "its header cannot be read, and commits stand behind it".into() }))
}

impl Contents {
    fn read(header: Header, segment: &mut Segment) -> io::Result<Self> {
        let bytes = segment.read(START, segment.size)?;
        let path: Arc<Path> = segment.path.as_path().into();
        let (mut at, mut revision, mut records) = (0, 0, Vec::new());
        while let Some(record) = record::decode(&bytes[at..], header.serial) {
            records.push((Place { path: path.clone(), byte: START + at as u64 }, record.groups));
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
    /// The bytes of the file from one place to another, or to its end.
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
