//! SQLite's own log beside the database file, and how one is recognised that does not belong to it.
//!
//! Whoever puts `log.db` back after a crash and leaves `log.db-wal` there makes SQLite mix two histories: it cannot tell.
//! So each transaction notes which log it is in and how far the database file was when that log began. A file that is not
//! as far was put there later.

use super::schema::{Meta, read_meta};
use super::unscrubbed::Unscrubbed;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes of the log's own header, in which the salt stands.
const HEADER: u64 = 32;
const SALT_AT: u64 = 16;
const PAGE_SIZE_AT: u64 = 8;
/// Bytes before each page in it: the number of the page, of how many pages the file is if a transaction ends with it, and the
/// salt.
const FRAME: u64 = 24;

/// Which log a transaction is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wal {
    /// SQLite's name of it: another one each time the log begins anew.
    pub(crate) salt: u64,
    /// The revision that the database file had reached when it began.
    pub(crate) base: u64,
}

impl Wal {
    /// The log of that salt, from what the last transaction in it says: one that names another was the first in it.
    /// `None` when that transaction could not know.
    fn of(last: &Meta, salt: u64) -> Option<Self> {
        let said = last.wal?;
        let base = if said.salt == salt { said.base } else { last.revision.saturating_sub(1) };
        Some(Self { salt, base })
    }
}

/// Watches SQLite's log from transaction to transaction. What it cannot read it does not know; a base is never too high.
pub(super) struct WalWatch {
    path: PathBuf,
    file: Option<File>,
    current: Option<Wal>,
    /// How many pages of the log of this salt were noted.
    noted: (u64, u64),
}

impl WalWatch {
    /// Goes on with the log that is there, if there is one.
    pub(super) fn new(database: &Path, meta: Option<&Meta>) -> Self {
        let mut watch = Self { path: beside(database, "-wal"), file: None, current: None, noted: (0, 0) };
        watch.current = match (meta, watch.salt()) {
            (Some(meta), Ok(Some(salt))) => Wal::of(meta, salt),
            (None, Ok(salt)) => Some(Wal { salt: salt.unwrap_or(0), base: 0 }),
            (Some(_), Ok(None)) => Some(Wal { salt: 0, base: 0 }),
            (_, Err(_)) => None,
        };
        watch
    }

    /// Where the next transaction goes, as far as is known. The first one in a new log names the one before it.
    pub(super) fn current(&self) -> Option<Wal> {
        self.current
    }

    /// Looks after a transaction whether it began a new log.
    pub(super) fn transacted(&mut self, revision: u64) {
        self.current = match (self.salt(), self.current) {
            (Ok(Some(salt)), Some(current)) if current.salt == salt => Some(current),
            (Ok(Some(salt)), Some(_)) => Some(Wal { salt, base: revision.saturating_sub(1) }),
            (Ok(Some(salt)), None) => Some(Wal { salt, base: 0 }),
            (Ok(None) | Err(_), _) => None,
        };
    }

    /// Notes the pages that were written into the log since the last time. To be called after every transaction, before the
    /// log can begin anew.
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
                // Of an earlier log in the same file.
                break;
            }
            unscrubbed.add(u64::from(number(0).saturating_sub(1)));
            place += 1;
            if number(4) > 0 {
                // What is behind the last one that ends a transaction is written over by the next.
                noted = place;
            }
        }
        self.noted = (salt, noted);
        Ok(())
    }

    /// How long the log is, as far as is known.
    pub(super) fn bytes(&self) -> u64 {
        self.file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |file| file.len())
    }

    /// The salt of the log; `None` when there is no log.
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

/// Moves SQLite's log out of the way if the database file is older than it. True when it was.
pub(super) fn set_aside_if_foreign(database: &Path) -> io::Result<bool> {
    let log = beside(database, "-wal");
    if !std::fs::metadata(&log).is_ok_and(|file| file.len() > HEADER) {
        return Ok(false);
    }
    // What cannot be read here is for SQLite to judge.
    let (Some(alone), Some(with_log)) = (meta(database, Look::Alone), meta(database, Look::WithLog)) else {
        return Ok(false);
    };
    let base =
        salt_of(&File::open(&log)?)?.and_then(|salt| Wal::of(&with_log, salt)).map_or(0, |wal| wal.base);
    if alone.revision >= base {
        return Ok(false);
    }
    std::fs::rename(&log, beside(database, "-wal.foreign"))?;
    turnstream_failpoint::reach("log.wal.aside");
    match std::fs::remove_file(beside(database, "-shm")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(true),
    }
}

/// How a database file is looked at.
enum Look {
    /// As if there were no log beside it.
    Alone,
    WithLog,
}

fn meta(database: &Path, look: Look) -> Option<Meta> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let immutable = match look {
        Look::Alone => "?immutable=1",
        Look::WithLog => "",
    };
    let path = database.to_str()?.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let connection = Connection::open_with_flags(format!("file:{path}{immutable}"), flags).ok()?;
    // Looking may change nothing.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).ok()?;
    read_meta(&connection).ok().flatten()
}

/// The salt of a log; `None` when nothing is in it.
fn salt_of(log: &File) -> io::Result<Option<u64>> {
    let mut salt = [0; 8];
    match log.read_exact_at(&mut salt, SALT_AT) {
        Ok(()) => Ok(Some(u64::from_be_bytes(salt))),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// The file that SQLite has beside a database.
fn beside(database: &Path, ending: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(ending);
    PathBuf::from(path)
}
