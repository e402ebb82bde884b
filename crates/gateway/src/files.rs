//! Files below a directory in which sessions may work: for clients that complete names and show files.
//!
//! No link is followed. Every directory is opened from the one above it, so a name that becomes a link
//! meanwhile leads nowhere.

use crate::error::{RequestError, SharedError};
use crate::gateway::Gateway;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// A search looks at no more entries than this (L13).
const MOST_ENTRIES: usize = 50_000;
/// A search goes no deeper than this.
const MOST_DEPTH: usize = 32;
/// A search takes no longer than this.
const LONGEST: Duration = Duration::from_secs(2);
/// A file that is read is not longer than this.
const MOST_BYTES: u64 = 4 << 20;

/// Directories that a search leaves out.
const LEFT_OUT: [&str; 4] = [".git", ".hg", ".svn", "node_modules"];
/// A file that marks a directory as a cache, such as the target directory of Cargo.
const CACHE_TAG: &str = "CACHEDIR.TAG";

/// What an entry of a directory is. Links and devices are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
}

/// A file or a directory below another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Its path below that directory. The path of a directory ends with `/`.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
    /// Searches leave it out.
    pub left_out: bool,
}

/// What a search is for.
#[derive(Clone, Copy, Debug)]
pub struct FileQuery<'a> {
    /// Characters of the path, in their order. Upper and lower case are the same.
    pub text: &'a str,
    /// Only entries of this kind.
    pub kind: Option<EntryKind>,
    /// The greatest number of results.
    pub limit: usize,
}

impl Gateway {
    /// The best matches below a directory, the best one first. Blocks for at most two seconds. In a large
    /// directory, what is deep in it may be missing.
    pub fn find_files(&self, directory: &Path, query: FileQuery<'_>) -> Result<Vec<FileEntry>, RequestError> {
        let opened = self.opened_directory(directory)?;
        let text = query.text.to_lowercase();
        let mut found: Vec<_> = walk(&opened)
            .into_iter()
            .filter(|entry| query.kind.is_none_or(|kind| entry.kind == kind))
            .filter_map(|entry| Some((rank(&entry.path, &text)?, entry)))
            .collect();
        found.sort_by(|(one, a), (other, b)| one.cmp(other).then_with(|| a.path.cmp(&b.path)));
        found.truncate(query.limit);
        Ok(found.into_iter().map(|(_, entry)| entry).collect())
    }

    /// The files and directories in a directory below another one, directories first. Blocks.
    pub fn list_files(&self, directory: &Path, path: &str) -> Result<Vec<FileEntry>, RequestError> {
        let opened = self.opened_directory(directory)?;
        let listed = names_of(path).and_then(|names| {
            let at = open_below(&opened, &names)?;
            let prefix: String = names.iter().map(|name| format!("{name}/")).collect();
            entries(&at, &prefix, MOST_ENTRIES)
        });
        let mut listed = listed.map_err(|error| unusable(path, error))?;
        listed
            .sort_by(|a, b| (a.kind == EntryKind::File, &a.path).cmp(&(b.kind == EntryKind::File, &b.path)));
        Ok(listed)
    }

    /// The bytes of a file below a directory, or `None` if there is no such file. Blocks.
    pub fn read_file(&self, directory: &Path, path: &str) -> Result<Option<Vec<u8>>, RequestError> {
        let opened = self.opened_directory(directory)?;
        match names_of(path).and_then(|names| bytes_of(&opened, &names)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unusable(path, error)),
        }
    }
}

fn unusable(path: &str, error: io::Error) -> RequestError {
    RequestError::NoFile { path: path.to_owned(), problem: SharedError::new(error) }
}

/// The names in a path that leads downwards.
fn names_of(path: &str) -> io::Result<Vec<&str>> {
    let upwards = || io::Error::new(ErrorKind::InvalidInput, "give a path below the directory, without ..");
    if path.starts_with('/') {
        return Err(upwards());
    }
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    if names.contains(&"..") { Err(upwards()) } else { Ok(names) }
}

fn open_below(top: impl AsFd, names: &[&str]) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut current = openat(top, ".", flags, Mode::empty())?;
    for name in names {
        current = openat(&current, *name, flags, Mode::empty())?;
    }
    Ok(current)
}

