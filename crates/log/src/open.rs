//! Opening a log, and what was found in its directory.

use crate::embedded::{self, Embedded};
use crate::error::{OpenError, StoreFault};
use crate::log::{Log, LogBuilder, Options};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{info, warn};
use turnstream_model::id::{SessionId, TurnId};

/// A turn that was open when its owner stopped. The next owner of the session ends it exactly once: the end
/// of the turn and its removal from the open turns are one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abandoned {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The owner epoch that started it.
    pub epoch: u64,
}

/// How a restored database is recognised. In both cases every session gets a new generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    /// The database is at an earlier revision than the directory has recorded: it was restored from a backup,
    /// and later events are lost.
    Older,
    /// The database is another file than the directory had, or the `boot` file is missing: it was copied, or
    /// the whole directory was restored.
    Copied,
}

/// The result of opening a log.
pub struct Opened {
    /// The log.
    pub log: Log,
    /// Open turns whose owner is gone.
    pub abandoned: Vec<Abandoned>,
    /// The database is not the one that this directory last used. Every session has a new generation.
    pub restored: Option<Restored>,
    /// Events that were durable, and were moved from segments into the database on opening.
    pub recovered: u64,
    /// An incomplete last commit: the file, and the byte at which reading stopped. It was never acknowledged.
    pub torn: Option<(PathBuf, u64)>,
}

impl Opened {
    /// Logs what was found.
    fn report(&self, path: &Path) {
        let Self { log: _, abandoned, restored, recovered, torn } = self;
        if let Some((file, byte)) = torn {
            let path = file.display();
            warn!(%path, byte, "dropped an incomplete last commit; it was never acknowledged");
        }
        let path = path.display();
        match restored {
            Some(Restored::Older) => {
                warn!(%path, "the database was restored from a backup: later events are lost, clients reload");
            }
            Some(Restored::Copied) => {
                warn!(%path, "the database is a copy or a restored backup: clients reload");
            }
            None => {}
        }
        info!(%path, recovered, open_turns = abandoned.len(), "log opened");
    }
}

impl Log {
    /// Opens the log in this directory and creates it if needed. Events that a crash left in segments are
    /// flushed into the database first.
    pub fn open(path: &Path, options: &Options) -> Result<Opened, OpenError> {
        let (front, reports) = LogBuilder::new(options);
        let embedded::OpenedDirectory { ready, restored, recovered, torn } = embedded::open(path, options)?;
        let io = |source| OpenError::Directory { path: path.to_owned(), source };
        let (commits, store) = Embedded::start(ready, options, reports).map_err(io)?;
        let log = front.start(Box::new(commits), Arc::new(store)).map_err(io)?;
        let abandoned = log.inner().store.abandoned();
        let abandoned = abandoned
            .map_err(|error| OpenError::Store { path: path.to_owned(), problem: StoreFault::new(error) })?;
        let opened = Opened { log, abandoned, restored, recovered, torn };
        opened.report(path);
        Ok(opened)
    }
}
