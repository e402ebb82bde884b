//! Finds files below the session's directory. Nothing outside of it can be reached.
//!
//! Every part of a path is opened by its own, without following links. A link is read, and its target is
//! walked in the same way. `..` goes back to a directory that was opened on the way. So a file or directory
//! that is swapped for a link at any moment leads nowhere else.

use rustix::fs::{Mode, OFlags, mkdirat, openat, readlinkat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use turnstream_adapter::WorkingDirectory;
use turnstream_agent_process::with_user_umask;

/// The most links in one path.
const MOST_LINKS: usize = 40;
/// The modes of a new file and a new directory, less the user's umask.
const NEW_FILE: Mode = Mode::from_bits_retain(0o666);
const NEW_DIRECTORY: Mode = Mode::from_bits_retain(0o777);
/// Never follows a link, and never waits for the other end of a pipe.
const PLAIN: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// Why a path cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PathError {
    #[error("{path:?} is outside of the session's directory; use a path below it")]
    Outside { path: String },
    #[error("{path:?} does not exist")]
    Missing { path: String },
    #[error("{path:?} is a directory; give a file, or use the tool list")]
    IsDirectory { path: String },
    #[error("{path:?} is no directory; give a directory, or use the tool read")]
    NotADirectory { path: String },
    #[error("{path:?} is not a regular file")]
    NotAFile { path: String },
    #[error("{path:?} has more than {MOST_LINKS} links")]
    Links { path: String },
    #[error("{path:?} cannot be used: {source}")]
    Io { path: String, source: io::Error },
}

/// Whether directories that a path lacks are made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lacking {
    Make,
    Refuse,
}

/// What a path leads to.
enum Place {
    /// A directory, opened.
    Directory(OwnedFd),
    /// Something else, or nothing yet: its directory, and its name there.
    Entry { directory: OwnedFd, name: OsString },
}

/// Opens a regular file.
pub(crate) fn open_file(root: &WorkingDirectory, path: &str, how: OFlags) -> Result<File, PathError> {
    let is_new = how.contains(OFlags::CREATE);
    let shown = || path.to_owned();
    let lacking = if is_new { Lacking::Make } else { Lacking::Refuse };
    let (directory, name) = match walk(root, path, lacking)? {
        Place::Directory(_) => return Err(PathError::IsDirectory { path: shown() }),
        Place::Entry { directory, name } => (directory, name),
    };
    let open = || openat(&directory, &name, how | PLAIN, NEW_FILE);
    // The umask is one for the whole process: others wait for it.
    let opened = if is_new { with_user_umask(open) } else { open() };
    let file = File::from(opened.map_err(|error| failed(path, error))?);
    let found = file.metadata().map_err(|source| PathError::Io { path: shown(), source })?;
    if !found.is_file() {
        return Err(PathError::NotAFile { path: shown() });
    }
    Ok(file)
}

/// Opens a directory.
pub(crate) fn open_directory(root: &WorkingDirectory, path: &str) -> Result<OwnedFd, PathError> {
    match walk(root, path, Lacking::Refuse)? {
        Place::Directory(directory) => Ok(directory),
        Place::Entry { directory, name } => {
            // The error tells a missing entry from one that is no directory.
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | PLAIN;
            openat(directory, name, flags, Mode::empty()).map_err(|error| failed(path, error))
        }
    }
}

/// Opens an entry of an open directory: a directory, or a regular file to be read. Links are not followed.
pub(crate) fn open_entry(directory: impl AsFd, name: &OsStr) -> io::Result<File> {
    Ok(File::from(openat(directory, name, OFlags::RDONLY | PLAIN, Mode::empty())?))
}

