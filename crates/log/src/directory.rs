//! A data directory with one owner, and the note that tells a restored backup from a continued log.

use crate::error::OpenError;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

const DATABASE: &str = "log.db";
const LOCK: &str = "lock";
const NOTE: &str = "boot";

/// Held for as long as the log is open; another process is refused.
pub(crate) struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let failed = |path: PathBuf| move |source| OpenError::Directory { path, source };
        fs::create_dir_all(path).map_err(failed(path.to_owned()))?;
        let lock_path = path.join(LOCK);
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(failed(lock_path.clone()))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse(path.to_owned())),
            Err(TryLockError::Error(error)) => Err(failed(lock_path)(error)),
        }
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// The note of the last owner: its boot id and the identity of the database file it used. A database that was
    /// restored has an older boot id inside, or is another file.
    pub(crate) fn read_note(&self) -> io::Result<Option<String>> {
        let mut text = String::new();
        match File::open(self.path.join(NOTE)) {
            Ok(mut file) => file.read_to_string(&mut text).map(|_| Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the note; durable when it returns.
    pub(crate) fn write_note(&self, note: &str) -> io::Result<()> {
        let new = self.path.join("boot.new");
        let mut file = File::create(&new)?;
        file.write_all(note.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, self.path.join(NOTE))?;
        File::open(&self.path)?.sync_all()
    }

    /// What tells this database file from a copy of it.
    pub(crate) fn database_identity(&self) -> io::Result<String> {
        let metadata = fs::metadata(self.database())?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            Ok(format!("{}:{}", metadata.dev(), metadata.ino()))
        }
        #[cfg(not(unix))]
        {
            Ok(format!("{:?}", metadata.created()?))
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
