//! Overwrites unused bytes in the database file.
//!
//! `secure_delete` zeroes a row when it is deleted, and a page when it becomes free. It does not reach copies
//! of a row. When SQLite rebuilds a page to make room (`rebuildPage` in 3.54), cells move, and old copies
//! stay in the gap of the page. By the file format (<https://www.sqlite.org/fileformat2.html>) these bytes are
//! unused, so they can be overwritten in the file itself.
//!
//! Readers do not look at these bytes. The only writer is the caller, which has no cached pages and an empty
//! write-ahead log at that moment. Free pages are overwritten too, for files that are older than
//! `secure_delete`. The end of an overflow page is not scrubbed; with `secure_delete` it holds nothing old.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::iter;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// The header of the file, in its first page.
const FILE_HEADER: usize = 100;
/// The first byte of an overflow page is part of a page number. Up to this many pages (64 GiB) it is 0, which
/// distinguishes it from a tree page. In a larger file, tree pages are not scrubbed.
const MOST_PAGES: u64 = 1 << 24;

/// The page size of a database file, and its number of pages.
pub(crate) fn extent(file: &File) -> io::Result<(u64, u64)> {
    let mut header = [0; FILE_HEADER];
    file.read_exact_at(&mut header, 0)?;
    let size = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        size => u64::from(size),
    };
    if size < 512 {
        return Err(io::Error::other(format!("the database has a page size of {size}")));
    }
    Ok((size, file.metadata()?.len() / size))
}

/// Overwrites the unused bytes of these pages, which are sorted and counted from 0. SQLite must not have any
/// of them in memory or in its write-ahead log.
pub(crate) fn pages(file: &File, pages: &[u64]) -> io::Result<()> {
    let (size, count) = extent(file)?;
    let pages = &pages[..pages.partition_point(|page| *page < count)];
    let free = free_pages(file, size, count, pages)?;
    let mut page = vec![0; size as usize];
    let mut changed = false;
    for &number in pages {
        file.read_exact_at(&mut page, number * size)?;
        let unused = match free.get(&number) {
            Some(start) => iter::once(*start..page.len()).collect(),
            None if count > MOST_PAGES => Vec::new(),
            None => unused(&page, if number == 0 { FILE_HEADER } else { 0 }),
        };
        for Range { start, end } in unused {
            if page[start..end].iter().any(|byte| *byte != 0) {
                page[start..end].fill(0);
                file.write_all_at(&page[start..end], number * size + start as u64)?;
                changed = true;
            }
        }
    }
    if changed { file.sync_data() } else { Ok(()) }
}

/// The unused ranges of a tree page: the gap before its cells, and the free blocks between them.
fn unused(page: &[u8], start: usize) -> Vec<Range<usize>> {
    let number =
        |at: usize| page.get(at..at + 2).map_or(0, |two| usize::from(u16::from_be_bytes([two[0], two[1]])));
    let header = match page[start] {
        2 | 5 => 12,
        10 | 13 => 8,
        // Not a tree page: an overflow page begins with 0.
        _ => return Vec::new(),
    };
    let cells = start + header + 2 * number(start + 3);
    let content = match number(start + 5) {
        0 => 65_536,
        content => content,
    };
    if cells > content || content > page.len() {
        return Vec::new();
    }
    let mut unused: Vec<Range<usize>> = iter::once(cells..content).collect();
    let mut block = number(start + 1);
    // Free blocks are sorted by position. The first four bytes of each hold the position of the next and its
    // own length.
    while block >= content && block + 4 <= page.len() {
        let (next, length) = (number(block), number(block + 2));
        if block + length > page.len() || length < 4 {
            break;
        }
        unused.push(block + 4..block + length);
        if next <= block {
            break;
        }
        block = next;
    }
    unused
}