fn walk(root: &WorkingDirectory, path: &str, lacking: Lacking) -> Result<Place, PathError> {
    let outside = || PathError::Outside { path: path.to_owned() };
    let io = |error: Errno| failed(path, error);
    let mut parts = VecDeque::new();
    push_front(&mut parts, root, Path::new(path)).ok_or_else(outside)?;
    let mut opened: Vec<OwnedFd> = Vec::new();
    let mut links = 0;
    while let Some(part) = parts.pop_front() {
        let name = match part {
            Part::Root => {
                opened.clear();
                continue;
            }
            Part::Up => {
                opened.pop().ok_or_else(outside)?;
                continue;
            }
            Part::Name(name) => name,
        };
        let here = opened.last().map_or(root.as_fd(), AsFd::as_fd);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | PLAIN;
        match openat(here, &name, flags, Mode::empty()) {
            Ok(directory) => opened.push(directory),
            // A link, or a file.
            Err(Errno::NOTDIR | Errno::LOOP | Errno::MLINK) => match readlinkat(here, &name, Vec::new()) {
                Ok(target) => {
                    links += 1;
                    if links > MOST_LINKS {
                        return Err(PathError::Links { path: path.to_owned() });
                    }
                    let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                    push_front(&mut parts, root, &target).ok_or_else(outside)?;
                }
                Err(Errno::INVAL) if parts.is_empty() => return entry(here, name).map_err(io),
                Err(Errno::INVAL) => return Err(PathError::NotADirectory { path: path.to_owned() }),
                Err(error) => return Err(io(error)),
            },
            Err(Errno::NOENT) if parts.is_empty() => return entry(here, name).map_err(io),
            Err(Errno::NOENT) if lacking == Lacking::Make => {
                match with_user_umask(|| mkdirat(here, &name, NEW_DIRECTORY)) {
                    Ok(()) | Err(Errno::EXIST) => parts.push_front(Part::Name(name)),
                    Err(error) => return Err(io(error)),
                }
            }
            Err(error) => return Err(io(error)),
        }
    }
    let last = match opened.pop() {
        Some(directory) => directory,
        None => openat(root, ".", OFlags::RDONLY | OFlags::DIRECTORY | PLAIN, Mode::empty()).map_err(io)?,
    };
    Ok(Place::Directory(last))
}

fn entry(directory: BorrowedFd<'_>, name: OsString) -> Result<Place, Errno> {
    Ok(Place::Entry { directory: fcntl_dupfd_cloexec(directory, 0)?, name })
}

/// One step on the way.
enum Part {
    /// Back to the session's directory.
    Root,
    Up,
    Name(OsString),
}

