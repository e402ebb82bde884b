//! Finds changes that a killed child made and did not journal.
//!
//! The shim journals a change after the kernel accepted it, so a kill in between loses the record. The next
//! child sees the change in the page cache and builds on it. Without a record, a later power cut would
//! leave a hole that no real disk has. With SQLite this happened: it continued after a frame of its
//! write-ahead log that the journal did not have, and lost all later commits.

use super::durable_base::{Base, Entry, list};
use super::history::{History, Node};
use super::journal::{self, What};
use super::power_cut::{PowerCut, choose};
use super::{DiskError, file, image};
use std::collections::BTreeMap;
use std::path::Path;

/// Compares the directory with the journal, and adds the difference to the journal as unsynced changes.
pub(super) fn reconcile(
    directory: &Path,
    base: &Base,
    journal_path: &Path,
    scratch: &Path,
) -> Result<(), DiskError> {
    let journal = journal::read(journal_path)?;
    let history = History::read(base, &journal)?;
    let choice = choose(&history, PowerCut::Everything);
    let expected = tempfile::tempdir_in(scratch).map_err(file("make a directory in", scratch))?;
    image::build(&history, &choice, expected.path())?;
    let known = image::surviving_names(&history, &choice);
    let real = list(directory)?;
    let mut missed = missed_names(&history, &known, &real);
    for (path, entry) in &real {
        let Entry::File { inode, .. } = entry else { continue };
        let then = content_before(&history, &known, *inode, expected.path())?;
        let real_path = directory.join(path);
        let now = std::fs::read(&real_path).map_err(file("read", &real_path))?;
        missed.extend(missed_contents(*inode, &then, &now));
    }
    journal::append(journal_path, &missed)
}

fn missed_names(
    history: &History<'_>,
    known: &BTreeMap<String, Node>,
    real: &BTreeMap<String, Entry>,
) -> Vec<(What, Vec<u8>)> {
    let mut missed = Vec::new();
    let mut moved = Vec::new();
    for (path, entry) in real {
        let what = match (known.get(path), entry) {
            (Some(Node::Directory), Entry::Directory) => continue,
            (Some(Node::File(index)), Entry::File { inode, .. }) if history.files[*index].inode == *inode => {
                continue;
            }
            (_, Entry::Directory) => What::MakeDirectory { path: path.clone() },
            (_, Entry::File { inode, mode }) => {
                let node = history.inodes.get(inode).map(|index| Node::File(*index));
                let other_names =
                    || known.iter().filter(|(_, other)| Some(**other) == node).map(|(name, _)| name);
                if let Some(from) = other_names().find(|name| !real.contains_key(*name)) {
                    moved.push(from);
                    What::Rename { inode: *inode, from: from.clone(), to: path.clone() }
                } else if other_names().next().is_some() {
                    What::Link { inode: *inode, path: path.clone() }
                } else {
                    What::Create { inode: *inode, mode: *mode, path: path.clone() }
                }
            }
        };
        missed.push((what, Vec::new()));
    }
    for path in known.keys().filter(|path| !real.contains_key(*path) && !moved.contains(path)) {
        missed.push((What::Remove { path: path.clone() }, Vec::new()));
    }
    missed
}

/// The content of a file according to the journal, under any name; empty if it is new.
fn content_before(
    history: &History<'_>,
    known: &BTreeMap<String, Node>,
    inode: u64,
    expected: &Path,
) -> Result<Vec<u8>, DiskError> {
    let is_it = |node: &Node| matches!(node, Node::File(index) if history.files[*index].inode == inode);
    let Some((name, _)) = known.iter().find(|(_, node)| is_it(node)) else { return Ok(Vec::new()) };
    let path = expected.join(name);
    std::fs::read(&path).map_err(file("read", &path))
}

/// The changes from `then` to `now`.
fn missed_contents(inode: u64, then: &[u8], now: &[u8]) -> Vec<(What, Vec<u8>)> {
    let mut missed = Vec::new();
    if now.len() < then.len() {
        missed.push((What::Truncate { inode, length: now.len() as u64 }, Vec::new()));
    }
    let differs = |index: &usize| then.get(*index) != now.get(*index);
    let first = (0..now.len()).find(differs);
    if let (Some(first), Some(last)) = (first, (0..now.len()).rev().find(differs)) {
        let data = now[first..=last].to_vec();
        missed.push((What::Write { inode, offset: first as u64, data: 0..data.len() }, data));
    }
    missed
}

#[cfg(test)]
mod tests {
    use super::{What, missed_contents};

    #[test]
    fn a_difference_in_content_becomes_one_write_and_a_shorter_file_a_truncation() {
        let write =
            |offset, text: &[u8]| (What::Write { inode: 1, offset, data: 0..text.len() }, text.to_vec());
        let truncate = |length| (What::Truncate { inode: 1, length }, Vec::new());
        assert_eq!(missed_contents(1, b"abc", b"abc"), []);
        assert_eq!(missed_contents(1, b"abc", b"abcde"), [write(3, b"de")]);
        assert_eq!(missed_contents(1, b"abcdef", b"abXdYf"), [write(2, b"XdY")]);
        assert_eq!(missed_contents(1, b"abcdef", b"ab"), [truncate(2)]);
        assert_eq!(missed_contents(1, b"abcdef", b"aX"), [truncate(2), write(1, b"X")]);
    }
}
