//! The writing side of the database. Only the flusher uses it.

use super::imports::{self, Visibility};
use super::read::Readers;
use super::remove::{self, More};
use super::revision::{self, Revision};
use super::schema::{Meta, fresh_generation};
use super::scrub;
use super::separators::{self, Separator};
use super::unscrubbed::Unscrubbed;
use super::wal::WalWatch;
use super::{backfill, index, pieces};
use crate::batch::TurnChange;
use crate::error::StoreFault;
use crate::projection::FoldWrite;
use crate::store::{Cut, StoreError};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params};
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};
use tracing::{debug, warn};
use turnstream_model::Chain;
use turnstream_model::cursor::Seq;

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let code = error.sqlite_error_code();
        let fault = StoreFault::new(error);
        match code {
            // `Unknown` is SQLite's code for a statement that does not fit the tables: they are no longer
            // ours.
            Some(
                ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::ReadOnly
                | ErrorCode::Unknown,
            ) => Self::Permanent(fault),
            _ => Self::Transient(fault),
        }
    }
}

/// Bytes of events per row. A reader loads a whole row even if it needs only a part.
const CHUNK_BYTES: usize = 64 * 1024;

/// Events of one session in one row.
struct ChunkRow {
    session: i64,
    first: Seq,
    count: u64,
    data: String,
}

/// Rows of events; several per session if there are many.
#[derive(Default)]
pub(crate) struct Chunks {
    rows: Vec<ChunkRow>,
    /// The last row of each session.
    open: HashMap<i64, usize>,
}

impl Chunks {
    /// Adds the next event of a session.
    pub(crate) fn push(&mut self, session: i64, seq: Seq, line: &str) {
        if let Some(&index) = self.open.get(&session) {
            let row = &mut self.rows[index];
            if row.data.len() + line.len() < CHUNK_BYTES {
                row.count += 1;
                row.data.push('\n');
                row.data.push_str(line);
                return;
            }
        }
        self.open.insert(session, self.rows.len());
        self.rows.push(ChunkRow { session, first: seq, count: 1, data: line.to_owned() });
    }
}

/// The owner epoch of a new session.
pub(crate) const FIRST_EPOCH: u64 = 1;

/// A turn that starts or ends.
pub(crate) struct TurnRow {
    session: i64,
    epoch: u64,
    change: TurnChange,
}

impl TurnRow {
    pub(crate) fn new(session: i64, epoch: u64, change: &TurnChange) -> Self {
        Self { session, epoch, change: change.clone() }
    }
}

/// Pages in the write-ahead log at which SQLite checkpoints. Few, because a large sync delays commits.
const CHECKPOINT_PAGES: i64 = 50;
/// The same when the queue is under pressure.
const URGENT_CHECKPOINT_PAGES: i64 = 2_000;

/// Database pages per scrub step: 4 MiB.
const PAGES: usize = 1_024;

/// How often to write the record of unscrubbed pages again, because it did not include the pages it is on.
const NOTES: usize = 4;

/// How long a checkpoint waits for a reader.
const READER: Duration = Duration::from_millis(50);
/// The shortest time between two interruptions of searches.
const UNDISTURBED: Duration = Duration::from_millis(200);
/// How long a transaction waits for another writer, which can only be a person with a shell.
const WRITER: Duration = Duration::from_secs(5);

/// The content of one flush transaction, all or nothing.
pub(crate) struct FlushBatch<'a> {
    pub(crate) chunks: &'a Chunks,
    pub(crate) turns: &'a [TurnRow],
    pub(crate) folds: &'a [(i64, FoldWrite)],
    /// After it, the database has every segment up to this one.
    pub(crate) flushed_segment: u64,
}

/// What happens to the generations when a log is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generations {
    /// The history continues.
    Stay,
    /// The database was restored: no earlier cursor is valid.
    AreNew,
}

/// The writing connection.
pub(crate) struct Database {
    pub(super) connection: Connection,
    revision: Revision,
    wal: WalWatch,
    unscrubbed: Unscrubbed,
    /// The record of unscrubbed pages of the last run is still valid.
    is_noted: bool,
    /// The boot id of this run.
    boot: Option<u64>,
    /// The last value passed to [`Database::set_urgent`].
    is_urgent: Option<bool>,
    /// When searches were last interrupted.
    cleared: Option<Instant>,
}

