//! What the tools of a script do to files. Every path stays below the session's directory.

use super::act::Effect;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Component, Path};
use turnstream_adapter::WorkingDirectory;
use turnstream_agent_process::with_user_umask;

/// The most bytes that a read returns.
const MAX_SHOWN: u64 = 64 << 10;

/// The mode of a new file, less the user's umask.
const NEW_FILE: Mode = Mode::from_bits_retain(0o666);

/// Why a tool failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum EffectError {
    #[error(
        "{path:?} is not allowed: a path must be relative, without \"..\" and links, and stay below the session's directory"
    )]
    Outside { path: String },
    #[error("{path:?} is not a regular file")]
    NotAFile { path: String },
    #[error("{path:?} cannot be used: {source}")]
    Io { path: String, source: io::Error },
    #[error("only {written} of {wanted} bytes were appended to {path:?}")]
    Short { path: String, written: usize, wanted: usize },
}

/// Performs an effect durably and returns the result of the tool.
pub(super) fn perform(effect: &Effect, cwd: &WorkingDirectory) -> Result<Value, EffectError> {
    let path = effect.path();
    let failed = |source| EffectError::Io { path: path.to_owned(), source };
    match effect {
        Effect::Write { text, .. } => {
            let file = open_below(cwd, path, OFlags::WRONLY | OFlags::CREATE)?;
            write(file, text).map_err(failed)?;
            Ok(json!({ "bytes": text.len() }))
        }
        Effect::Append { text, .. } => {
            let file = open_below(cwd, path, OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND)?;
            let written = append(file, text).map_err(failed)?;
            if written != text.len() {
                return Err(EffectError::Short { path: path.to_owned(), written, wanted: text.len() });
            }
            Ok(json!({ "bytes": written }))
        }
        Effect::Read { .. } => {
            let mut bytes = Vec::new();
            let file = open_below(cwd, path, OFlags::RDONLY)?;
            file.take(MAX_SHOWN).read_to_end(&mut bytes).map_err(failed)?;
            Ok(json!({ "text": String::from_utf8_lossy(&bytes) }))
        }
        Effect::Count { .. } => {
            let mut bytes = Vec::new();
            match open_below(cwd, path, OFlags::RDONLY) {
                Ok(mut file) => file.read_to_end(&mut bytes).map_err(failed)?,
                Err(EffectError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => 0,
                Err(error) => return Err(error),
            };
            Ok(json!({ "lines": bytes.iter().filter(|byte| **byte == b'\n').count() }))
        }
    }
}

/// Opens a regular file below the open directory. No link is followed, so nothing can lead outside.
fn open_below(cwd: &WorkingDirectory, path: &str, how: OFlags) -> Result<File, EffectError> {
    const WITHOUT_LINKS: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC);
    let outside = || EffectError::Outside { path: path.to_owned() };
    let not_a_file = || EffectError::NotAFile { path: path.to_owned() };
    let failed = |error: Errno| match error {
        // A link at the end, and one in the middle. A file in the middle gives the same error.
        Errno::LOOP | Errno::NOTDIR => outside(),
        Errno::ISDIR => not_a_file(),
        error => EffectError::Io { path: path.to_owned(), source: error.into() },
    };
    let relative = Path::new(path);
    if path.is_empty() || !relative.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(outside());
    }
    let Some(name) = relative.file_name() else { return Err(outside()) };
    let mut directory = None;
    for part in relative.parent().into_iter().flat_map(Path::components) {
        let below = directory.as_ref().map_or(cwd.as_fd(), AsFd::as_fd);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | WITHOUT_LINKS;
        directory = Some(openat(below, part.as_os_str(), flags, Mode::empty()).map_err(failed)?);
    }
    let below = directory.as_ref().map_or(cwd.as_fd(), AsFd::as_fd);
    // A pipe would block.
    let flags = how | WITHOUT_LINKS | OFlags::NONBLOCK;
    let file = File::from(with_user_umask(|| openat(below, name, flags, NEW_FILE)).map_err(failed)?);
    match file.metadata() {
        Ok(found) if found.is_file() => Ok(file),
        Ok(_) => Err(not_a_file()),
        Err(source) => Err(EffectError::Io { path: path.to_owned(), source }),
    }
}

