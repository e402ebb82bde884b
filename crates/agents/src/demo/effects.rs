//! What the tools of a script do to files. Every path stays below the session's directory.

use super::act::Effect;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

/// The most bytes that a read returns.
const MAX_SHOWN: u64 = 64 << 10;

/// Why a tool failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum EffectError {
    #[error(
        "{path:?} is not allowed: a path must be relative, without \"..\", and stay below the session's directory"
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
pub(super) fn perform(effect: &Effect, cwd: &Path) -> Result<Value, EffectError> {
    let path = effect.path();
    let file = below(cwd, path)?;
    let failed = |source| EffectError::Io { path: path.to_owned(), source };
    match effect {
        Effect::Write { text, .. } => {
            write(&file, text).map_err(failed)?;
            Ok(json!({ "bytes": text.len() }))
        }
        Effect::Append { text, .. } => {
            let written = append(&file, text).map_err(failed)?;
            if written != text.len() {
                return Err(EffectError::Short { path: path.to_owned(), written, wanted: text.len() });
            }
            Ok(json!({ "bytes": written }))
        }
        Effect::Read { .. } => {
            let mut bytes = Vec::new();
            File::open(&file)
                .and_then(|file| file.take(MAX_SHOWN).read_to_end(&mut bytes))
                .map_err(failed)?;
            Ok(json!({ "text": String::from_utf8_lossy(&bytes) }))
        }
        Effect::Count { .. } => match fs::read(&file) {
            Ok(bytes) => Ok(json!({ "lines": bytes.iter().filter(|byte| **byte == b'\n').count() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(json!({ "lines": 0 })),
            Err(error) => Err(failed(error)),
        },
    }
}

/// The real path of a file below the directory. Links are followed, and must stay below it.
fn below(cwd: &Path, path: &str) -> Result<PathBuf, EffectError> {
    let outside = || EffectError::Outside { path: path.to_owned() };
    let failed = |source| EffectError::Io { path: path.to_owned(), source };
    let relative = Path::new(path);
    if path.is_empty() || !relative.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(outside());
    }
    let root = cwd.canonicalize().map_err(failed)?;
    let named = root.join(relative);
    let (Some(parent), Some(name)) = (named.parent(), named.file_name()) else { return Err(outside()) };
    let place = parent.canonicalize().map_err(failed)?.join(name);
    let real = match fs::symlink_metadata(&place) {
        // A dangling link would create a file at its unknown target.
        Ok(_) => place.canonicalize().map_err(failed)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => place,
        Err(error) => return Err(failed(error)),
    };
    if !real.starts_with(&root) {
        return Err(outside());
    }
    if fs::metadata(&real).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(EffectError::NotAFile { path: path.to_owned() });
    }
    Ok(real)
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Appends with one system call: tests count effects by what was appended.
fn append(path: &Path, text: &str) -> io::Result<usize> {
    let mut file = File::options().append(true).create(true).open(path)?;
    let written = file.write(text.as_bytes())?;
    file.sync_all()?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::{EffectError, perform};
    use crate::demo::act::Effect;
    use std::fs;

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
    fn links_that_lead_outside_are_refused_and_others_are_followed() {
        use std::os::unix::fs::symlink;
        let outer = tempfile::tempdir().unwrap();
        let cwd = outer.path().join("cwd");
        fs::create_dir_all(cwd.join("sub")).unwrap();
        fs::write(outer.path().join("a.txt"), "old").unwrap();
        symlink(outer.path(), cwd.join("up")).unwrap();
        symlink(outer.path().join("a.txt"), cwd.join("a.txt")).unwrap();
        symlink(outer.path().join("new.txt"), cwd.join("dangling")).unwrap();
        symlink(cwd.join("sub"), cwd.join("inside")).unwrap();
        for path in ["up/a.txt", "a.txt", "up/new.txt", "dangling"] {
            assert!(perform(&write(path), &cwd).is_err(), "{path}");
        }
        assert_eq!(fs::read_to_string(outer.path().join("a.txt")).unwrap(), "old");
        assert!(!outer.path().join("new.txt").exists());
        perform(&write("inside/b.txt"), &cwd).unwrap();
        assert_eq!(fs::read_to_string(cwd.join("sub/b.txt")).unwrap(), "x");
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