/// Which of these pages are free, and from which byte on each is unused. A leaf of the free list is unused
/// completely; a trunk page is unused after its list of leaves.
fn free_pages(file: &File, size: u64, count: u64, pages: &[u64]) -> io::Result<BTreeMap<u64, usize>> {
    let is_asked = |page: u64| pages.binary_search(&page).is_ok();
    let mut header = [0; FILE_HEADER];
    file.read_exact_at(&mut header, 0)?;
    let number = |bytes: &[u8], at: usize| {
        let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
        four.map_or(0, |four| u64::from(u32::from_be_bytes(four)))
    };
    let (mut free, mut page) = (BTreeMap::new(), vec![0; size as usize]);
    let mut trunk = number(&header, 32);
    // A list that is longer than the file is a cycle.
    for _ in 0..count {
        if trunk == 0 || trunk > count {
            break;
        }
        file.read_exact_at(&mut page, (trunk - 1) * size)?;
        let leaves = number(&page, 4).min(size / 4 - 2) as usize;
        let named = (0..leaves).map(|index| number(&page, 8 + 4 * index)).filter(|leaf| *leaf > 0);
        free.extend(named.map(|leaf| (leaf - 1, 0)).filter(|(leaf, _)| is_asked(*leaf)));
        if is_asked(trunk - 1) {
            free.insert(trunk - 1, 8 + 4 * leaves);
        }
        trunk = number(&page, 0);
    }
    Ok(free)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::{Connection, params};
    use std::collections::HashSet;
    use std::path::Path;

    /// Makes rows grow, shrink and disappear among each other, and then deletes half of them. Returns the
    /// deleted texts.
    fn churn(path: &Path) -> (Connection, Vec<String>) {
        let connection = Connection::open(path).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection.pragma_update(None, "secure_delete", "ON").unwrap();
        connection
            .execute_batch("CREATE TABLE t (key INTEGER PRIMARY KEY, data TEXT, UNIQUE (data))")
            .unwrap();
        connection.execute_batch("BEGIN").unwrap();
        let mut random = fastrand::Rng::with_seed(3);
        let mut texts = vec![Vec::new(); 200];
        for _ in 0..2_500 {
            let (key, length) = (random.usize(0..texts.len()), random.usize(20..900));
            // Some rows are larger than a page.
            let length = if random.u8(..) < 10 { length * 20 } else { length };
            let text: String = (0..length).map(|_| random.alphanumeric()).collect();
            connection
                .execute("INSERT OR REPLACE INTO t VALUES (?1, ?2)", params![key as i64, text])
                .unwrap();
            texts[key].push(text);
        }
        connection.execute_batch("DELETE FROM t WHERE key % 2 = 0; COMMIT").unwrap();
        let deleted = texts.into_iter().enumerate().flat_map(|(key, mut texts)| {
            // The last text of an odd key is still stored.
            if key % 2 == 1 {
                texts.pop();
            }
            texts
        });
        (connection, deleted.collect())
    }

    /// The number of 12-byte pieces of these texts in the file.
    fn pieces_found(path: &Path, texts: &[String]) -> usize {
        let pieces: HashSet<&[u8]> = texts.iter().flat_map(|text| text.as_bytes().windows(12)).collect();
        std::fs::read(path).unwrap().windows(12).filter(|window| pieces.contains(window)).count()
    }

    #[test]
    fn what_sqlite_leaves_behind_is_overwritten_and_the_rest_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.db");
        let (connection, deleted) = churn(&path);
        let rows = |connection: &Connection| -> (i64, i64) {
            let count = "SELECT count(*), sum(length(data)) FROM t";
            connection.query_row(count, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
        };
        let before = rows(&connection);
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        connection.execute_batch("PRAGMA shrink_memory").unwrap();
        assert!(pieces_found(&path, &deleted) > 0, "SQLite alone leaves something");
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let (_, count) = extent(&file).unwrap();
        for first in (0..count).step_by(10) {
            pages(&file, &(first..first + 10).collect::<Vec<u64>>()).unwrap();
        }
        assert_eq!(pieces_found(&path, &deleted), 0);
        assert_eq!(rows(&connection), before);
        let sound: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
        // The file can still be written.
        connection.execute("INSERT INTO t VALUES (1000, 'more')", []).unwrap();
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        assert_eq!(pieces_found(&path, &deleted), 0, "nothing came back");
    }
}
