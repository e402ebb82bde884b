//! The temporary file of an import. It has no name, so a crash leaves nothing behind.

use super::error::ImportError;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Bytes that are buffered before they are written.
const AT_ONCE: usize = 256 * 1024;

/// The bytes received so far.
pub struct Spool {
    file: File,
    waiting: Vec<u8>,
}

/// The prefix of the file's name, which it has between its creation and its removal.
const PREFIX: &str = "import-";

/// Removes files whose name a crash left behind. They are empty.
pub(crate) fn remove_leftovers(data: &Path) {
    for entry in fs::read_dir(data).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX)
            && let Err(error) = fs::remove_file(entry.path())
        {
            tracing::warn!(path = %entry.path().display(), %error, "an empty file cannot be removed");
        }
    }
}

impl Spool {
    pub(super) async fn new(data: &Path) -> Result<Self, ImportError> {
        let path = data.join(format!("{PREFIX}{:016x}", fastrand::u64(..)));
        let made = tokio::task::spawn_blocking(move || {
            let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
            turnstream_failpoint::reach("gateway.spool");
            // The file exists as long as it is open.
            fs::remove_file(&path)?;
            Ok(file)
        });
        let file = made.await.map_err(io::Error::other).flatten().map_err(ImportError::spool)?;
        Ok(Self { file, waiting: Vec::new() })
    }

    /// Adds bytes.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), ImportError> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= AT_ONCE { self.flush().await } else { Ok(()) }
    }

    /// Writes the buffered bytes.
    pub async fn flush(&mut self) -> Result<(), ImportError> {
        let waiting = std::mem::take(&mut self.waiting);
        let file = self.file.try_clone().map_err(ImportError::spool)?;
        let written = tokio::task::spawn_blocking(move || (&file).write_all(&waiting));
        written.await.map_err(io::Error::other).flatten().map_err(ImportError::spool)
    }

    /// The whole file, with the buffered bytes. Blocks.
    pub(super) fn into_file(mut self) -> Result<File, ImportError> {
        self.file.write_all(&self.waiting).map_err(ImportError::spool)?;
        Ok(self.file)
    }
}
