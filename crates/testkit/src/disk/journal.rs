//! The journal that the shim writes: one record per change and per completed sync.

use super::{DiskError, file};
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::Path;

/// The size and the magic number of `struct record` in `shim/watch.h`.
const HEAD: usize = 48;
const MAGIC: u32 = 0x4b53_4944;

/// All complete records, and the bytes that writes refer to.
pub(super) struct Journal {
    pub(super) bytes: Vec<u8>,
    pub(super) records: Vec<Record>,
}

/// A record, and the offset of its end in the journal. Syncs refer to that offset.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) end: u64,
    pub(super) what: What,
}

/// Paths are relative to the watched directory; the empty one is the directory itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum What {
    Write { inode: u64, offset: u64, data: Range<usize> },
    Truncate { inode: u64, length: u64 },
    Extend { inode: u64, length: u64 },
    Sync { inode: u64, covers: u64 },
    SyncFailed { inode: u64, covers: u64 },
    SyncDirectory { path: String, covers: u64 },
    SyncAll { covers: u64 },
    Create { inode: u64, mode: u32, path: String },
    MakeDirectory { path: String },
    Link { inode: u64, path: String },
    Rename { inode: u64, from: String, to: String },
    Remove { path: String },
    Unmodelled { path: String, what: String },
}

/// Reads all complete records.
pub(super) fn read(path: &Path) -> Result<Journal, DiskError> {
    let bytes = std::fs::read(path).map_err(file("read", path))?;
    let mut records = Vec::new();
    let mut at = 0;
    while let Some(record) = parse(&bytes, at)? {
        at = position(record.end);
        records.push(record);
    }
    Ok(Journal { bytes, records })
}

/// Removes a partial record that a kill left.
pub(super) fn drop_torn_tail(path: &Path) -> Result<(), DiskError> {
    let whole = read(path)?.records.last().map_or(0, |record| record.end);
    let journal = File::options().write(true).open(path).map_err(file("open", path))?;
    journal.set_len(whole).map_err(file("truncate", path))
}

/// Adds records. `data` is the content of a write, and empty for other records.
pub(super) fn append(path: &Path, records: &[(What, Vec<u8>)]) -> Result<(), DiskError> {
    let bytes: Vec<u8> = records.iter().flat_map(|(what, data)| encode(what, data)).collect();
    let mut journal = File::options().append(true).open(path).map_err(file("open", path))?;
    journal.write_all(&bytes).map_err(file("write", path))
}

