//! What the disk held, all durable, when it was last settled.

use super::{DiskError, file};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The directory as it was: names relative to it, and a copy of every file.
#[derive(Debug, Default)]
pub(super) struct Base {
    pub(super) nodes: BTreeMap<String, BaseNode>,
}

#[derive(Debug)]
pub(super) enum BaseNode {
    Directory,
    File { inode: u64, mode: u32, copy: PathBuf },
}

// === impl Base ===

impl Base {
    /// Copies `directory` into `copies`, which is made anew.
    pub(super) fn take(directory: &Path, copies: &Path) -> Result<Self, DiskError> {
        if copies.exists() {
            std::fs::remove_dir_all(copies).map_err(file("remove", copies))?;
        }
        std::fs::create_dir(copies).map_err(file("make", copies))?;
        let mut base = Self::default();
        base.copy(directory, "", copies)?;
        Ok(base)
    }

    fn copy(&mut self, directory: &Path, prefix: &str, copies: &Path) -> Result<(), DiskError> {
        for entry in std::fs::read_dir(directory).map_err(file("list", directory))? {
            let path = entry.map_err(file("list", directory))?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                let what = "has a name that is not UTF-8".to_owned();
                return Err(DiskError::Unmodelled { path: path.display().to_string(), what });
            };
            let name = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
            // The shim leaves SQLite's shared-memory index alone, see `is_volatile` there; so does a power cut.
            if name.ends_with("-shm") {
                continue;
            }
            let metadata = path.symlink_metadata().map_err(file("look at", &path))?;
            if metadata.is_dir() {
                self.nodes.insert(name.clone(), BaseNode::Directory);
                self.copy(&path, &name, copies)?;
            } else if metadata.is_file() {
                let copy = copies.join(self.nodes.len().to_string());
                std::fs::copy(&path, &copy).map_err(file("copy", &path))?;
                let node = BaseNode::File { inode: metadata.ino(), mode: metadata.mode() & 0o7777, copy };
                self.nodes.insert(name, node);
            } else {
                let what = "is neither a file nor a directory".to_owned();
                return Err(DiskError::Unmodelled { path: name, what });
            }
        }
        Ok(())
    }
}
