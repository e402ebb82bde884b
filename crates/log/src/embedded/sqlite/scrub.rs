//! Overwriting what the database file holds and does not use.
//!
//! `secure_delete` zeroes a row where it is when it is deleted. It does not reach copies of that row: when SQLite rebuilds a
//! page to make room (`rebuildPage` in 3.54), cells move and what they leave stays in the gap of the page. And pages that
//! became free before `secure_delete` was on still hold what they held. Both are unused bytes by the file format
//! (<https://www.sqlite.org/fileformat2.html>), so they are overwritten in the file itself: readers do not look at them,
//! and the one writer, which is the caller, has nothing in memory and nothing in its log at that moment.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// The header of the file, at the beginning of its first page.
const FILE_HEADER: usize = 100;
/// Pages of a file in which no page number reaches the first byte of an overflow page, which tells it from a tree's: 64 GiB.
/// A larger file is left as SQLite leaves it.
const MOST_PAGES: u64 = 1 << 24;

/// The page size of a database file, and how many pages it has.
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

/// Overwrites what is unused in these pages, counted from 0. Everything SQLite knows has to be in the file.
pub(super) fn pages(file: &File, pages: Range<u64>) -> io::Result<()> {
    let (size, count) = extent(file)?;
    if count > MOST_PAGES {
        return Ok(());
    }
    let pages = pages.start..pages.end.min(count);
    let free = free_pages(file, size, count, &pages)?;
    let mut page = vec![0; size as usize];
    let mut changed = false;
    for number in pages {
        file.read_exact_at(&mut page, number * size)?;
        let unused = match free.get(&number) {
            Some(start) => Vec::from([*start..page.len()]),
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

/// The parts of a tree's page that nothing is in: the gap before its cells, and the blocks between them.
fn unused(page: &[u8], start: usize) -> Vec<Range<usize>> {
    let number =
        |at: usize| page.get(at..at + 2).map_or(0, |two| usize::from(u16::from_be_bytes([two[0], two[1]])));
    let header = match page[start] {
        2 | 5 => 12,
        10 | 13 => 8,
        // Of an overflow page the first byte is part of a page number, and 0.
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
    let mut unused = Vec::from([cells..content]);
    let mut block = number(start + 1);
    // Blocks stand in the order of their places. The first four bytes of each say where the next is and how long this is.
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

/// Which of these pages are free, counted from 0, with the byte from which on each is unused: all of a page that a trunk of
/// the list names, and what is behind the names in a trunk.
fn free_pages(file: &File, size: u64, count: u64, pages: &Range<u64>) -> io::Result<BTreeMap<u64, usize>> {
    let mut header = [0; FILE_HEADER];
    file.read_exact_at(&mut header, 0)?;
    let number = |bytes: &[u8], at: usize| {
        let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
        four.map_or(0, |four| u64::from(u32::from_be_bytes(four)))
    };
    let (mut free, mut page) = (BTreeMap::new(), vec![0; size as usize]);
    let mut trunk = number(&header, 32);
    // A list that is longer than the file is a circle.
    for _ in 0..count {
        if trunk == 0 || trunk > count {
            break;
        }
        file.read_exact_at(&mut page, (trunk - 1) * size)?;
        let leaves = number(&page, 4).min(size / 4 - 2) as usize;
        let named = (0..leaves).map(|index| number(&page, 8 + 4 * index)).filter(|leaf| *leaf > 0);
        free.extend(named.map(|leaf| (leaf - 1, 0)).filter(|(leaf, _)| pages.contains(leaf)));
        if pages.contains(&(trunk - 1)) {
            free.insert(trunk - 1, 8 + 4 * leaves);
        }
        trunk = number(&page, 0);
    }
    Ok(free)
}