/// Walks this path next. `None` for an absolute path that does not begin with the root.
fn push_front(parts: &mut VecDeque<Part>, root: &WorkingDirectory, path: &Path) -> Option<()> {
    let (below, is_absolute) = match path.is_absolute() {
        true => (path.strip_prefix(root.path()).ok()?, true),
        false => (path, false),
    };
    for component in below.components().rev() {
        match component {
            Component::Normal(name) => parts.push_front(Part::Name(name.to_owned())),
            Component::ParentDir => parts.push_front(Part::Up),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    if is_absolute {
        parts.push_front(Part::Root);
    }
    Some(())
}

fn failed(path: &str, error: Errno) -> PathError {
    let path = path.to_owned();
    match error {
        Errno::NOENT => PathError::Missing { path },
        Errno::NOTDIR => PathError::NotADirectory { path },
        Errno::ISDIR => PathError::IsDirectory { path },
        // It became a link between the two looks at it.
        Errno::LOOP | Errno::MLINK => PathError::Outside { path },
        error => PathError::Io { path, source: error.into() },
    }
}

#[cfg(test)]
mod tests {
    use super::{PathError, open_directory, open_file};
    use rustix::fs::OFlags;
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use turnstream_adapter::WorkingDirectory;

    fn content(root: &WorkingDirectory, path: &str) -> Result<String, PathError> {
        let mut text = String::new();
        open_file(root, path, OFlags::RDONLY)?.read_to_string(&mut text).unwrap();
        Ok(text)
    }

    fn create(root: &WorkingDirectory, path: &str) -> Result<(), PathError> {
        open_file(root, path, OFlags::WRONLY | OFlags::CREATE).map(drop)
    }

    /// A root with a file, and a neighbour with a secret.
    fn place() -> (tempfile::TempDir, WorkingDirectory) {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("root");
        fs::create_dir_all(root.join("sub/deep")).unwrap();
        fs::create_dir(home.path().join("root-2")).unwrap();
        fs::write(root.join("sub/a.txt"), "inside").unwrap();
        fs::write(home.path().join("root-2/secret"), "secret").unwrap();
        let root = WorkingDirectory::open(&root).unwrap();
        (home, root)
    }

    #[test]
    fn paths_and_links_inside_of_the_root_are_followed() {
        let (_home, root) = place();
        let at = |name: &str| root.path().join(name);
        symlink("a.txt", at("sub/link")).unwrap();
        symlink("../sub/link", at("sub/twice")).unwrap();
        symlink(at("sub"), at("absolute")).unwrap();
        let absolute = at("sub/a.txt").display().to_string();
        for path in ["sub/a.txt", "./sub/../sub/a.txt", "sub/twice", "absolute/link", absolute.as_str()] {
            assert_eq!(content(&root, path).unwrap(), "inside", "{path}");
        }
        open_directory(&root, ".").unwrap();
        open_directory(&root, "").unwrap();
        open_directory(&root, "absolute/deep").unwrap();
        create(&root, "new/folder/file").unwrap();
        assert!(at("new/folder/file").is_file());
    }

    #[test]
    fn nothing_leads_outside() {
        let (home, root) = place();
        let at = |name: &str| root.path().join(name);
        let neighbour = root.path().parent().unwrap().join("root-2");
        symlink(&neighbour, at("out")).unwrap();
        symlink("../root-2", at("relative")).unwrap();
        symlink("../../root-2/secret", at("sub/file")).unwrap();
        symlink(neighbour.join("none"), at("dangling")).unwrap();
        symlink("/", at("top")).unwrap();
        let absolute = neighbour.join("secret").display().to_string();
        let paths = [
            "../root-2/secret",
            "sub/../../root-2/secret",
            "out/secret",
            "relative/secret",
            "sub/file",
            "dangling",
            "top/etc/passwd",
            "/etc/passwd",
            absolute.as_str(),
        ];
        for path in paths {
            for outcome in [content(&root, path).map(drop), create(&root, path)] {
                assert!(matches!(outcome, Err(PathError::Outside { .. })), "{path}: {outcome:?}");
            }
        }
        assert!(matches!(open_directory(&root, ".."), Err(PathError::Outside { .. })));
        assert_eq!(fs::read_dir(home.path().join("root-2")).unwrap().count(), 1);
    }

    #[test]
    fn loops_pipes_and_wrong_kinds_are_refused() {
        let (_home, root) = place();
        symlink("b", root.path().join("a")).unwrap();
        symlink("a", root.path().join("b")).unwrap();
        assert!(matches!(content(&root, "a"), Err(PathError::Links { .. })));
        assert!(matches!(content(&root, "sub"), Err(PathError::IsDirectory { .. })));
        assert!(matches!(content(&root, "sub/a.txt/b"), Err(PathError::NotADirectory { .. })));
        assert!(matches!(open_directory(&root, "sub/a.txt"), Err(PathError::NotADirectory { .. })));
        assert!(matches!(content(&root, "none/a"), Err(PathError::Missing { .. })));
        let pipe = root.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(matches!(content(&root, "pipe"), Err(PathError::NotAFile { .. })));
    }

    /// A directory is swapped for a link to the neighbour and back, as fast as it goes.
    #[test]
    fn a_directory_that_is_swapped_for_a_link_all_the_time_leads_nowhere_else() {
        let (_home, root) = place();
        let (sub, moved) = (root.path().join("sub"), root.path().join("moved"));
        fs::write(root.path().join("sub/secret"), "inside").unwrap();
        let neighbour = root.path().parent().unwrap().join("root-2");
        let over = AtomicBool::new(false);
        let swap = |from: &Path, to: &Path| fs::rename(from, to).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    swap(&sub, &moved);
                    symlink(&neighbour, &sub).unwrap();
                    fs::remove_file(&sub).unwrap();
                    swap(&moved, &sub);
                }
            });
            for _ in 0..2_000 {
                if let Ok(text) = content(&root, "sub/secret") {
                    assert_eq!(text, "inside");
                }
            }
            over.store(true, Ordering::Relaxed);
        });
    }
}
