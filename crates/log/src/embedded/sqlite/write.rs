//! The writing side of the database. Only the settler has it.

use super::imports::{self, Seen};
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
use crate::projection::Flush;
use crate::store::{Cut, StoreError};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params};
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};
use turnstream_model::cursor::Seq;

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let problem = error.to_string();
        match error.sqlite_error_code() {
            // The last one is SQLite's word for a statement that does not fit the tables: they are not ours any more.
            Some(
                ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::ReadOnly
                | ErrorCode::Unknown,
            ) => Self::Lasting(problem),
            _ => Self::Passing(problem),
        }
    }
}

/// Bytes of events in one row. A reader has a whole row in memory, however little of it it takes at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// Events of one session in one row.
struct ChunkRow {
    session: i64,
    first: Seq,
    count: u64,
    data: String,
}

/// Rows of events, several per session if they are many.
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

/// The owner epoch of whoever makes a session.
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

/// Pages in SQLite's own log after which they go into the database file. Few at a time: the sync of many makes the commits
/// beside it wait.
const CHECKPOINT_PAGES: i64 = 50;
/// The same when there is more to do than small steps can.
const HURRIED_CHECKPOINT_PAGES: i64 = 2_000;

/// Pages of the database that are looked at in one step: 4 MiB.
const PAGES: usize = 1_024;

/// How often a note is written again because it did not name the pages that it is in.
const NOTES: usize = 4;

/// How long a checkpoint waits for a reader.
const READER: Duration = Duration::from_millis(50);
/// How long searches are left alone after they were asked to leave.
const UNDISTURBED: Duration = Duration::from_millis(200);
/// How long a transaction waits for whoever else writes, which is nobody but a person with a shell.
const WRITER: Duration = Duration::from_secs(5);

/// What is settled in one transaction, all or none.
pub(crate) struct Settlement<'a> {
    pub(crate) chunks: &'a Chunks,
    pub(crate) turns: &'a [TurnRow],
    pub(crate) folds: &'a [(i64, Flush)],
    /// With it, the database has every segment up to this one whole.
    pub(crate) settled: u64,
}

/// What becomes of the generations when a log is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generations {
    /// The history goes on.
    Stay,
    /// The database was restored: no cursor of before fits.
    AreNew,
}

/// The writing connection.
pub(crate) struct Database {
    pub(super) connection: Connection,
    revision: Revision,
    wal: WalWatch,
    unscrubbed: Unscrubbed,
    /// The last run has noted them, and the note still stands.
    is_noted: bool,
    /// The run of the log that uses it.
    boot: Option<u64>,
    /// What was last set.
    in_a_hurry: Option<bool>,
    /// When searches were last asked to leave.
    cleared: Option<Instant>,
}

