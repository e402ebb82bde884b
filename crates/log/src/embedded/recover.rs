//! Recovery: flushes the events that a crash left in segments into the database.

use super::segment::record::RecoveredGroup;
use super::segment::{Damage, FilePosition};
use super::sqlite::{Chunks, Database, FlushBatch, Readers, TurnRow};
use crate::batch::TurnChange;
use crate::error::{DamagedEvent, StoreFault};
use crate::projection::Projection;
use crate::store::StoreError;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tracing::debug;
use turnstream_model::cursor::Seq;
use turnstream_model::event::Event;

/// Bytes of events per transaction. One for everything would need as much room again in SQLite's write-ahead
/// log, and on a full disk only the space in reserve is there for it.
const BYTES_AT_ONCE: usize = 1 << 20;

/// Why recovery failed.
pub(crate) enum RecoveryError {
    Damage(Damage),
    Store(StoreFault),
}

impl From<StoreError> for RecoveryError {
    fn from(error: StoreError) -> Self {
        Self::Store(error.into_fault())
    }
}

/// The content to flush.
#[derive(Default)]
struct Recovery {
    /// The last event of each session so far.
    heads: HashMap<i64, u64>,
    chunks: Chunks,
    turns: Vec<TurnRow>,
    /// Folds that provide the rows of new items.
    projections: HashMap<i64, Projection>,
    /// Their bytes.
    bytes: usize,
    events: u64,
}

/// Flushes these records, which follow the events in the database, in some transactions. If it fails, or the
/// process ends, the next recovery finds the rest. Returns the number of events.
///
/// `is_flushed` is called with each file but the last as soon as the database has everything in it.
pub(crate) fn recover(
    database: &mut Database,
    readers: &Readers,
    records: Vec<(FilePosition, Vec<RecoveredGroup>)>,
    mut is_flushed: impl FnMut(&mut Database, &Path) -> Result<(), StoreError>,
) -> Result<u64, RecoveryError> {
    let mut recovery = Recovery::default();
    let mut last_path: Option<Arc<Path>> = None;
    // Unfinished imports are removed, so their events are not recovered.
    let void = database.unfinished_imports()?;
    for (position, groups) in records {
        if let Some(path) = last_path.replace(position.path.clone()).filter(|path| *path != position.path) {
            recovery.flush(database)?;
            is_flushed(database, &path)?;
        }
        for group in groups.into_iter().filter(|group| !void.contains(&group.session)) {
            let head = match recovery.heads.get(&group.session) {
                Some(head) => Some(*head),
                None => readers.head(group.session).map_err(StoreError::from)?,
            };
            // A session has its row before its first event, so this one was deleted.
            let Some(head) = head else {
                debug!(
                    session_key = group.session,
                    events = group.count,
                    "skipped events of a deleted session"
                );
                continue;
            };
            let damaged = |problem| RecoveryError::Damage(Damage { position: position.clone(), problem });
            recovery.add(group, head).map_err(damaged)?;
            if recovery.bytes >= BYTES_AT_ONCE {
                recovery.flush(database)?;
            }
        }
    }
    recovery.flush(database)?;
    Ok(recovery.events)
}

impl Recovery {
    /// Writes what was added since the last time.
    fn flush(&mut self, database: &mut Database) -> Result<(), StoreError> {
        self.bytes = 0;
        let (chunks, turns) = (std::mem::take(&mut self.chunks), std::mem::take(&mut self.turns));
        let projections = std::mem::take(&mut self.projections);
        // Every event that was added has a projection.
        if projections.is_empty() {
            return Ok(());
        }
        let ahead = |(session, projection): (&i64, &Projection)| Some((*session, projection.early_rows()?));
        let folds: Vec<_> = projections.iter().filter_map(ahead).collect();
        let batch = FlushBatch { chunks: &chunks, turns: &turns, folds: &folds, flushed_segment: 0 };
        database.flush(&batch).map(drop)
    }

    /// Adds the next events of a session whose last event is `head`.
    fn add(&mut self, group: RecoveredGroup, head: u64) -> Result<(), StoreFault> {
        let RecoveredGroup { session, epoch, first, count, data } = group;
        let last = first.0 + count - 1;
        self.heads.insert(session, head.max(last));
        if last <= head {
            return Ok(());
        }
        if first.0 != head + 1 {
            let missing = format!("event {} of session {session} is missing before event {first}", head + 1);
            return Err(StoreFault::new(missing));
        }
        let now = Instant::now();
        let projection = self.projections.entry(session).or_insert_with(|| Projection::after(Seq(head), now));
        for (seq, line) in (first.0..).zip(data.lines()) {
            let damaged = |error| StoreFault::new(DamagedEvent::new(Seq(seq), &error));
            let event = Event::from_json(line).map_err(damaged)?;
            self.turns
                .extend(TurnChange::of(&event.draft).map(|change| TurnRow::new(session, epoch, &change)));
            // Its seq follows the last one, as was checked above.
            projection.apply(&event, line.len(), epoch, now);
            self.chunks.push(session, Seq(seq), line);
        }
        self.events += count;
        self.bytes += data.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::sqlite::{self, Generations, Visibility};
    use turnstream_model::event::{Body, Draft};
    use turnstream_model::time::Time;

    fn record(path: &str, session: i64, seq: u64) -> (FilePosition, Vec<RecoveredGroup>) {
        let draft = Draft::new(Body::SessionEnded { reason: "r".into() });
        let event = Event { seq: Seq(seq), time: Time(1), draft };
        let data = serde_json::to_string(&event).unwrap();
        let group = RecoveredGroup { session, epoch: 1, first: Seq(seq), count: 1, data };
        (FilePosition { path: Path::new(path).into(), byte: 0 }, vec![group])
    }

    #[test]
    fn a_file_is_told_to_be_flushed_when_its_last_event_is_in_the_database() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("log.db");
        let mut database = sqlite::open(&file).unwrap().database;
        database.begin(1, 0, 0, Generations::Stay).unwrap();
        let session = database.create("s", "g", Visibility::Immediate).unwrap().unwrap();
        let readers = Readers::new(&file);
        let records = vec![
            record("first", session, 1),
            record("first", session, 2),
            record("second", session, 3),
            record("third", session, 4),
        ];
        let mut flushed = Vec::new();
        let recovered = recover(&mut database, &readers, records, |_, path| {
            flushed.push((path.display().to_string(), readers.head(session)?));
            Ok(())
        });
        assert!(matches!(recovered, Ok(4)));
        assert_eq!(flushed, [("first".to_owned(), Some(2)), ("second".to_owned(), Some(3))]);
        assert_eq!(readers.head(session).unwrap(), Some(4));
    }
}
