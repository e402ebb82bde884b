//! A data directory with one owner, and its `boot` file.

use super::note::BootNote;
use crate::error::OpenError;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

const DATABASE: &str = "log.db";
const LOCK: &str = "lock";
const NOTE: &str = "boot";

/// Locked for as long as the log is open; another process is refused.
pub(crate) struct Directory {
    path: PathBuf,
    /// The lock is on the directory itself, so no file can be removed to get around it.
    _lock: File,
    /// The only lock of earlier versions, which must not open the directory at the same time.
    _lock_file: File,
}

impl Directory {
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let failed = |path: PathBuf| move |source| OpenError::Directory { path, source };
        make(path).map_err(failed(path.to_owned()))?;
        let lock = File::open(path).map_err(failed(path.to_owned()))?;
        lock_exclusively(&lock, path, path)?;
        let lock_path = path.join(LOCK);
        let lock_file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(failed(lock_path.clone()))?;
        lock_exclusively(&lock_file, &lock_path, path)?;
        turnstream_failpoint::reach("log.locked");
        Ok(Self { path: path.to_owned(), _lock: lock, _lock_file: lock_file })
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// The note of the last owner. Empty if there is none.
    pub(crate) fn read_note(&self) -> io::Result<BootNote> {
        let mut bytes = Vec::new();
        match File::open(self.path.join(NOTE)) {
            Ok(mut file) => file.read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        Ok(BootNote::parse(&String::from_utf8_lossy(&bytes)))
    }

    /// Replaces the note. Durable when this returns.
    pub(crate) fn write_note(&self, note: &BootNote) -> io::Result<()> {
        turnstream_failpoint::reach("log.note");
        let new = self.path.join("boot.new");
        let mut file = File::create(&new)?;
        file.write_all(note.to_string().as_bytes())?;
        turnstream_failpoint::reach("log.note.written");
        file.sync_all()?;
        turnstream_failpoint::reach("log.note.rename");
        fs::rename(&new, self.path.join(NOTE))?;
        turnstream_failpoint::reach("log.note.renamed");
        sync(&self.path)?;
        turnstream_failpoint::reach("log.noted");
        Ok(())
    }

    /// Distinguishes this database file from a copy of it. A file system may reuse the inode of a deleted
    /// file, so the creation time is included where it is available.
    pub(crate) fn database_identity(&self) -> io::Result<String> {
        use std::os::unix::fs::MetadataExt;
        let metadata = fs::metadata(self.database())?;
        let made = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Ok(format!("{}:{}:{}", metadata.dev(), metadata.ino(), made.map_or(0, |made| made.as_nanos())))
    }
}

/// Takes the lock on this file of the directory, or refuses at once.
fn lock_exclusively(file: &File, path: &Path, directory: &Path) -> Result<(), OpenError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(directory.to_owned())),
        Err(TryLockError::Error(source)) => Err(OpenError::Directory { path: path.to_owned(), source }),
    }
}

/// Creates a directory and its parents for this user only, and durably. Otherwise a power cut could remove a
/// directory with everything that was synced in it.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|above| !above.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    turnstream_failpoint::reach("log.directory");
    for made in missing {
        let above = made.parent().filter(|above| !above.as_os_str().is_empty());
        sync(above.unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

/// Makes the file names in a directory durable.
fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
