//! The header of a segment file: the serial of this use of the file, and what was known when it began.

use super::Segment;
use std::io;
use std::os::unix::fs::FileExt;

const MAGIC: &[u8; 8] = b"turnseg2";
const BYTES: usize = 44;

/// Written and synced before the first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Counts the uses of all segment files in a directory.
    pub(crate) serial: u64,
    /// The boot id of the run that wrote it.
    pub(crate) boot: u64,
    /// A revision that the database had reached.
    pub(crate) revision: u64,
    /// Where the records of the previous segment end.
    pub(crate) previous_end: u64,
}

/// The header that was found in a file.
pub(super) enum Head {
    /// Zeros: the file was never used, or not completely created.
    Blank,
    Sound(Header),
    /// Neither zeros nor a valid header: damage, or a power cut during the write of the header.
    Unreadable,
}

impl Header {
    pub(super) fn write(&self, segment: &Segment) -> io::Result<()> {
        segment.file.write_all_at(&self.to_bytes(), 0)?;
        turnstream_failpoint::reach("log.segment.header");
        segment.file.sync_data()
    }

    fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        for (place, number) in [self.serial, self.boot, self.revision, self.previous_end].iter().enumerate() {
            bytes[8 + place * 8..16 + place * 8].copy_from_slice(&number.to_le_bytes());
        }
        let sum = crc32fast::hash(&bytes[..BYTES - 4]);
        bytes[BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

impl Head {
    /// Parses the header from the first bytes of a file.
    pub(super) fn of(file: &[u8]) -> Self {
        let Some(bytes) = file.get(..BYTES) else { return Self::Blank };
        let number = |place: usize| {
            bytes[8 + place * 8..16 + place * 8]
                .iter()
                .rev()
                .fold(0, |value, byte| value << 8 | u64::from(*byte))
        };
        let header =
            Header { serial: number(0), boot: number(1), revision: number(2), previous_end: number(3) };
        if bytes.iter().all(|byte| *byte == 0) {
            Self::Blank
        } else if bytes == header.to_bytes() {
            Self::Sound(header)
        } else {
            Self::Unreadable
        }
    }
}
