//! Builds the directory as a power cut leaves it.

use super::history::{Change, Content, FileHistory, History, Naming, Node, parent};
use super::power_cut::{Choice, Survival};
use super::{DiskError, file};
use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

/// Writes everything that survives into `into`, an empty directory.
pub(super) fn build(history: &History<'_>, choice: &Choice, into: &Path) -> Result<(), DiskError> {
    let names = surviving_names(history, choice);
    // Sorted, so that a directory comes before what is in it.
    for (name, node) in &names {
        let path = into.join(name);
        let directory = parent(name);
        if !directory.is_empty() && names.get(directory) != Some(&Node::Directory) {
            // A file in a directory whose name was lost cannot be found.
            continue;
        }
        match node {
            Node::Directory => std::fs::create_dir(&path).map_err(file("make", &path))?,
            Node::File(index) => {
                write_file(history.bytes, &history.files[*index], &choice.contents[*index], &path)?;
            }
        }
    }
    Ok(())
}

/// Empties `directory` and moves everything from `image` there. The directory itself stays the same.
pub(super) fn replace(directory: &Path, image: &Path) -> Result<(), DiskError> {
    for entry in std::fs::read_dir(directory).map_err(file("list", directory))? {
        let path = entry.map_err(file("list", directory))?.path();
        let removed =
            if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        removed.map_err(file("remove", &path))?;
    }
    copy_tree(image, directory)
}

/// Copies instead of renaming, because the directories may be on different file systems.
fn copy_tree(from: &Path, to: &Path) -> Result<(), DiskError> {
    for entry in std::fs::read_dir(from).map_err(file("list", from))? {
        let entry = entry.map_err(file("list", from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            std::fs::create_dir(&target).map_err(file("make", &target))?;
            copy_tree(&source, &target)?;
        } else {
            std::fs::copy(&source, &target).map_err(file("copy to", &target))?;
        }
    }
    Ok(())
}

/// What the names refer to after the cut.
pub(super) fn surviving_names(history: &History<'_>, choice: &Choice) -> BTreeMap<String, Node> {
    let mut names = history.first_names.clone();
    for (change, survives) in history.names.iter().zip(&choice.names) {
        if !survives {
            continue;
        }
        match &change.what {
            Naming::Bind { path, node } => {
                names.insert(path.clone(), *node);
            }
            Naming::Move { from, to, node } => {
                // The name may refer to an older file if the creation in between was lost.
                if names.get(from) == Some(node) {
                    names.remove(from);
                }
                names.insert(to.clone(), *node);
            }
            Naming::Remove { path } => {
                names.remove(path);
            }
        }
    }
    names
}

fn write_file(
    bytes: &[u8],
    history: &FileHistory,
    survivals: &[Survival],
    path: &Path,
) -> Result<(), DiskError> {
    if let Some(base) = &history.base {
        std::fs::copy(base, path).map_err(file("copy to", path))?;
        // The copy has the file's mode, which may forbid the changes below.
        let writable = Permissions::from_mode(0o600);
        std::fs::set_permissions(path, writable).map_err(file("set the mode of", path))?;
    }
    let target =
        File::options().create(true).truncate(false).write(true).open(path).map_err(file("write", path))?;
    for (change, survival) in history.changes.iter().zip(survivals) {
        apply(bytes, change, *survival, &target).map_err(file("write", path))?;
    }
    target.set_permissions(Permissions::from_mode(history.mode)).map_err(file("set the mode of", path))
}

fn apply(bytes: &[u8], change: &Change, survival: Survival, target: &File) -> std::io::Result<()> {
    let kept = match survival {
        Survival::Whole => u64::MAX,
        Survival::Prefix(kept) => kept,
        Survival::None => return Ok(()),
    };
    match &change.what {
        Content::Write { offset, data } => {
            let length = data.len().min(usize::try_from(kept).unwrap_or(usize::MAX));
            target.write_all_at(&bytes[data.start..data.start + length], *offset)
        }
        Content::Truncate(length) => target.set_len(*length),
        Content::Extend(length) => target.set_len((*length).max(target.metadata()?.len())),
    }
}
