//! Opening a data directory: what is in it, whether it goes on or was put back from a backup, and what a crash left.

use super::directory::Directory;
use super::note::{Entry, Note};
use super::recover::{NotRecovered, recover};
use super::segment::{Damage, Left, Pace, Place, Replay, Segments};
use super::sqlite::{self, Database, Generations, Meta, Readers};
use crate::error::OpenError;
use crate::log::Options;
use crate::open::Restored;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory that is ready for a log.
pub(crate) struct Ready {
    pub(super) directory: Directory,
    pub(super) database: Database,
    pub(super) readers: Arc<Readers>,
    pub(super) segments: Segments,
    /// What the note says from now on.
    pub(super) entry: Entry,
}

/// A directory as it was found. What a crash left in segments is in the database.
pub(crate) struct Found {
    pub(crate) ready: Ready,
    pub(crate) restored: Option<Restored>,
    /// Events that were durable and not yet in the database.
    pub(crate) recovered: u64,
    /// A commit that was cut off: the file, and from which byte on it is not read.
    pub(crate) torn: Option<(PathBuf, u64)>,
}

/// Opens this directory, making it if there is none.
pub(crate) fn open(path: &Path, options: &Options) -> Result<Found, OpenError> {
    let directory = Directory::open(path)?;
    let file_path = directory.database();
    let io = |source| OpenError::Directory { path: path.to_owned(), source };
    let failed = |problem: String| OpenError::Store { path: file_path.clone(), problem };

    let note = directory.read_note().map_err(io)?;
    let mut left = Left::scan(path).map_err(io)?;
    turnstream_failpoint::reach("log.open.scanned");
    let was_used = note.knows_a_database() || left.is_used();
    if was_used && !file_path.exists() {
        return Err(OpenError::Missing(file_path));
    }
    let sqlite::Found { mut database, meta, had_foreign_log } = sqlite::open(&file_path)?;
    if was_used && meta.is_none() {
        return Err(OpenError::Missing(file_path));
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

    let readers = Arc::new(Readers::new(&file_path));
    let (mut recovered, mut torn) = (0, None);
    // The segments of a history that the database does not have are of no use to it.
    if restored != Some(Restored::Older) {
        let result = replay.damage.map_or(Ok(()), |damage| Err(NotRecovered::Damage(damage)));
        recovered =
            result.and_then(|()| recover(&mut database, &readers, replay.records)).map_err(|error| {
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
    let (known, settled) = (known.max(database.revision().get()), left.last_serial());
    let entry = Entry { boot, file, revision: known + 1 };
    let opening = Note::opening(entry.clone(), last.filter(|_| restored.is_none()), meta.is_none());
    directory.write_note(&opening).map_err(io)?;
    let generations = if restored.is_some() { Generations::AreNew } else { Generations::Stay };
    database.begin(boot, known, settled, generations).map_err(|error| failed(error.to_string()))?;
    directory.write_note(&Note::of(entry.clone())).map_err(io)?;
    database.give_up_unfinished_imports().map_err(|error| failed(error.to_string()))?;
    let segments = Segments::begin(left, boot, database.revision().clone(), options.segment).map_err(io)?;
    segments.spares().top_up(Pace::Fast).map_err(io)?;
    turnstream_failpoint::reach("log.open.ready");
    let ready = Ready { directory, database, readers, segments, entry };
    Ok(Found { ready, restored, recovered, torn })
}
