//! A temporary folder for a benchmark's files, on a disk.

use std::path::Path;
use tempfile::TempDir;

/// A new folder below `target/`, which must be on a disk: a sync in memory costs nothing.
pub(crate) fn scratch(prefix: &str) -> Result<TempDir, String> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    std::fs::create_dir_all(&target).map_err(|error| format!("cannot make {}: {error}", target.display()))?;
    let target =
        target.canonicalize().map_err(|error| format!("cannot find {}: {error}", target.display()))?;
    if file_system(&target).is_some_and(|kind| kind == "tmpfs" || kind == "ramfs") {
        return Err(format!("{} is in memory; measure on a disk", target.display()));
    }
    tempfile::Builder::new().prefix(prefix).tempdir_in(&target).map_err(|error| error.to_string())
}

/// The file system type of a path, from the kernel's list of mounts.
fn file_system(path: &Path) -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let on = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (at, kind) = (words.next()?, words.next()?);
        path.starts_with(at).then(|| (at.len(), kind.to_owned()))
    });
    on.max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}
