//! The durable content of the disk when it was last settled.

use super::{DiskError, file};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The directory at that time: relative names, and a copy of every file.
#[derive(Debug, Default)]
pub(super) struct Base {
    pub(super) nodes: BTreeMap<String, BaseNode>,
}

#[derive(Debug)]
pub(super) enum BaseNode {
    Directory,
    File { inode: u64, mode: u32, copy: PathBuf },
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Directory,
    File { inode: u64, mode: u32 },
}

// === impl Base ===

impl Base {
    /// Copies `directory` into `copies`, which is created anew.
    pub(super) fn take(directory: &Path, copies: &Path) -> Result<Self, DiskError> {
        if copies.exists() {
            std::fs::remove_dir_all(copies).map_err(file("remove", copies))?;
        }
        std::fs::create_dir(copies).map_err(file("make", copies))?;
        let mut base = Self::default();
        for (index, (name, entry)) in list(directory)?.into_iter().enumerate() {
            let node = match entry {
                Entry::Directory => BaseNode::Directory,
                Entry::File { inode, mode } => {
                    let copy = copies.join(index.to_string());
                    let path = directory.join(&name);
                    std::fs::copy(&path, &copy).map_err(file("copy", &path))?;
                    BaseNode::File { inode, mode, copy }
                }
            };
            base.nodes.insert(name, node);
        }
        Ok(base)
    }
}

/// Everything below a directory, by its path relative to it.
pub(super) fn list(directory: &Path) -> Result<BTreeMap<String, Entry>, DiskError> {
    let mut found = BTreeMap::new();
    let mut open = vec![(directory.to_owned(), String::new())];
    while let Some((next, prefix)) = open.pop() {
        for entry in std::fs::read_dir(&next).map_err(file("list", &next))? {
            let path = entry.map_err(file("list", &next))?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                let what = "has a name that is not UTF-8".to_owned();
                return Err(DiskError::Unmodelled { path: path.display().to_string(), what });
            };
            let name = format!("{prefix}{name}");
            // SQLite's shared-memory index is ignored, as in the shim (`is_volatile`).
            if name.ends_with("-shm") {
                continue;
            }
            let metadata = path.symlink_metadata().map_err(file("look at", &path))?;
            if metadata.is_dir() {
                open.push((path, format!("{name}/")));
                found.insert(name, Entry::Directory);
            } else if metadata.is_file() {
                found.insert(name, Entry::File { inode: metadata.ino(), mode: metadata.mode() & 0o7777 });
            } else {
                let what = "is neither a file nor a directory".to_owned();
                return Err(DiskError::Unmodelled { path: name, what });
            }
        }
    }
    Ok(found)
}
