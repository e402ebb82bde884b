//! How much of the disk the data directory uses, and how much is left.

use crate::gateway::Gateway;
use std::io;
use std::path::Path;

/// The disk of the data directory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskUse {
    /// What the files of the data directory take.
    pub used: u64,
    /// What the gateway may still write.
    pub free: u64,
    /// The size of the disk.
    pub size: u64,
}

/// Folders below the data directory that are looked into.
const DEEPEST: usize = 4;

impl Gateway {
    /// The disk of the data directory. Reads the file system: not for an async task.
    pub fn disk_use(&self) -> io::Result<DiskUse> {
        let disk = rustix::fs::statvfs(self.data())?;
        Ok(DiskUse {
            used: used_below(self.data(), DEEPEST)?,
            free: disk.f_bavail.saturating_mul(disk.f_frsize),
            size: disk.f_blocks.saturating_mul(disk.f_frsize),
        })
    }
}

/// The sizes of all files. A file that is removed meanwhile counts as nothing.
fn used_below(folder: &Path, deepest: usize) -> io::Result<u64> {
    let mut used = 0;
    for entry in std::fs::read_dir(folder)? {
        let Ok(entry) = entry else { continue };
        match entry.metadata() {
            Ok(about) if about.is_dir() && deepest > 0 => {
                used += used_below(&entry.path(), deepest - 1).unwrap_or_default();
            }
            Ok(about) => used += about.len(),
            Err(_) => {}
        }
    }
    Ok(used)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;

    #[test]
    fn files_in_folders_count() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("below")).unwrap();
        std::fs::write(folder.path().join("a"), [0; 10]).unwrap();
        std::fs::write(folder.path().join("below/b"), [0; 32]).unwrap();
        assert_eq!(used_below(folder.path(), 4).unwrap(), 42);
    }
}
