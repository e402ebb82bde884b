//! What can go wrong, per operation.

use std::path::PathBuf;
use turnstream_model::cursor::Seq;

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error(
        "{} is in use by another turnstream; stop that one, or give this one another data directory", .0.display()
    )]
    InUse(PathBuf),
    /// It cannot be made or reached.
    #[error("cannot use {} as data directory: {source}", path.display())]
    Directory {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It holds something that is not our database, or a damaged one. It is left as it is.
    #[error(
        "{} is not a sound turnstream log: {problem}. It was not touched. Restore it from a backup, or move it away \
         to start empty; `sqlite3 FILE '.recover'` can save what is readable", path.display()
    )]
    Corrupt {
        /// The database file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// Acknowledged events are in a file beside the database and cannot be read. Nothing was changed.
    #[error(
        "{} is damaged at byte {byte}: {problem}. Events that were acknowledged cannot be read; nothing was touched. Put \
         back a backup of the whole directory; or, to go on with what log.db has, move the files named segment-* and the \
         file named boot out of the directory: clients are then told to reload", path.display()
    )]
    Damaged {
        /// The file; the directory if a file is missing.
        path: PathBuf,
        /// Where reading it ends.
        byte: u64,
        /// How that is known.
        problem: String,
    },
    /// The database is gone, and other files of the log are there.
    #[error(
        "{} is missing or empty, and the files beside it say that it was in use. Put it back from a backup; or, to start \
         with an empty log, move the files named segment-* and the file named boot out of the directory", .0.display()
    )]
    Missing(PathBuf),
    /// It was written by a newer version.
    #[error("{} has format {found}, this version reads up to {known}; use the newer turnstream", path.display())]
    TooNew {
        /// The database file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest known one.
        known: i64,
    },
    /// The database answered with another error.
    #[error("cannot open {}: {problem}", path.display())]
    Store {
        /// The database file.
        path: PathBuf,
        /// What it said.
        problem: String,
    },
}

/// Why a session cannot be claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// There is no such session.
    #[error("there is no session {0}")]
    Unknown(String),
    /// A session of that id is there already.
    #[error("there is a session {0} already")]
    Exists(String),
    /// Another appender has it.
    #[error("session {0} has an owner; take it over only if that one is known to be gone")]
    Held(String),
    /// The store cannot record the new owner.
    #[error("the owner of session {session} cannot be recorded: {problem}")]
    Store {
        /// The session.
        session: String,
        /// What the store said.
        problem: String,
    },
    /// The log is closed.
    #[error("the log is closed")]
    Closed,
}

/// Why events were not appended. None of them is durable or was shown to anyone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// A newer owner has the session.
    #[error("session {session} has a newer owner (epoch {current}, ours is {ours}); this one may not append")]
    Fenced {
        /// The session.
        session: String,
        /// The epoch that tried.
        ours: u64,
        /// The epoch that holds.
        current: u64,
    },
    /// The session was deleted.
    #[error("session {0} was deleted; nothing can be appended to it any more")]
    Deleted(String),
    /// One append holds more than a commit can.
    #[error(
        "an append of about {bytes} bytes to session {session} is larger than the {most} that one may hold; nothing of it \
         was written: append it in parts, or keep large results outside the log"
    )]
    TooLarge {
        /// The session.
        session: String,
        /// About how much it was.
        bytes: usize,
        /// How much it may be.
        most: usize,
    },
    /// An imported event has another place than the next one.
    #[error("event {found} was to be imported into session {session}, where event {expected} comes next")]
    OutOfPlace {
        /// The session.
        session: String,
        /// The next place.
        expected: Seq,
        /// The event's.
        found: Seq,
    },
    /// The store is broken for good.
    #[error("the store failed and will not recover by itself: {0}")]
    Store(String),
    /// The log was closed before it was durable.
    #[error("the log is closed")]
    Closed,
}

/// Why nothing was deleted, trimmed or erased.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// There is no such session.
    #[error("there is no session {0}")]
    Unknown(String),
    /// The store cannot do it.
    #[error("nothing can be removed: {0}")]
    Store(String),
    /// The log is closed. What was deleted stays deleted, and the next start goes on removing its bytes.
    #[error("the log is closed")]
    Closed,
}

/// Why events cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// There is no such session.
    #[error("there is no session {0}")]
    Unknown(String),
    /// Events from there on are no longer kept.
    #[error("event {seq} of session {session} is no longer kept; the oldest that is kept is {oldest}")]
    Trimmed {
        /// The session.
        session: String,
        /// The event that was asked for.
        seq: Seq,
        /// The first event that is kept.
        oldest: Seq,
    },
    /// The store failed.
    #[error("the store cannot be read: {0}")]
    Store(String),
    /// The store has a hole where there must be none.
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
