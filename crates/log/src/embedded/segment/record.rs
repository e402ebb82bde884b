//! One commit as a checksummed record with the new events of several sessions.

use crate::batch::Group;
use turnstream_model::cursor::Seq;

/// Payload length, checksum, segment serial, database revision.
pub(crate) const HEADER: usize = 24;
/// Session key, epoch, first seq, event count, byte count.
const GROUP_HEADER: usize = 32;

/// A decoded record.
pub(crate) struct Record {
    /// A revision that the database had reached when the record was written.
    pub(crate) revision: u64,
    pub(crate) groups: Vec<RecoveredGroup>,
    /// The length of the record in bytes.
    pub(crate) length: usize,
}

/// The decoded events of one session.
pub(crate) struct RecoveredGroup {
    pub(crate) session: i64,
    pub(crate) epoch: u64,
    pub(crate) first: Seq,
    pub(crate) count: u64,
    /// One line of JSON per event.
    pub(crate) data: String,
}

/// Encodes a record for this segment. The checksum covers the serial, so that a record of an earlier use of
/// the file is never taken for a current one.
pub(crate) fn encode<'a>(
    groups: impl Iterator<Item = &'a Group>,
    serial: u64,
    revision: u64,
    out: &mut Vec<u8>,
) {
    out.clear();
    out.resize(HEADER, 0);
    for group in groups {
        out.extend_from_slice(&group.session.key.to_le_bytes());
        out.extend_from_slice(&group.epoch.to_le_bytes());
        out.extend_from_slice(&group.first.0.to_le_bytes());
        out.extend_from_slice(&(group.events.len() as u32).to_le_bytes());
        out.extend_from_slice(&(group.data.len() as u32).to_le_bytes());
        out.extend_from_slice(&group.data);
    }
    let length = (out.len() - HEADER) as u32;
    out[0..4].copy_from_slice(&length.to_le_bytes());
    out[8..16].copy_from_slice(&serial.to_le_bytes());
    out[16..24].copy_from_slice(&revision.to_le_bytes());
    let sum = checksum(out);
    out[4..8].copy_from_slice(&sum.to_le_bytes());
}

/// Decodes the record at the beginning of `bytes`. `None` if it is incomplete or invalid.
pub(crate) fn decode(bytes: &[u8], serial: u64) -> Option<Record> {
    let length = u32::from_le_bytes(bytes.get(0..4)?.try_into().ok()?);
    let sum = u32::from_le_bytes(bytes.get(4..8)?.try_into().ok()?);
    if length == 0 || serial_at(bytes)? != serial {
        return None;
    }
    let revision = u64::from_le_bytes(bytes.get(16..HEADER)?.try_into().ok()?);
    let length = HEADER.checked_add(length as usize)?;
    let record = bytes.get(..length)?;
    if checksum(record) != sum {
        return None;
    }
    groups(&record[HEADER..]).map(|groups| Record { revision, groups, length })
}

/// The serial in a possible record header.
pub(crate) fn serial_at(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?))
}

/// The offset of the next complete record of this segment in `bytes`.
pub(crate) fn find(bytes: &[u8], serial: u64) -> Option<usize> {
    let wanted = serial.to_le_bytes();
    let mut starts = memchr::memmem::find_iter(bytes, &wanted).filter_map(|at| at.checked_sub(8));
    starts.find(|start| decode(&bytes[*start..], serial).is_some())
}

fn groups(mut payload: &[u8]) -> Option<Vec<RecoveredGroup>> {
    let mut groups = Vec::new();
    while !payload.is_empty() {
        let number = |from: usize, to: usize| payload.get(from..to);
        let session = i64::from_le_bytes(number(0, 8)?.try_into().ok()?);
        let epoch = u64::from_le_bytes(number(8, 16)?.try_into().ok()?);
        let first = Seq(u64::from_le_bytes(number(16, 24)?.try_into().ok()?));
        let count = u64::from(u32::from_le_bytes(number(24, 28)?.try_into().ok()?));
        let length = u32::from_le_bytes(number(28, GROUP_HEADER)?.try_into().ok()?) as usize;
        let data = payload.get(GROUP_HEADER..GROUP_HEADER.checked_add(length)?)?;
        groups.push(RecoveredGroup {
            session,
            epoch,
            first,
            count,
            data: String::from_utf8(data.to_vec()).ok()?,
        });
        payload = &payload[GROUP_HEADER + length..];
    }
    Some(groups)
}

/// The checksum of the record, without the checksum field.
fn checksum(record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&record[..4]);
    hasher.update(&record[8..]);
    hasher.finalize()
}
