//! Removes prefixes of deleted words from the page index of FTS5.
//!
//! For each page, `entry_word_idx` holds a prefix of its first word, just long enough to distinguish it from
//! the last word of the page before. `secure-delete` removes a word from its page and leaves this row. Among
//! words with a common prefix, the row still holds most of the word.
//!
//! The row must sort after everything on the pages before, and not after the first word of its own page
//! (`fts5IndexIntegrityCheckSegment` in 3.54). So it can be replaced with that first word.

use super::remove::More;
use rusqlite::{OptionalExtension, Transaction, params};

/// Rows per transaction, with a page of 4 KiB each.
const AT_ONCE: usize = 256;
/// Shorter prefixes reveal nothing of a word. Their first byte is the number of the FTS5 index.
const SHORT: i64 = 12;

/// The last row that was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Separator {
    segment: i64,
    term: Vec<u8>,
}

/// Replaces some prefixes of words that are no longer on their page.
pub(super) fn renew_some(transaction: &Transaction<'_>, after: &mut Separator) -> rusqlite::Result<More> {
    let mut query = transaction.prepare_cached(
        "SELECT segid, term, pgno FROM entry_word_idx WHERE (segid, term) > (?1, ?2) AND length(term) >= ?3
         ORDER BY segid, term LIMIT ?4",
    )?;
    let rows = query.query_map(params![after.segment, after.term, SHORT, AT_ONCE as i64], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })?;
    let rows: Vec<(i64, Vec<u8>, i64)> = rows.collect::<Result<_, _>>()?;
    let more = if rows.len() < AT_ONCE { More::No } else { More::Yes };
    let mut page = transaction.prepare_cached("SELECT block FROM entry_word_data WHERE id = ?1")?;
    let mut renew =
        transaction.prepare_cached("UPDATE entry_word_idx SET term = ?3 WHERE segid = ?1 AND term = ?2")?;
    for (segment, term, place) in rows {
        // The lowest bit is a flag; the page id is built as `FTS5_SEGMENT_ROWID` does.
        let name = (segment << 37) + (place >> 1);
        let block: Option<Vec<u8>> = page.query_row([name], |row| row.get(0)).optional()?;
        if let Some(first) = block.as_deref().and_then(first_term)
            && !first.starts_with(&term)
        {
            renew.execute(params![segment, term, first])?;
        }
        *after = Separator { segment, term };
    }
    Ok(more)
}

/// The first word on a page. It is stored completely.
fn first_term(block: &[u8]) -> Option<&[u8]> {
    let end = usize::from(u16::from_be_bytes([*block.get(2)?, *block.get(3)?]));
    let (at, _) = number(block.get(end..)?)?;
    let (length, start) = number(block.get(at..end)?)?;
    block.get(at + start..at + start + length)
}

/// Decodes a SQLite varint and its length. Three bytes are enough for any page size.
fn number(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0;
    for (place, byte) in bytes.iter().take(3).enumerate() {
        value = value << 7 | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, place + 1));
        }
    }
    None
}