impl Database {
    /// `noted`: the unscrubbed pages that the last run recorded on close.
    pub(super) fn new(
        connection: Connection,
        path: &Path,
        meta: Option<&Meta>,
        noted: Option<Unscrubbed>,
    ) -> Self {
        let revision = Revision::new(meta.map_or(0, |meta| meta.revision));
        let is_noted = noted.is_some();
        let unscrubbed = match (noted, meta) {
            (Some(noted), _) => noted,
            // A new database has nothing to scrub.
            (None, None) => Unscrubbed::nothing(),
            (None, Some(_)) => Unscrubbed::everything(),
        };
        let wal = WalWatch::new(path, meta);
        Self { connection, revision, wal, unscrubbed, is_noted, boot: None, is_urgent: None, cleared: None }
    }

    /// The bytes of pages that are free for new rows.
    pub(crate) fn free_bytes(&self) -> u64 {
        let number = |name: &str| self.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let free = number("freelist_count").and_then(|pages| Ok(pages.saturating_mul(number("page_size")?)));
        u64::try_from(free.unwrap_or_default()).unwrap_or_default()
    }

    /// The size of the write-ahead log, as far as known.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.wal.bytes()
    }

    /// The revision.
    pub(crate) fn revision(&self) -> &Revision {
        &self.revision
    }

    /// Whether to use large checkpoints from now on.
    pub(crate) fn set_urgent(&mut self, is_urgent: bool) {
        if self.is_urgent != Some(is_urgent) {
            let pages = if is_urgent { URGENT_CHECKPOINT_PAGES } else { CHECKPOINT_PAGES };
            // This setting belongs to the connection, not to the file.
            match self.connection.pragma_update(None, "wal_autocheckpoint", pages) {
                Ok(()) => self.is_urgent = Some(is_urgent),
                Err(error) => debug!(pages, error = %Chain(&error), "SQLite refused a checkpoint interval"),
            }
        }
    }

    /// Starts a new run with this boot id, at a revision above `known`. Segments up to `flushed_segment` are
    /// flushed or void.
    pub(crate) fn begin(
        &mut self,
        boot: u64,
        known: u64,
        flushed_segment: u64,
        generations: Generations,
    ) -> Result<(), StoreError> {
        self.transact(known, |transaction| {
            transaction.execute_batch(imports::TABLE)?;
            transaction.execute_batch(pieces::INDEX)?;
            if generations == Generations::AreNew {
                let mut rows = transaction.prepare("SELECT key FROM session")?;
                let keys: Vec<i64> = rows.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
                let mut update = transaction.prepare("UPDATE session SET generation = ?2 WHERE key = ?1")?;
                for key in keys {
                    update.execute(params![key, fresh_generation()])?;
                }
            }
            let mut set = transaction.prepare("INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)")?;
            set.execute(params!["boot", format!("{boot:016x}")])?;
            set.execute(params!["settled", flushed_segment.to_string()])?;
            turnstream_failpoint::reach("log.begin");
            Ok(())
        })?;
        self.boot = Some(boot);
        Ok(())
    }

    /// Writes events from segments, and folds, in one transaction. Returns the number of refused fold rows.
    pub(crate) fn flush(&mut self, batch: &FlushBatch<'_>) -> Result<u64, StoreError> {
        let FlushBatch { chunks, turns, folds, flushed_segment } = batch;
        self.transact(0, |transaction| {
            turnstream_failpoint::reach("log.settle");
            let mut insert = transaction.prepare_cached(
                "INSERT INTO chunk (session, first_seq, count, data) VALUES (?1, ?2, ?3, ?4)",
            )?;
            for ChunkRow { session, first, count, data } in &chunks.rows {
                insert.execute(params![session, first.0 as i64, *count as i64, data])?;
            }
            turnstream_failpoint::reach("log.settle.chunks");
            for turn in *turns {
                turn.record(transaction)?;
            }
            turnstream_failpoint::reach("log.settle.turns");
            let mut refused = 0;
            for (session, flush) in *folds {
                refused += pieces::write(transaction, *session, flush)?;
                index::write(transaction, *session, &flush.index_changes)?;
            }
            turnstream_failpoint::reach("log.settle.index");
            note_flushed(transaction, *flushed_segment)?;
            turnstream_failpoint::reach("log.before_settle");
            Ok(refused)
        })
    }

    /// Indexes some rows that are older than the index. False if there is nothing left to do.
    pub(crate) fn backfill(&mut self) -> Result<bool, StoreError> {
        self.transact(0, |transaction| {
            let more = backfill::step(transaction)?;
            turnstream_failpoint::reach("log.backfill");
            Ok(more)
        })
    }

    /// Creates a session and returns its key. `None` if the id exists. The key of a deleted session is never
    /// reused: after a crash, segments may still hold events under it.
    pub(crate) fn create(
        &mut self,
        id: &str,
        generation: &str,
        seen: Visibility<'_>,
    ) -> Result<Option<i64>, StoreError> {
        self.transact(0, |transaction| {
            let made = transaction.execute(
                "INSERT INTO session (key, id, generation, epoch)
                 SELECT 1 + max(coalesce((SELECT max(key) FROM session), 0),
                                coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'last_key'), 0)),
                        ?1, ?2, ?3
                 WHERE true ON CONFLICT DO NOTHING",
                params![id, generation, FIRST_EPOCH as i64],
            )?;
            if made == 0 {
                return Ok(None);
            }
            let key = transaction.last_insert_rowid();
            if let Visibility::AfterImport { base } = seen {
                imports::hide(transaction, key, base)?;
            }
            turnstream_failpoint::reach("log.create");
            Ok(Some(key))
        })
    }

    /// Takes the next epoch of a session; only its owner may append from now on. `None` if there is no such
    /// session.
    pub(crate) fn next_epoch(&mut self, key: i64) -> Result<Option<u64>, StoreError> {
        self.transact(0, |transaction| {
            let epoch: Option<i64> = transaction
                .query_row(
                    "UPDATE session SET epoch = epoch + 1 WHERE key = ?1 RETURNING epoch",
                    [key],
                    |row| row.get(0),
                )
                .optional()?;
            turnstream_failpoint::reach("log.next_epoch");
            Ok(epoch.map(|epoch| epoch as u64))
        })
    }

    /// Deletes a session: readers no longer find it, and its rows are removed later. False if there is no
    /// such session.
    pub(crate) fn delete(&mut self, key: i64) -> Result<bool, StoreError> {
        self.transact(0, |transaction| remove::delete(transaction, key))
    }

    /// Removes the beginning of a session; most rows are removed later. False if the session is not in the
    /// state that the cut expects.
    pub(crate) fn trim(&mut self, key: i64, cut: &Cut) -> Result<bool, StoreError> {
        self.transact(0, |transaction| remove::trim(transaction, key, cut))
    }

    /// Removes some rows of deleted or trimmed data.
    pub(crate) fn remove_some(&mut self) -> Result<More, StoreError> {
        self.transact(0, remove::remove_some_rows)
    }

    /// Replaces some prefixes of removed words; see [`separators`].
    pub(crate) fn renew_separators(&mut self, after: &mut Separator) -> Result<More, StoreError> {
        // If the transaction fails, the position must not advance.
        let mut next = after.clone();
        let more = self.transact(0, |transaction| separators::renew_some(transaction, &mut next))?;
        *after = next;
        Ok(more)
    }

    /// True if an earlier run stopped before everything removed was erased.
    pub(crate) fn is_removing(&self) -> Result<bool, StoreError> {
        Ok(remove::is_erasure_pending(&self.connection)?)
    }

    /// Everything removed is erased from every file.
    pub(crate) fn removed(&mut self) -> Result<(), StoreError> {
        self.transact(0, remove::mark_erased)
    }

    /// Records that the database has every segment up to this one.
    pub(crate) fn mark_flushed(&mut self, serial: u64) -> Result<(), StoreError> {
        self.transact(0, |transaction| note_flushed(transaction, serial))
    }

    /// Checkpoints everything into the database file and truncates the write-ahead log. False if a reader
    /// prevents it.
    fn empty_log(&mut self) -> Result<bool, StoreError> {
        // A long wait for a reader would delay the other work of this thread.
        self.connection.busy_timeout(READER)?;
        let busy =
            self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        self.connection.busy_timeout(WRITER)?;
        Ok(!busy?)
    }

    /// The same, and interrupts searches if they are in the way.
    pub(crate) fn empty_log_of(&mut self, readers: &Readers) -> Result<bool, StoreError> {
        if self.empty_log()? {
            return Ok(true);
        }
        // If something else than a search is in the way, searches must still make progress.
        if self.cleared.is_some_and(|last| last.elapsed() < UNDISTURBED) {
            return Ok(false);
        }
        let _paused = readers.pause_searches();
        let is_empty = self.empty_log();
        self.cleared = Some(Instant::now());
        is_empty
    }

    /// Truncates the write-ahead log if it is this large. SQLite restarts the log by itself only when no
    /// reader uses it.
    pub(crate) fn keep_log_below(&mut self, bytes: u64, readers: &Readers) -> Result<(), StoreError> {
        if self.log_bytes() >= bytes {
            // If another reader is in the way, the next call retries.
            self.empty_log_of(readers)?;
        }
        Ok(())
    }

    /// The number of pages written since the last pass began. `None` if all pages count as unscrubbed.
    pub(crate) fn unscrubbed(&self) -> Option<usize> {
        self.unscrubbed.written()
    }

    /// Begins a pass over the pages written so far.
    pub(crate) fn begin_scrub(&mut self) {
        self.unscrubbed.begin_pass();
    }

    /// Scrubs some pages of the database file; see [`scrub`]. `None`, and nothing is done, while a reader is
    /// in the way.
    pub(crate) fn scrub_some(&mut self, readers: &Readers) -> Result<Option<More>, StoreError> {
        if !self.empty_log_of(readers)? {
            return Ok(None);
        }
        // A cached page would bring the old bytes back at its next write.
        self.connection.execute_batch("PRAGMA shrink_memory")?;
        let file = readers.file()?;
        let (_, count) = scrub::extent(file)?;
        let pages = self.unscrubbed.next(PAGES, count);
        scrub::pages(file, &pages)?;
        self.unscrubbed.scrubbed(&pages, count);
        Ok(Some(if self.unscrubbed.is_passed() { More::No } else { More::Yes }))
    }

    /// The last checkpoint: moves everything into the database file, so that it can be copied by ordinary
    /// tools.
    pub(crate) fn close(mut self) {
        if let Err(error) = self.note_unscrubbed() {
            let error = Chain(&error);
            warn!(%error, "could not record the unscrubbed pages; the next removal scrubs the whole file");
        }
        turnstream_failpoint::reach("log.checkpoint");
        let checkpoint = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        if let Err(error) = checkpoint {
            let error = Chain(&error);
            warn!(%error, "no checkpoint on close; the next start reads the write-ahead log");
        }
        turnstream_failpoint::reach("log.checkpointed");
    }

    /// Records the unscrubbed pages for the next run. Writing the record changes pages too, so it is repeated
    /// until it includes them.
    fn note_unscrubbed(&mut self) -> Result<(), StoreError> {
        let Some(boot) = self.boot else { return Ok(()) };
        for _ in 0..NOTES {
            let noted = self.unscrubbed.clone();
            self.transact(0, |transaction| noted.note(transaction, boot))?;
            if self.unscrubbed == noted {
                return Ok(());
            }
        }
        self.transact(0, Unscrubbed::forget_note)
    }

    /// Runs one counted transaction. `act` makes the last insert, so that its row id is the one to read.
    pub(super) fn transact<T>(
        &mut self,
        known: u64,
        act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let revision = revision::count(&transaction, known, self.wal.current())?;
        if self.is_noted {
            Unscrubbed::forget_note(&transaction)?;
        }
        let done = act(&transaction)?;
        transaction.commit()?;
        self.is_noted = false;
        self.revision.reached(revision);
        self.wal.transacted(revision);
        if let Err(error) = self.wal.note_written(&mut self.unscrubbed) {
            debug!(error = %Chain(&error), "the written pages are unknown; the next removal scrubs all pages");
            self.unscrubbed = Unscrubbed::everything();
        }
        turnstream_failpoint::reach("log.transacted");
        Ok(done)
    }
}

fn note_flushed(transaction: &Transaction<'_>, serial: u64) -> rusqlite::Result<()> {
    let mut note = transaction.prepare_cached(
        "UPDATE meta SET value = ?1 WHERE name = 'settled' AND CAST(value AS INTEGER) < ?1",
    )?;
    note.execute([serial as i64]).map(drop)
}

impl TurnRow {
    fn record(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        match &self.change {
            TurnChange::Started(turn) => transaction
                .prepare_cached(
                    "INSERT OR REPLACE INTO open_turn (session, turn, epoch) VALUES (?1, ?2, ?3)",
                )?
                .execute(params![self.session, turn.as_str(), self.epoch as i64])?,
            TurnChange::Ended(turn) => transaction
                .prepare_cached("DELETE FROM open_turn WHERE session = ?1 AND turn = ?2")?
                .execute(params![self.session, turn.as_str()])?,
        };
        Ok(())
    }
}