fn bytes_of(top: impl AsFd, names: &[&str]) -> io::Result<Vec<u8>> {
    let (name, above) = names.split_last().ok_or_else(|| io::Error::other("it is a directory"))?;
    // A pipe would wait for its writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(open_below(top, above)?, *name, flags, Mode::empty())?;
    if !FileType::from_raw_mode(fstat(&file)?.st_mode).is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    File::from(file).take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(io::Error::other(format!("it is longer than {MOST_BYTES} bytes")));
    }
    Ok(bytes)
}

/// Everything below a directory, level by level, within the bounds. What cannot be read is left out.
fn walk(top: impl AsFd) -> Vec<FileEntry> {
    let begun = Instant::now();
    let mut found: Vec<FileEntry> = Vec::new();
    let mut waiting = VecDeque::from([String::new()]);
    while let Some(path) = waiting.pop_front() {
        let room = MOST_ENTRIES - found.len();
        if room == 0 || begun.elapsed() > LONGEST {
            break;
        }
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let here = open_below(&top, &names).and_then(|at| entries(&at, &path, room));
        let here = here.unwrap_or_default().into_iter().filter(|entry| !entry.left_out);
        for entry in here {
            if entry.kind == EntryKind::Directory && names.len() + 1 < MOST_DEPTH {
                waiting.push_back(entry.path.clone());
            }
            found.push(entry);
        }
    }
    found
}

/// The files and directories in a directory, at most so many. Names that are no UTF-8 are left out.
fn entries(at: &OwnedFd, prefix: &str, most: usize) -> io::Result<Vec<FileEntry>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(at)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        if name == "." || name == ".." {
            continue;
        }
        let kind = match entry.file_type() {
            // Some file systems do not tell.
            FileType::Unknown => match statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => FileType::from_raw_mode(found.st_mode),
                Err(_) => continue,
            },
            known => known,
        };
        let (kind, path) = match kind {
            FileType::RegularFile => (EntryKind::File, format!("{prefix}{name}")),
            FileType::Directory => (EntryKind::Directory, format!("{prefix}{name}/")),
            FileType::Symlink
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => continue,
        };
        let left_out = kind == EntryKind::Directory && (LEFT_OUT.contains(&name) || is_cache(at, name));
        found.push(FileEntry { path, kind, left_out });
        if found.len() == most {
            break;
        }
    }
    Ok(found)
}

fn is_cache(at: &OwnedFd, name: &str) -> bool {
    statat(at, format!("{name}/{CACHE_TAG}"), AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// How well a path matches, the least being the best: the kind of match, the depth, the length.
fn rank(path: &str, text: &str) -> Option<(u8, usize, usize)> {
    let lower = path.to_lowercase();
    let whole = lower.trim_end_matches('/');
    let name = whole.rsplit('/').next().unwrap_or(whole);
    let kind = if name.starts_with(text) {
        0
    } else if lower.starts_with(text) {
        1
    } else if name.contains(text) {
        2
    } else if lower.contains(text) {
        3
    } else {
        let mut rest = lower.chars();
        text.chars().all(|wanted| rest.any(|found| found == wanted)).then_some(4)?
    };
    Some((kind, whole.matches('/').count(), path.len()))
}

#[cfg(test)]
mod tests {
    use super::{names_of, rank};

    #[test]
    fn the_start_of_a_name_comes_before_a_part_of_it_and_letters_in_order_come_last() {
        let mut paths = ["my-main.rs", "domain/x.rs", "src/Main.rs", "m/a/i/n.rs", "main/"];
        paths.sort_by_key(|path| rank(path, "main"));
        assert_eq!(paths, ["main/", "src/Main.rs", "my-main.rs", "domain/x.rs", "m/a/i/n.rs"]);
        assert_eq!(rank("src/lib.rs", "main"), None);
        assert!(rank("src/main.rs", "src/m").is_some());
    }

    #[test]
    fn a_path_leads_downwards_only() {
        assert_eq!(names_of("./a//b/").unwrap(), ["a", "b"]);
        for path in ["/etc", "../a", "a/../../b"] {
            assert!(names_of(path).is_err(), "{path}");
        }
    }
}
