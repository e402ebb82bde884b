//! Opening a data directory: what is in it, whether it goes on or was put back from a backup, and what a crash left.

use crate::directory::Directory;
use crate::error::OpenError;
use crate::log::{Log, Options};
use crate::note::{Entry, Note};
use crate::recover::{NotRecovered, recover};
use crate::segment::{Damage, Left, Place, Replay, Segments};
use crate::sqlite::{self, Found, Generations, Meta, Readers, Store};
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

/// A directory that is ready for the threads of a log.
pub(crate) struct Ready {
    pub(crate) directory: Directory,
    pub(crate) store: Store,
    pub(crate) readers: Arc<Readers>,
    pub(crate) segments: Segments,
    /// What the note says from now on.
    pub(crate) entry: Entry,
}

impl Log {
    /// Opens the log in this directory, making it if there is none. What a crash left in segments is settled first.
    pub fn open(path: &Path, options: &Options) -> Result<Opened, OpenError> {
        let directory = Directory::open(path)?;
        let database = directory.database();
        let io = |source| OpenError::Directory { path: path.to_owned(), source };
        let failed = |problem: String| OpenError::Store { path: database.clone(), problem };

        let note = directory.read_note().map_err(io)?;
        let mut left = Left::scan(path).map_err(io)?;
        turnstream_failpoint::reach("log.open.scanned");
        let was_used = note.knows_a_database() || left.is_used();
        if was_used && !database.exists() {
            return Err(OpenError::Missing(database));
        }
        let Found { mut store, meta, had_foreign_log } = sqlite::open(&database)?;
        if was_used && meta.is_none() {
            return Err(OpenError::Missing(database));
        }
        turnstream_failpoint::reach("log.open.database");
        let replay = match meta {
            Some(Meta { boot, settled, .. }) => left.replay(boot, settled).map_err(io)?,
            None => Replay::default(),
        };
        let file = directory.database_identity().map_err(io)?;
        let last = meta.and_then(|meta| note.entry(meta.boot)).filter(|last| last.file == file).cloned();
        let known = replay.revision.max(last.as_ref().map_or(0, |last| last.revision));
        let restored = match meta {
            Some(meta) if meta.revision < known || had_foreign_log => Some(Restored::Older),
            Some(_) if last.is_none() => Some(Restored::Copied),
            Some(_) | None => None,
        };

        let readers = Arc::new(Readers::new(&database));
        let (mut recovered, mut torn) = (0, None);
        // The segments of a history that the database does not have are of no use to it.
        if restored != Some(Restored::Older) {
            let result = replay.damage.map_or(Ok(()), |damage| Err(NotRecovered::Damage(damage)));
            recovered =
                result.and_then(|()| recover(&mut store, &readers, replay.records)).map_err(|error| {
                    match error {
                        NotRecovered::Damage(Damage { place: Place { path, byte }, problem }) => {
                            OpenError::Damaged { path: path.to_path_buf(), byte, problem }
                        }
                        NotRecovered::Store(problem) => failed(problem),
                    }
                })?;
            torn = replay.torn.map(|Place { path, byte }| (path.to_path_buf(), byte));
        }
        turnstream_failpoint::reach("log.open.recovered");

        let boot = fastrand::u64(..);
        let (known, settled) = (known.max(store.revision().get()), left.last_serial());
        let entry = Entry { boot, file, revision: known + 1 };
        let opening = Note::opening(entry.clone(), last.filter(|_| restored.is_none()), meta.is_none());
        directory.write_note(&opening).map_err(io)?;
        let generations = if restored.is_some() { Generations::AreNew } else { Generations::Stay };
        store.begin(boot, known, settled, generations).map_err(|error| failed(error.to_string()))?;
        directory.write_note(&Note::of(entry.clone())).map_err(io)?;
        let segments = Segments::begin(left, boot, store.revision().clone(), options.segment).map_err(io)?;
        segments.spares().top_up().map_err(io)?;
        turnstream_failpoint::reach("log.open.ready");

        let turns = readers.open_turns().map_err(|error| failed(error.to_string()))?;
        let abandoned = turns.into_iter().map(|(session, turn, epoch)| Abandoned {
            session: SessionId::from(session),
            turn: TurnId::from(turn),
            epoch,
        });
        let ready = Ready { directory, store, readers, segments, entry };
        let log = Self::start(ready, options).map_err(io)?;
        Ok(Opened { log, abandoned: abandoned.collect(), restored, recovered, torn })
    }
}
