//! The journal that the shim writes: one record per change and per completed sync.

use super::{DiskError, file};
use std::fs::File;
use std::ops::Range;
use std::path::Path;

/// The size of `struct record` in `shim/watch.h`, and its first number.
const HEAD: usize = 48;
const MAGIC: u32 = 0x4b53_4944;

/// All whole records, and the bytes that writes refer to.
pub(super) struct Journal {
    pub(super) bytes: Vec<u8>,
    pub(super) records: Vec<Record>,
}

/// A record and the byte of the journal at which it ends, which is what syncs refer to.
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

/// Reads all whole records.
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

/// Cuts off a record that a kill left half written.
pub(super) fn drop_torn_tail(path: &Path) -> Result<(), DiskError> {
    let whole = read(path)?.records.last().map_or(0, |record| record.end);
    let journal = File::options().write(true).open(path).map_err(file("open", path))?;
    journal.set_len(whole).map_err(file("truncate", path))
}

/// The record at `at`, or none if less than a whole one is left.
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
    use super::{HEAD, MAGIC, What, drop_torn_tail, read};

    fn record(kind: u32, inode: u64, a: u64, path: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [MAGIC, kind] {
            bytes.extend(number.to_ne_bytes());
        }
        for number in [inode, a, 0] {
            bytes.extend(number.to_ne_bytes());
        }
        for number in [path.len() as u32, 0] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend((data.len() as u64).to_ne_bytes());
        assert_eq!(bytes.len(), HEAD);
        bytes.extend(path.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn a_journal_cut_at_any_byte_reads_as_its_whole_records_and_is_cut_back_to_them() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let first = record(8, 5, 0o600, "a", b"");
        let whole = [first.clone(), record(1, 5, 0, "", b"hello")].concat();
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
    fn a_journal_of_something_else_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        std::fs::write(&path, [7; 100]).unwrap();
        assert!(read(&path).is_err());
    }
}