fn write(mut file: File, text: &str) -> io::Result<()> {
    // Only now, when it is known to be a regular file.
    file.set_len(0)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Appends with one system call: tests count effects by what was appended.
fn append(mut file: File, text: &str) -> io::Result<usize> {
    let written = file.write(text.as_bytes())?;
    file.sync_all()?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::EffectError;
    use crate::demo::act::Effect;
    use serde_json::Value;
    use std::fs;
    use std::path::Path;
    use turnstream_adapter::WorkingDirectory;

    fn perform(effect: &Effect, cwd: &Path) -> Result<Value, EffectError> {
        super::perform(effect, &WorkingDirectory::open(cwd).unwrap())
    }

    fn write(path: &str) -> Effect {
        Effect::Write { path: path.to_owned(), text: "x".to_owned() }
    }

    #[test]
    fn what_leads_outside_is_refused() {
        let outer = tempfile::tempdir().unwrap();
        let cwd = outer.path().join("cwd");
        fs::create_dir(&cwd).unwrap();
        let absolute = outer.path().join("a.txt");
        for path in ["../a.txt", "sub/../../a.txt", "./a.txt", "", absolute.to_str().unwrap()] {
            let refused = perform(&write(path), &cwd);
            assert!(matches!(refused, Err(EffectError::Outside { .. })), "{path}: {refused:?}");
        }
        assert!(!absolute.exists());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed() {
        use std::os::unix::fs::symlink;
        let outer = tempfile::tempdir().unwrap();
        let cwd = outer.path().join("cwd");
        fs::create_dir_all(cwd.join("sub")).unwrap();
        fs::write(outer.path().join("a.txt"), "old").unwrap();
        symlink(outer.path(), cwd.join("up")).unwrap();
        symlink(outer.path().join("a.txt"), cwd.join("a.txt")).unwrap();
        symlink(outer.path().join("new.txt"), cwd.join("dangling")).unwrap();
        symlink("sub", cwd.join("inside")).unwrap();
        for path in ["up/a.txt", "a.txt", "up/new.txt", "dangling", "inside/b.txt"] {
            let refused = perform(&write(path), &cwd);
            assert!(matches!(refused, Err(EffectError::Outside { .. })), "{path}: {refused:?}");
        }
        assert_eq!(fs::read_to_string(outer.path().join("a.txt")).unwrap(), "old");
        assert!(!outer.path().join("new.txt").exists());
        perform(&write("sub/b.txt"), &cwd).unwrap();
        assert_eq!(fs::read_to_string(cwd.join("sub/b.txt")).unwrap(), "x");
    }

    #[test]
    fn a_directory_that_is_swapped_for_a_link_after_it_was_opened_leads_nowhere() {
        let outer = tempfile::tempdir().unwrap();
        let (cwd, moved) = (outer.path().join("cwd"), outer.path().join("moved"));
        fs::create_dir(&cwd).unwrap();
        let opened = WorkingDirectory::open(&cwd).unwrap();
        fs::rename(&cwd, &moved).unwrap();
        std::os::unix::fs::symlink(outer.path(), &cwd).unwrap();
        super::perform(&write("a.txt"), &opened).unwrap();
        assert!(!outer.path().join("a.txt").exists());
        assert_eq!(fs::read_to_string(moved.join("a.txt")).unwrap(), "x");
    }

    #[test]
    fn a_directory_is_no_file() {
        let cwd = tempfile::tempdir().unwrap();
        fs::create_dir(cwd.path().join("sub")).unwrap();
        let refused = perform(&write("sub"), cwd.path());
        assert!(matches!(refused, Err(EffectError::NotAFile { .. })), "{refused:?}");
    }

    #[test]
    fn appended_lines_are_counted() {
        let cwd = tempfile::tempdir().unwrap();
        let count = Effect::Count { path: "n".to_owned() };
        assert_eq!(perform(&count, cwd.path()).unwrap()["lines"], 0);
        for _ in 0..3 {
            perform(&Effect::Append { path: "n".to_owned(), text: "ran\n".to_owned() }, cwd.path()).unwrap();
        }
        assert_eq!(perform(&count, cwd.path()).unwrap()["lines"], 3);
    }
}