fn encode(what: &What, data: &[u8]) -> Vec<u8> {
    let (kind, inode, a, path, other): (u32, u64, u64, &str, &str) = match what {
        What::Write { inode, offset, data: _ } => (1, *inode, *offset, "", ""),
        What::Truncate { inode, length } => (2, *inode, *length, "", ""),
        What::Extend { inode, length } => (3, *inode, *length, "", ""),
        What::Sync { inode, covers } => (4, *inode, *covers, "", ""),
        What::SyncFailed { inode, covers } => (5, *inode, *covers, "", ""),
        What::SyncDirectory { path, covers } => (6, 0, *covers, path, ""),
        What::SyncAll { covers } => (7, 0, *covers, "", ""),
        What::Create { inode, mode, path } => (8, *inode, u64::from(*mode), path, ""),
        What::MakeDirectory { path } => (9, 0, 0, path, ""),
        What::Link { inode, path } => (10, *inode, 0, path, ""),
        What::Rename { inode, from, to } => (11, *inode, 0, from, to),
        What::Remove { path } => (12, 0, 0, path, ""),
        What::Unmodelled { path, what } => (13, 0, 0, path, what),
    };
    let mut bytes = Vec::with_capacity(HEAD + path.len() + other.len() + data.len());
    bytes.extend([MAGIC, kind].iter().flat_map(|number| number.to_ne_bytes()));
    bytes.extend([inode, a, 0].iter().flat_map(|number| number.to_ne_bytes()));
    bytes.extend([path.len() as u32, other.len() as u32].iter().flat_map(|number| number.to_ne_bytes()));
    bytes.extend((data.len() as u64).to_ne_bytes());
    bytes.extend_from_slice(path.as_bytes());
    bytes.extend_from_slice(other.as_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// The record at `at`; `None` if it is incomplete.
fn parse(bytes: &[u8], at: usize) -> Result<Option<Record>, DiskError> {
    let Some(head) = bytes.get(at..at + HEAD) else { return Ok(None) };
    let broken = |reason: String| DiskError::Journal { at: at as u64, reason };
    let small = |offset: usize| {
        let mut number = [0; 4];
        number.copy_from_slice(&head[offset..offset + 4]);
        u32::from_ne_bytes(number)
    };
    let large = |offset: usize| u64::from(small(offset)) | u64::from(small(offset + 4)) << 32;
    if small(0) != MAGIC {
        return Err(broken("it does not start with the mark of a record".to_owned()));
    }
    let (inode, a) = (large(8), large(16));
    let path_end = at + HEAD + small(32) as usize;
    let other_end = path_end + small(36) as usize;
    let end = other_end + position(large(40));
    if end > bytes.len() {
        return Ok(None);
    }
    let text = |range: Range<usize>| {
        String::from_utf8(bytes[range].to_vec()).map_err(|_| broken("a file name is not UTF-8".to_owned()))
    };
    let path = text(at + HEAD..path_end)?;
    let other = text(path_end..other_end)?;
    let what = match small(4) {
        1 => What::Write { inode, offset: a, data: other_end..end },
        2 => What::Truncate { inode, length: a },
        3 => What::Extend { inode, length: a },
        4 => What::Sync { inode, covers: a },
        5 => What::SyncFailed { inode, covers: a },
        6 => What::SyncDirectory { path, covers: a },
        7 => What::SyncAll { covers: a },
        8 => What::Create { inode, mode: a as u32, path },
        9 => What::MakeDirectory { path },
        10 => What::Link { inode, path },
        11 => What::Rename { inode, from: path, to: other },
        12 => What::Remove { path },
        13 => What::Unmodelled { path, what: other },
        kind => return Err(broken(format!("kind {kind} is unknown"))),
    };
    Ok(Some(Record { end: end as u64, what }))
}

/// The journal is at most 1 GiB and the shim runs on 64-bit Linux only.
fn position(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::{What, append, drop_torn_tail, encode, read};

    #[test]
    fn a_journal_cut_at_any_byte_reads_as_its_whole_records_and_is_cut_back_to_them() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let first = encode(&What::Create { inode: 5, mode: 0o600, path: "a".to_owned() }, b"");
        let write = What::Write { inode: 5, offset: 0, data: 0..5 };
        let whole = [first.clone(), encode(&write, b"hello")].concat();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let expected = usize::from(cut >= first.len()) + usize::from(cut == whole.len());
            let journal = read(&path).unwrap();
            assert_eq!(journal.records.len(), expected, "cut at {cut}");
            drop_torn_tail(&path).unwrap();
            let kept = journal.records.last().map_or(0, |record| record.end);
            assert_eq!(std::fs::metadata(&path).unwrap().len(), kept);
        }
        std::fs::write(&path, &whole).unwrap();
        let journal = read(&path).unwrap();
        let What::Write { inode: 5, offset: 0, data } = &journal.records[1].what else {
            panic!("{:?}", journal.records[1])
        };
        assert_eq!(&journal.bytes[data.clone()], b"hello");
    }

    #[test]
    fn every_record_reads_back_as_it_was_added() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let text = str::to_owned;
        let added = [
            What::Truncate { inode: 1, length: 2 },
            What::Extend { inode: 1, length: 3 },
            What::Sync { inode: 1, covers: 4 },
            What::SyncFailed { inode: 1, covers: 5 },
            What::SyncDirectory { path: text("d"), covers: 6 },
            What::SyncAll { covers: 7 },
            What::Create { inode: 8, mode: 0o640, path: text("a") },
            What::MakeDirectory { path: text("d") },
            What::Link { inode: 9, path: text("b") },
            What::Rename { inode: 10, from: text("b"), to: text("d/c") },
            What::Remove { path: text("a") },
            What::Unmodelled { path: text("x"), what: text("is odd") },
        ];
        for what in added {
            std::fs::write(&path, b"").unwrap();
            append(&path, &[(what, Vec::new())]).unwrap();
            let one = read(&path).unwrap();
            assert_eq!(one.records.len(), 1);
            assert_eq!(encode(&one.records[0].what, b""), one.bytes);
        }
    }

    #[test]
    fn a_journal_of_something_else_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        std::fs::write(&path, [7; 100]).unwrap();
        assert!(read(&path).is_err());
    }
}
