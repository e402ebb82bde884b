//! Opening a data directory: finds out whether its history continues or was restored from a backup, and
//! recovers what a crash left in segments.

use super::directory::Directory;
use super::note::{BootEntry, BootNote};
use super::recover::{RecoveryError, recover};
use super::reserve::Reserve;
use super::segment::{Damage, FilePosition, Pace, Replay, ScannedSegments, Segments};
use super::sqlite::{self, Database, Generations, Meta, Readers};
use crate::error::{OpenError, StoreFault, is_disk_full};
use crate::log::Options;
use crate::open::Restored;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{debug, warn};
use turnstream_model::Chain;

/// A directory that is ready for a log.
pub(crate) struct Ready {
    pub(super) directory: Directory,
    pub(super) database: Database,
    pub(super) readers: Arc<Readers>,
    pub(super) segments: Segments,
    /// The current entry of the note.
    pub(super) entry: BootEntry,
    pub(super) reserve: Reserve,
}

/// The result of opening a directory. Events that a crash left in segments are in the database now.
pub(crate) struct OpenedDirectory {
    pub(crate) ready: Ready,
    pub(crate) restored: Option<Restored>,
    /// Events that were moved from segments into the database.
    pub(crate) recovered: u64,
    /// An incomplete last commit: the file, and the byte at which reading stopped.
    pub(crate) torn: Option<(PathBuf, u64)>,
}

/// Opens this directory and creates it if needed. On a full disk, the space in reserve is used for it.
pub(crate) fn open(path: &Path, options: &Options) -> Result<OpenedDirectory, OpenError> {
    let opened = open_once(path, options);
    let Err(error) = &opened else { return opened };
    // Only the owner of the directory gets so far.
    let is_released = error.is_disk_full()
        && Reserve::of(path, options.reserve)
            .release()
            .map_err(|source| OpenError::Directory { path: path.to_owned(), source })?;
    if is_released { open_once(path, options) } else { opened }
}

fn open_once(path: &Path, options: &Options) -> Result<OpenedDirectory, OpenError> {
    let directory = Directory::open(path)?;
    let file_path = directory.database();
    let io = |source| OpenError::Directory { path: path.to_owned(), source };
    let failed = |problem: StoreFault| OpenError::Store { path: file_path.clone(), problem };

    let mut reserve = Reserve::of(path, options.reserve);
    reserve.make_working_room().map_err(io)?;
    let note = directory.read_note().map_err(io)?;
    let mut scanned = ScannedSegments::scan(path).map_err(io)?;
    turnstream_failpoint::reach("log.open.scanned");
    let was_used = note.knows_a_database() || scanned.is_used();
    if was_used && !file_path.exists() {
        return Err(OpenError::Missing(file_path));
    }
    let sqlite::OpenedDatabase { mut database, meta, had_foreign_log } = sqlite::open(&file_path)?;
    if was_used && meta.is_none() {
        return Err(OpenError::Missing(file_path));
    }
    turnstream_failpoint::reach("log.open.database");
    let replay = match meta {
        Some(Meta { boot, flushed_segment, .. }) => scanned.replay(boot, flushed_segment).map_err(io)?,
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
    // After a restore, the segments belong to a history that the database does not have.
    if restored != Some(Restored::Older) {
        let result = replay.damage.map_or(Ok(()), |damage| Err(RecoveryError::Damage(damage)));
        recovered = result
            .and_then(|()| {
                recover(&mut database, &readers, replay.records, |database, segment| {
                    // On a full disk, its room is for the events of the next one.
                    if reserve.is_tight() {
                        scanned.discard(segment, |serial| database.mark_flushed(serial))
                    } else {
                        Ok(())
                    }
                })
            })
            .map_err(|error| match error {
                RecoveryError::Damage(Damage { position: FilePosition { path, byte }, problem }) => {
                    OpenError::Damaged { path: path.to_path_buf(), byte, problem }
                }
                RecoveryError::Store(problem) => failed(problem),
            })?;
        torn = replay.torn.map(|FilePosition { path, byte }| (path.to_path_buf(), byte));
    }
    turnstream_failpoint::reach("log.open.recovered");

    let boot = fastrand::u64(..);
    let (known, flushed) = (known.max(database.revision().get()), scanned.last_serial());
    let entry = BootEntry { boot, file, revision: known + 1 };
    let opening = BootNote::opening(entry.clone(), last.filter(|_| restored.is_none()), meta.is_none());
    directory.write_note(&opening).map_err(io)?;
    let generations = if restored.is_some() { Generations::AreNew } else { Generations::Stay };
    database.begin(boot, known, flushed, generations).map_err(|error| failed(error.into_fault()))?;
    directory.write_note(&BootNote::of(entry.clone())).map_err(io)?;
    database.give_up_unfinished_imports().map_err(|error| failed(error.into_fault()))?;
    let segments =
        Segments::begin(scanned, boot, database.revision().clone(), options.segment).map_err(io)?;
    let pool = segments.pool();
    // A segment that is free already, or room in reserve, is enough to delete something.
    let topped_up = if reserve.leaves_room_for(pool.ready_bytes()) {
        pool.top_up(Pace::Fast)
    } else {
        Err(std::io::ErrorKind::StorageFull.into())
    };
    match topped_up {
        Err(error) if is_disk_full(&error) => {
            warn!(path = %path.display(), "the disk is full: there is no room for new segment files");
        }
        topped_up => topped_up.map_err(io)?,
    }
    // Before others can use the room that a start has released. The flusher reports what is missing.
    if let Err(error) = reserve.make() {
        debug!(error = %Chain(&error), "the space in reserve is not whole");
    }
    turnstream_failpoint::reach("log.open.ready");
    let ready = Ready { directory, database, readers, segments, entry, reserve };
    Ok(OpenedDirectory { ready, restored, recovered, torn })
}