impl Database {
    /// `noted`: what the last run has said of the file when it was closed.
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
            // A new one has nothing that was removed.
            (None, None) => Unscrubbed::nothing(),
            (None, Some(_)) => Unscrubbed::everything(),
        };
        let wal = WalWatch::new(path, meta);
        Self { connection, revision, wal, unscrubbed, is_noted, boot: None, in_a_hurry: None, cleared: None }
    }

    /// How far it is.
    pub(crate) fn revision(&self) -> &Revision {
        &self.revision
    }

    /// Whether it works in large steps from now on.
    pub(crate) fn hurry(&mut self, hurry: bool) {
        if self.in_a_hurry != Some(hurry) {
            let pages = if hurry { HURRIED_CHECKPOINT_PAGES } else { CHECKPOINT_PAGES };
            // A setting of the connection, not of the file. If it is refused, the steps stay as they were.
            if self.connection.pragma_update(None, "wal_autocheckpoint", pages).is_ok() {
                self.in_a_hurry = Some(hurry);
            }
        }
    }

    /// A new run of the log: its boot id, and a revision beyond every one that is `known`. What is in segments up to
    /// `settled` is settled or void.
    pub(crate) fn begin(
        &mut self,
        boot: u64,
        known: u64,
        settled: u64,
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
            set.execute(params!["settled", settled.to_string()])?;
            turnstream_failpoint::reach("log.begin");
            Ok(())
        })?;
        self.boot = Some(boot);
        Ok(())
    }

    /// Takes over events from the segments, and folds of them. Returns how many rows of folds were refused.
    pub(crate) fn settle(&mut self, settlement: &Settlement<'_>) -> Result<u64, StoreError> {
        let Settlement { chunks, turns, folds, settled } = settlement;
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
                index::write(transaction, *session, &flush.found)?;
            }
            turnstream_failpoint::reach("log.settle.index");
            note_settled(transaction, *settled)?;
            turnstream_failpoint::reach("log.before_settle");
            Ok(refused)
        })
    }

    /// Files a little of what was stored before there was an index. False when there is nothing left to do.
    pub(crate) fn backfill(&mut self) -> Result<bool, StoreError> {
        self.transact(0, |transaction| {
            let more = backfill::step(transaction)?;
            turnstream_failpoint::reach("log.backfill");
            Ok(more)
        })
    }

    /// Makes a session and returns its key; `None` when there is one of that id. A key of a deleted session is not used
    /// again: what a crash leaves in segments is found by it.
    pub(crate) fn create(
        &mut self,
        id: &str,
        generation: &str,
        seen: Seen<'_>,
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
            if let Seen::Later { base } = seen {
                imports::hide(transaction, key, base)?;
            }
            turnstream_failpoint::reach("log.create");
            Ok(Some(key))
        })
    }

    /// The next epoch of a session: from now on only that one may append. `None` when there is no such session.
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

    /// Deletes a session: no reader finds it from here on. Its rows go later. False when it is not there.
    pub(crate) fn delete(&mut self, key: i64) -> Result<bool, StoreError> {
        self.transact(0, |transaction| remove::delete(transaction, key))
    }

    /// Forgets the beginning of a session; most of its rows go later. False when it is not as the cut expects it.
    pub(crate) fn trim(&mut self, key: i64, cut: &Cut) -> Result<bool, StoreError> {
        self.transact(0, |transaction| remove::trim(transaction, key, cut))
    }

    /// Removes some rows of what was deleted or trimmed.
    pub(crate) fn remove_some(&mut self) -> Result<More, StoreError> {
        self.transact(0, remove::some)
    }

    /// Replaces some of what FTS5 keeps of words that are gone; see [`separators`].
    pub(crate) fn renew_separators(&mut self, after: &mut Separator) -> Result<More, StoreError> {
        // A transaction that fails has looked at nothing.
        let mut next = after.clone();
        let more = self.transact(0, |transaction| separators::renew_some(transaction, &mut next))?;
        *after = next;
        Ok(more)
    }

    /// True when a run of the log ended before everything that was removed was out of all files.
    pub(crate) fn is_removing(&self) -> Result<bool, StoreError> {
        Ok(remove::is_wanted(&self.connection)?)
    }

    /// Everything that was removed is out of all files.
    pub(crate) fn removed(&mut self) -> Result<(), StoreError> {
        self.transact(0, remove::done)
    }

    /// The database has every segment up to this one whole.
    pub(crate) fn settled(&mut self, serial: u64) -> Result<(), StoreError> {
        self.transact(0, |transaction| note_settled(transaction, serial))
    }

    /// Moves everything into the database file, and leaves nothing in SQLite's own log. False while a reader is in the way.
    fn empty_log(&mut self) -> Result<bool, StoreError> {
        // Readers take a moment each: waiting long for one would hold up whatever else this thread does.
        self.connection.busy_timeout(READER)?;
        let busy =
            self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        self.connection.busy_timeout(WRITER)?;
        Ok(!busy?)
    }

    /// The same, and searches leave where they are in the way.
    pub(crate) fn empty_log_of(&mut self, readers: &Readers) -> Result<bool, StoreError> {
        if self.empty_log()? {
            return Ok(true);
        }
        // Where it is not a search that is in the way, they get on all the same.
        if self.cleared.is_some_and(|last| last.elapsed() < UNDISTURBED) {
            return Ok(false);
        }
        let _closed = readers.without_searches();
        let is_empty = self.empty_log();
        self.cleared = Some(Instant::now());
        is_empty
    }

    /// Empties SQLite's own log if it has so many bytes. It begins anew by itself only where no reader is in it at that moment.
    pub(crate) fn keep_log_below(&mut self, bytes: u64, readers: &Readers) -> Result<(), StoreError> {
        if self.wal.bytes() >= bytes {
            // Where another reader is in the way, it is tried again.
            self.empty_log_of(readers)?;
        }
        Ok(())
    }

    /// How many pages were written since the last pass over them began; `None` when nothing is known of the file.
    pub(crate) fn unscrubbed(&self) -> Option<usize> {
        self.unscrubbed.written()
    }

    /// A pass over the pages that were written so far begins.
    pub(crate) fn begin_scrub(&mut self) {
        self.unscrubbed.begin_pass();
    }

    /// Overwrites what some of these pages of the database file hold and do not use; see [`scrub`]. `None`, and nothing is
    /// done, while a reader is in the way.
    pub(crate) fn scrub_some(&mut self, readers: &Readers) -> Result<Option<More>, StoreError> {
        if !self.empty_log_of(readers)? {
            return Ok(None);
        }
        // A page that this connection has in memory would bring the old bytes back when it is written next.
        self.connection.execute_batch("PRAGMA shrink_memory")?;
        let passing = |error: std::io::Error| StoreError::Passing(error.to_string());
        let file = readers.file().map_err(passing)?;
        let (_, count) = scrub::extent(file).map_err(passing)?;
        let pages = self.unscrubbed.next(PAGES, count);
        scrub::pages(file, &pages).map_err(passing)?;
        self.unscrubbed.scrubbed(&pages, count);
        Ok(Some(if self.unscrubbed.is_passed() { More::No } else { More::Yes }))
    }

    /// The last checkpoint: everything into the database file, for a copy by ordinary tools.
    pub(crate) fn close(mut self) {
        // Without it, the next run looks at all pages when it removes something.
        let _ = self.note_unscrubbed();
        turnstream_failpoint::reach("log.checkpoint");
        // Whatever is left in SQLite's own log is read from there at the next start.
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        turnstream_failpoint::reach("log.checkpointed");
    }

    /// Notes for the next run which pages are to be looked at. To write the note is to write pages too: it is right when it
    /// names them.
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

    /// One transaction, counted. The last insert of a row is the act's.
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
        if self.wal.note_written(&mut self.unscrubbed).is_err() {
            self.unscrubbed = Unscrubbed::everything();
        }
        turnstream_failpoint::reach("log.transacted");
        Ok(done)
    }
}

fn note_settled(transaction: &Transaction<'_>, serial: u64) -> rusqlite::Result<()> {
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
