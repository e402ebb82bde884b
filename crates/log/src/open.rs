//! Opening a log: what was found, and what a crash left.

use crate::embedded::{self, Embedded};
use crate::error::OpenError;
use crate::log::{Front, Log, Options};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use turnstream_model::id::{SessionId, TurnId};

/// A turn that was open when its owner went away. Whoever takes the session over settles it, once: the end is
/// durable together with the fact that it is no longer open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abandoned {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The owner epoch that started it.
    pub epoch: u64,
}

/// How a database is known to have been put back. Either way every session has a new generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    /// It is not as far as the directory knows it has been: it was put back from a backup, and what came after that is
    /// lost with it.
    Older,
    /// It is not the file that the directory had, or the note beside it is gone: a copy, or a backup of all of it.
    Copied,
}

/// What was found on opening.
pub struct Opened {
    /// The log.
    pub log: Log,
    /// Turns that nobody owns any more.
    pub abandoned: Vec<Abandoned>,
    /// The database is not the one this directory had last: every session has a new generation.
    pub restored: Option<Restored>,
    /// Events that were durable and not yet in the database when the last owner went away.
    pub recovered: u64,
    /// A commit that was cut off: the file, and from which byte on it is not read. Nobody was told it was durable.
    pub torn: Option<(PathBuf, u64)>,
}

impl Log {
    /// Opens the log in this directory, making it if there is none. What a crash left in segments is settled first.
    pub fn open(path: &Path, options: &Options) -> Result<Opened, OpenError> {
        let (front, reports) = Front::new(options);
        let embedded::Found { ready, restored, recovered, torn } = embedded::open(path, options)?;
        let io = |source| OpenError::Directory { path: path.to_owned(), source };
        let (commits, store) = Embedded::start(ready, options, reports).map_err(io)?;
        let log = front.start(Box::new(commits), Arc::new(store)).map_err(io)?;
        let abandoned = log.inner().store.abandoned();
        let abandoned = abandoned
            .map_err(|error| OpenError::Store { path: path.to_owned(), problem: error.to_string() })?;
        Ok(Opened { log, abandoned, restored, recovered, torn })
    }
}
