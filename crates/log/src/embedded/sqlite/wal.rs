//! SQLite's write-ahead log beside the database file, and how a foreign one is recognised.
//!
//! If an operator restores `log.db` after a crash and leaves `log.db-wal` in place, SQLite would mix two
//! histories without noticing. So each transaction records which write-ahead log it is in, and the revision
//! of the database file when that log began. A database file with a lower revision was put there later.

use super::schema::{Meta, read_meta};
use super::unscrubbed::Unscrubbed;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tracing::{debug, warn};
use turnstream_model::Chain;

/// Bytes of the log's header, which contains the salt.
const HEADER: u64 = 32;
const SALT_AT: u64 = 16;
const PAGE_SIZE_AT: u64 = 8;
/// Bytes before each page in the log: page number, file size in pages at the end of a transaction, salt.
const FRAME: u64 = 24;

/// The write-ahead log of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wal {
    /// SQLite's id of the log; a new one each time the log restarts.
    pub(crate) salt: u64,
    /// The revision of the database file when the log began.
    pub(crate) base: u64,
}

impl Wal {
    /// The log with this salt, according to its last transaction. If that names another salt, it was the
    /// first one in the log. `None` if the transaction did not know.
    fn of(last: &Meta, salt: u64) -> Option<Self> {
        let said = last.wal?;
        let base = if said.salt == salt { said.base } else { last.revision.saturating_sub(1) };
        Some(Self { salt, base })
    }
}

/// Follows the write-ahead log from transaction to transaction. If it cannot be read, its state is unknown; a
/// base is never too high.
pub(super) struct WalWatch {
    path: PathBuf,
    file: Option<File>,
    current: Option<Wal>,
    /// The salt of the log, and the number of its pages that were read.
    noted: (u64, u64),
}

impl WalWatch {
    /// Continues with the existing log, if there is one.
    pub(super) fn new(database: &Path, meta: Option<&Meta>) -> Self {
        let mut watch = Self { path: beside(database, "-wal"), file: None, current: None, noted: (0, 0) };
        watch.current = match (meta, watch.logged_salt()) {
            (Some(meta), Ok(Some(salt))) => Wal::of(meta, salt),
            (None, Ok(salt)) => Some(Wal { salt: salt.unwrap_or(0), base: 0 }),
            (Some(_), Ok(None)) => Some(Wal { salt: 0, base: 0 }),
            (_, Err(_)) => None,
        };
        watch
    }

    /// The log of the next transaction, if known. The first transaction in a new log names the previous log.
    pub(super) fn current(&self) -> Option<Wal> {
        self.current
    }

    /// Checks after a transaction whether it began a new log.
    pub(super) fn transacted(&mut self, revision: u64) {
        self.current = match (self.logged_salt(), self.current) {
            (Ok(Some(salt)), Some(current)) if current.salt == salt => Some(current),
            (Ok(Some(salt)), Some(_)) => Some(Wal { salt, base: revision.saturating_sub(1) }),
            (Ok(Some(salt)), None) => Some(Wal { salt, base: 0 }),
            (Ok(None) | Err(_), _) => None,
        };
    }

    /// Adds the pages that were written to the log since the last call. Must be called after every
    /// transaction, before the log can restart.
    pub(super) fn note_written(&mut self, unscrubbed: &mut Unscrubbed) -> io::Result<()> {
        let Some(salt) = self.salt()? else { return Err(io::Error::other("there is no log")) };
        let Some(log) = &self.file else { return Err(io::Error::other("there is no log")) };
        let mut size = [0; 4];
        log.read_exact_at(&mut size, PAGE_SIZE_AT)?;
        let length = FRAME + u64::from(u32::from_be_bytes(size));
        let mut noted = if self.noted.0 == salt { self.noted.1 } else { 0 };
        let mut place = noted;
        let mut frame = [0; FRAME as usize];
        loop {
            match log.read_exact_at(&mut frame, HEADER + place * length) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(error),
            }
            let number =
                |at: usize| u32::from_be_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
            if frame[8..16] != salt.to_be_bytes() {
                // From an earlier log in the same file.
                break;
            }
            unscrubbed.add(u64::from(number(0).saturating_sub(1)));
            place += 1;
            if number(4) > 0 {
                // Pages after the last complete transaction will be overwritten.
                noted = place;
            }
        }
        self.noted = (salt, noted);
        Ok(())
    }

    /// The size of the log, as far as known.
    pub(super) fn bytes(&self) -> u64 {
        let Some(file) = &self.file else { return 0 };
        file.metadata().map(|file| file.len()).unwrap_or_else(|error| {
            debug!(path = %self.path.display(), error = %Chain(&error), "the write-ahead log has no size");
            0
        })
    }

    /// The salt of the log. An error is logged: without the salt, a restored file may not be recognised.
    fn logged_salt(&mut self) -> io::Result<Option<u64>> {
        let salt = self.salt();
        if let Err(error) = &salt {
            debug!(path = %self.path.display(), error = %Chain(error), "the write-ahead log cannot be read");
        }
        salt
    }

    /// The salt of the log. `None` if there is no log.
    fn salt(&mut self) -> io::Result<Option<u64>> {
        if self.file.is_none() {
            self.file = match File::open(&self.path) {
                Ok(file) => Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
        }
        self.file.as_ref().map_or(Ok(None), salt_of)
    }
}

/// Moves the write-ahead log aside if the database file is older than it. True if it was.
pub(super) fn set_aside_if_foreign(database: &Path) -> io::Result<bool> {
    let log = beside(database, "-wal");
    if !std::fs::metadata(&log).is_ok_and(|file| file.len() > HEADER) {
        return Ok(false);
    }
    // If either cannot be read, SQLite decides.
    let (Some(alone), Some(with_log)) = (meta(database, Look::Alone), meta(database, Look::WithLog)) else {
        return Ok(false);
    };
    let base =
        salt_of(&File::open(&log)?)?.and_then(|salt| Wal::of(&with_log, salt)).map_or(0, |wal| wal.base);
    if alone.revision >= base {
        return Ok(false);
    }
    let aside = beside(database, "-wal.foreign");
    std::fs::rename(&log, &aside)?;
    let path = aside.display();
    warn!(%path, "the database is older than its write-ahead log, which was moved aside");
    turnstream_failpoint::reach("log.wal.aside");
    match std::fs::remove_file(beside(database, "-shm")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(true),
    }
}

/// How to open a database file.
enum Look {
    /// Without the log beside it.
    Alone,
    WithLog,
}

fn meta(database: &Path, look: Look) -> Option<Meta> {
    read_meta_of(database, look).unwrap_or_else(|error| {
        debug!(path = %database.display(), error = %Chain(&error), "left to SQLite to judge");
        None
    })
}

fn read_meta_of(database: &Path, look: Look) -> rusqlite::Result<Option<Meta>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let immutable = match look {
        Look::Alone => "?immutable=1",
        Look::WithLog => "",
    };
    let Some(path) = database.to_str() else { return Ok(None) };
    let path = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let connection = Connection::open_with_flags(format!("file:{path}{immutable}"), flags)?;
    // Do not change the files.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    read_meta(&connection)
}

/// The salt of a log. `None` if it is empty.
fn salt_of(log: &File) -> io::Result<Option<u64>> {
    let mut salt = [0; 8];
    match log.read_exact_at(&mut salt, SALT_AT) {
        Ok(()) => Ok(Some(u64::from_be_bytes(salt))),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// The path of a file that SQLite keeps beside a database.
fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(ending);
    PathBuf::from(path)
}
