//! The working directory of a session, opened: what was checked is what the agent works in.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, open, openat, statat};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Enough to walk from a directory, without the right to list it.
#[cfg(target_os = "linux")]
const LOOK: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const LOOK: OFlags = OFlags::RDONLY;

/// An open directory. Cloning shares it.
///
/// A name that leads elsewhere later does not change which directory this is. A program that takes only a
/// path gets [`WorkingDirectory::path`].
#[derive(Clone, Debug)]
pub struct WorkingDirectory {
    directory: Arc<OwnedFd>,
    path: PathBuf,
}

/// Device and inode: the same for every name of a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity(u64, u64);

impl WorkingDirectory {
    /// Opens a directory. Links in the path are followed now, and not again.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let directory = open(&path, LOOK | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { directory: Arc::new(directory), path })
    }

    /// Its path without links, as it was when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the path still leads to this directory.
    pub fn is_at_its_path(&self) -> bool {
        Self::open(&self.path)
            .and_then(|found| Ok(identity(&*found.directory)? == identity(&*self.directory)?))
            .unwrap_or(false)
    }

    /// The names of the directories in it, sorted. Links to directories count. Names that are no UTF-8 are
    /// left out.
    pub fn directories(&self) -> io::Result<Vec<String>> {
        let listed = openat(
            &self.directory,
            ".",
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&listed)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let is_directory = match entry.file_type() {
                FileType::Directory => true,
                // What cannot be looked at is not offered.
                FileType::Symlink | FileType::Unknown => statat(&listed, name, AtFlags::empty())
                    .is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_dir()),
                FileType::RegularFile
                | FileType::Fifo
                | FileType::Socket
                | FileType::CharacterDevice
                | FileType::BlockDevice => false,
            };
            if is_directory && name != "." && name != ".." {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Whether this directory is one of these or lies below one. Open directories are compared, not paths.
    pub fn is_below(&self, roots: &[Self]) -> io::Result<bool> {
        let roots = roots.iter().map(|root| identity(&*root.directory)).collect::<io::Result<Vec<_>>>()?;
        let mut current = above(&self.directory, ".")?;
        loop {
            let here = identity(&current)?;
            if roots.contains(&here) {
                return Ok(true);
            }
            current = above(&current, "..")?;
            // Only the top directory is above itself.
            if identity(&current)? == here {
                return Ok(false);
            }
        }
    }
}

impl AsFd for WorkingDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

fn above(directory: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    Ok(openat(directory, name, LOOK | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

#[allow(clippy::unnecessary_cast, clippy::useless_conversion, reason = "the types differ between systems")]
fn identity(directory: impl AsFd) -> io::Result<Identity> {
    let found = fstat(directory)?;
    Ok(Identity(found.st_dev as u64, found.st_ino as u64))
}

#[cfg(test)]
mod tests {
    use super::WorkingDirectory;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_directory_is_below_a_root_whatever_its_names_say() {
        let home = tempfile::tempdir().unwrap();
        let (root, outside) = (home.path().join("root"), home.path().join("root-2"));
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        symlink(&outside, root.join("out")).unwrap();
        symlink(root.join("a"), outside.join("in")).unwrap();
        let roots = [WorkingDirectory::open(&root).unwrap()];
        let is_below =
            |path: &std::path::Path| WorkingDirectory::open(path).unwrap().is_below(&roots).unwrap();
        for inside in [root.clone(), root.join("a/b"), outside.join("in/b")] {
            assert!(is_below(&inside), "{}", inside.display());
        }
        for other in [outside.clone(), root.join("out"), home.path().to_owned(), "/".into()] {
            assert!(!is_below(&other), "{}", other.display());
        }
    }

    #[test]
    fn the_directories_in_a_directory_are_listed_by_name() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("b")).unwrap();
        std::fs::create_dir(home.path().join("a")).unwrap();
        std::fs::write(home.path().join("file"), "").unwrap();
        symlink(home.path().join("a"), home.path().join("c")).unwrap();
        symlink(home.path().join("nowhere"), home.path().join("d")).unwrap();
        let opened = WorkingDirectory::open(home.path()).unwrap();
        assert_eq!(opened.directories().unwrap(), ["a", "b", "c"]);
    }

    #[test]
    fn a_name_that_leads_elsewhere_later_is_noticed() {
        let home = tempfile::tempdir().unwrap();
        let (work, moved) = (home.path().join("work"), home.path().join("moved"));
        std::fs::create_dir(&work).unwrap();
        let opened = WorkingDirectory::open(&work).unwrap();
        assert!(opened.is_at_its_path());
        std::fs::rename(&work, &moved).unwrap();
        assert!(!opened.is_at_its_path());
        symlink("/", &work).unwrap();
        assert!(!opened.is_at_its_path());
        let roots = [WorkingDirectory::open(&moved).unwrap()];
        assert!(opened.is_below(&roots).unwrap(), "it is still the same directory");
    }
}
