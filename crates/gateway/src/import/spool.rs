//! A file without a name in the data directory: what comes over a connection is judged whole before any of it is kept.

use super::error::ImportError;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Bytes that are written together.
const AT_ONCE: usize = 256 * 1024;

/// Bytes that came so far.
pub struct Spool {
    file: File,
    waiting: Vec<u8>,
}

/// How their names begin, for the moment in which they have one.
const PREFIX: &str = "import-";

/// Removes files that a crash caught in that moment.
pub(crate) fn sweep(data: &Path) {
    // What cannot be removed is empty, and does no harm.
    for entry in fs::read_dir(data).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

impl Spool {
    pub(super) async fn new(data: &Path) -> Result<Self, ImportError> {
        let path = data.join(format!("{PREFIX}{:016x}", fastrand::u64(..)));
        let made = tokio::task::spawn_blocking(move || {
            let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
            turnstream_failpoint::reach("gateway.spool");
            // It lives as long as it is open.
            fs::remove_file(&path)?;
            Ok(file)
        });
        let file = made.await.map_err(io::Error::other).flatten().map_err(ImportError::spool)?;
        Ok(Self { file, waiting: Vec::new() })
    }

    /// Takes the next bytes.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), ImportError> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= AT_ONCE { self.flush().await } else { Ok(()) }
    }

    /// Writes what waits.
    pub async fn flush(&mut self) -> Result<(), ImportError> {
        let waiting = std::mem::take(&mut self.waiting);
        let file = self.file.try_clone().map_err(ImportError::spool)?;
        let written = tokio::task::spawn_blocking(move || (&file).write_all(&waiting));
        written.await.map_err(io::Error::other).flatten().map_err(ImportError::spool)
    }

    /// All of it. What waits is written first: no async here.
    pub(super) fn into_file(mut self) -> Result<File, ImportError> {
        self.file.write_all(&self.waiting).map_err(ImportError::spool)?;
        Ok(self.file)
    }
}
