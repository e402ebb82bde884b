//! What a server prints, in a file: a pipe would break with the process that reads it, and the server may outlive that.

use super::ServeError;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The file below the server's state directory.
const FILE: &str = "opencode.log";
/// How much of its end is kept and shown.
const TAIL: u64 = 4 * 1024;
/// From this size on it begins anew.
const CAP: u64 = 4 * 1024 * 1024;

/// The file a server prints to.
#[derive(Debug, Clone)]
pub(super) struct Output {
    path: PathBuf,
}

impl Output {
    pub(super) fn new(state: &Path) -> Self {
        Self { path: state.join(FILE) }
    }

    /// An empty file to print to. Always written at its end, so that it can be cut while it is open.
    pub(super) fn fresh(&self) -> Result<File, ServeError> {
        let opened = || -> io::Result<File> {
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
            file.set_len(0)?;
            Ok(file)
        };
        opened().map_err(|error| ServeError::Io { what: "write", path: self.path.clone(), error })
    }

    /// The end of what was printed.
    pub(super) fn tail(&self) -> String {
        let read = || -> io::Result<Vec<u8>> {
            let mut file = File::open(&self.path)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
            let mut tail = Vec::new();
            file.take(TAIL).read_to_end(&mut tail)?;
            Ok(tail)
        };
        String::from_utf8_lossy(&read().unwrap_or_default()).trim().to_owned()
    }

    /// Empties a file that has grown too long. Failing to is no trouble yet.
    pub(super) fn keep_short(&self) {
        let too_long = std::fs::metadata(&self.path).is_ok_and(|file| file.len() > CAP);
        if too_long && let Ok(file) = OpenOptions::new().write(true).open(&self.path) {
            let _ = file.set_len(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn only_the_end_is_shown_and_a_long_file_begins_anew_under_its_writer() {
        let state = tempfile::tempdir().unwrap();
        let output = Output::new(state.path());
        let mut file = output.fresh().unwrap();
        file.write_all(&vec![b'x'; CAP as usize]).unwrap();
        file.write_all(b" the end\n").unwrap();
        let tail = output.tail();
        assert!(tail.ends_with("x the end"), "{tail}");
        assert_eq!(tail.len() as u64, TAIL - 1);
        output.keep_short();
        file.write_all(b"on we go\n").unwrap();
        assert_eq!(output.tail(), "on we go");
    }
}
