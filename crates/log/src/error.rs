//! The errors of a log, one type per operation.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use turnstream_model::SharedError;
use turnstream_model::cursor::Seq;
use turnstream_model::event::EventError;

/// The error behind a failed store operation.
pub type StoreFault = SharedError;

/// Whether this error, or one behind it, says that a disk or a quota is full.
pub fn is_disk_full(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<io::Error>().map(io::Error::kind);
        let sqlite = error.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error);
        // SQLite has a code of its own for an index of the write-ahead log that cannot grow.
        let is_full_for_sqlite = sqlite.is_some_and(|error| {
            error.code == rusqlite::ErrorCode::DiskFull
                || error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE
        });
        if matches!(io, Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)) || is_full_for_sqlite
        {
            return true;
        }
        cause = error.source();
    }
    false
}

/// A stored event that cannot be decoded. It names no content: that may be a part of a conversation, and
/// errors end up in log lines.
#[derive(Debug, thiserror::Error)]
#[error("event {seq} is damaged: {problem}")]
pub struct DamagedEvent {
    seq: Seq,
    problem: String,
}

impl DamagedEvent {
    /// Keeps the name of the member, and nothing of its value.
    pub fn new(seq: Seq, error: &EventError) -> Self {
        let problem = match error {
            EventError::NotAnObject(_) => "it is not a JSON object".to_owned(),
            EventError::Missing { member, .. } => format!("member \"{member}\" is missing"),
            EventError::Malformed { member, .. } => format!("member \"{member}\" is malformed"),
        };
        Self { seq, problem }
    }
}

/// Stored JSON that cannot be decoded: what kind of error, and where. It names no content.
#[derive(Debug, thiserror::Error)]
#[error("{category:?} error at line {line} column {column}")]
pub(crate) struct DamagedJson {
    category: serde_json::error::Category,
    line: usize,
    column: usize,
}

impl From<serde_json::Error> for DamagedJson {
    fn from(error: serde_json::Error) -> Self {
        Self { category: error.classify(), line: error.line(), column: error.column() }
    }
}

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses it.
    #[error(
        "{} is in use by another turnstream; stop that one, or give this one another data directory", .0.display()
    )]
    InUse(PathBuf),
    /// It cannot be created or opened.
    #[error("cannot use {} as data directory: {source}", path.display())]
    Directory {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The database is damaged, or belongs to another program. It was not changed.
    #[error(
        "{} is not a valid turnstream log: {problem}. It was not changed. Restore it from a backup, or move it away \
         to start with an empty log; `sqlite3 FILE '.recover'` can save what is readable", path.display()
    )]
    Corrupt {
        /// The database file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        problem: StoreFault,
    },
    /// A segment file holds acknowledged events that cannot be read. Nothing was changed.
    #[error(
        "{} is damaged at byte {byte}: {problem}. Acknowledged events cannot be read. Nothing was changed. Restore a \
         backup of the whole directory. Or, to continue with what log.db has, move the files named segment-* and the \
         file named boot out of the directory; clients are then told to reload", path.display()
    )]
    Damaged {
        /// The damaged file, or the directory if a file is missing.
        path: PathBuf,
        /// The byte at which reading stopped.
        byte: u64,
        /// What was found there.
        #[source]
        problem: StoreFault,
    },
    /// The database is missing, but other files of the log exist.
    #[error(
        "{} is missing or empty, but the files beside it show that it was in use. Restore it from a backup. Or, to start \
         with an empty log, move the files named segment-* and the file named boot out of the directory", .0.display()
    )]
    Missing(PathBuf),
    /// A newer version has written it.
    #[error("{} has format {found}, this version reads up to {known}; use the newer turnstream", path.display())]
    TooNew {
        /// The database file.
        path: PathBuf,
        /// The format of the file.
        found: i64,
        /// The newest format that this version knows.
        known: i64,
    },
    /// The database cannot be opened for another reason.
    #[error("cannot open {}: {problem}", path.display())]
    Store {
        /// The database file.
        path: PathBuf,
        /// The error of the database.
        #[source]
        problem: StoreFault,
    },
}

impl OpenError {
    /// Whether the directory cannot be used because the disk is full.
    pub(crate) fn is_disk_full(&self) -> bool {
        match self {
            Self::Directory { source, .. } => is_disk_full(source),
            Self::Store { problem, .. } | Self::Corrupt { problem, .. } | Self::Damaged { problem, .. } => {
                is_disk_full(problem.get_ref())
            }
            Self::InUse(_) | Self::Missing(_) | Self::TooNew { .. } => false,
        }
    }
}

/// Why a session cannot be claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// There is no such session.
    #[error("there is no session {0}")]
    Unknown(String),
    /// The id is in use.
    #[error("session {0} exists already")]
    Exists(String),
    /// The session has an owner.
    #[error("session {0} has an owner; take it over only if that owner is known to be gone")]
    Held(String),
    /// The new owner cannot be recorded.
    #[error("the owner of session {session} cannot be recorded: {problem}")]
    Store {
        /// The session.
        session: String,
        /// The error of the store.
        #[source]
        problem: StoreFault,
    },
    /// The log is closed.
    #[error("the log is closed")]
    Closed,
}

/// Why events were not appended. None of them is durable or was published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// A newer owner has the session.
    #[error("session {session} has a newer owner (epoch {current}, ours is {ours}); this one may not append")]
    Fenced {
        /// The session.
        session: String,
        /// The epoch of this appender.
        ours: u64,
        /// The current epoch.
        current: u64,
    },
    /// The session was deleted.
    #[error("session {0} was deleted; nothing can be appended to it any more")]
    Deleted(String),
    /// The append is larger than a commit may be.
    #[error(
        "an append of about {bytes} bytes to session {session} is larger than the {most} that one may hold; nothing of it \
         was written: append it in parts, or keep large results outside the log"
    )]
    TooLarge {
        /// The session.
        session: String,
        /// The approximate size of the append.
        bytes: usize,
        /// The largest size.
        most: usize,
    },
    /// An imported event does not have the next seq.
    #[error("event {found} was to be imported into session {session}, where event {expected} comes next")]
    OutOfPlace {
        /// The session.
        session: String,
        /// The next seq.
        expected: Seq,
        /// The seq of the event.
        found: Seq,
    },
    /// The store failed permanently.
    #[error("the store failed and will not recover by itself: {0}")]
    Store(#[source] StoreFault),
    /// The log was closed before the events were durable.
    #[error("the log is closed")]
    Closed,
}

/// Why a delete, a trim or an erase failed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// There is no such session.
    #[error("there is no session {0}")]
    Unknown(String),
    /// The store failed.
    #[error("nothing can be removed: {0}")]
    Store(#[source] StoreFault),
    /// The log is closed. Deleted sessions stay deleted, and the next start continues to erase their bytes.
    #[error("the log is closed")]
    Closed,
}

/// Why events cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no such session.
    #[error("there is no session {0}")]
    Unknown(String),
    /// The event was trimmed.
    #[error("event {seq} of session {session} is no longer kept; the oldest that is kept is {oldest}")]
    Trimmed {
        /// The session.
        session: String,
        /// The requested event.
        seq: Seq,
        /// The first event that is kept.
        oldest: Seq,
    },
    /// The store failed.
    #[error("the store cannot be read: {0}")]
    Store(#[source] StoreFault),
    /// The store lacks an event that it must have.
    #[error("event {seq} of session {session} is missing from the store, which has up to {head}")]
    Missing {
        /// The session.
        session: String,
        /// The missing event.
        seq: Seq,
        /// The last event.
        head: Seq,
    },
}
