//! Imported sessions. During the import a session has rows like any other, but no reader finds it until one
//! transaction publishes it. If a crash interrupts the import, the next start discards it.

use super::read::Readers;
use super::write::{Database, FIRST_EPOCH};
use super::{index, pieces, remove};
use crate::importer::Imported;
use crate::projection::Projection;
use crate::store::StoreError;
use rusqlite::{OptionalExtension, Transaction, params};
use std::collections::HashSet;
use std::time::Instant;
use tracing::info;
use turnstream_model::cursor::Seq;
use turnstream_model::fold::State;

/// Created when a database of an earlier version is opened.
pub(super) const TABLE: &str = "
CREATE TABLE IF NOT EXISTS imported (
    session   INTEGER PRIMARY KEY,
    finished  INTEGER NOT NULL,
    native_id TEXT
) STRICT;
";

/// A condition on rows of `session`: not an unfinished import.
pub(super) const VISIBLE: &str = "session.key NOT IN (SELECT session FROM imported WHERE NOT finished)";

/// When readers can find a new session.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Visibility<'a> {
    /// From its first row on.
    Immediate,
    /// When the import is complete. Its events follow this base.
    AfterImport { base: &'a State },
}

/// Marks a session as an unfinished import.
pub(super) fn hide(transaction: &Transaction<'_>, key: i64, base: &State) -> rusqlite::Result<()> {
    transaction.execute("INSERT INTO imported (session, finished) VALUES (?1, 0)", [key])?;
    if base.seq > Seq(0) {
        pieces::set_base(transaction, key, base)?;
        // Without a stored fold, readers would assume a session without events.
        let flush = Projection::unstored(base.clone(), FIRST_EPOCH, Instant::now()).full_write();
        pieces::write(transaction, key, &flush)?;
        index::write(transaction, key, &flush.index_changes)?;
    }
    turnstream_failpoint::reach("log.import");
    Ok(())
}

impl Database {
    /// Publishes an imported session.
    pub(crate) fn reveal(&mut self, key: i64, native_id: Option<&str>) -> Result<(), StoreError> {
        self.transact(0, |transaction| {
            transaction.execute(
                "UPDATE imported SET finished = 1, native_id = ?2 WHERE session = ?1",
                params![key, native_id],
            )?;
            turnstream_failpoint::reach("log.import.reveal");
            Ok(())
        })?;
        turnstream_failpoint::reach("log.import.revealed");
        Ok(())
    }

    /// Frees the id of an unfinished import; its rows are removed like those of a deleted session. False if
    /// the import was published before: it stays.
    pub(crate) fn give_up(&mut self, key: i64) -> Result<bool, StoreError> {
        self.transact(0, |transaction| {
            let unseen = "SELECT 1 FROM imported WHERE session = ?1 AND NOT finished";
            let is_unseen = transaction.prepare_cached(unseen)?.exists([key])?;
            if is_unseen {
                remove::discard_import(transaction, key)?;
            }
            Ok(is_unseen)
        })
    }

    /// The sessions with an unfinished import.
    pub(crate) fn unfinished_imports(&self) -> Result<HashSet<i64>, StoreError> {
        let mut table = self
            .connection
            .prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'imported'")?;
        if !table.exists([])? {
            return Ok(HashSet::new());
        }
        let mut query = self.connection.prepare("SELECT session FROM imported WHERE NOT finished")?;
        Ok(query.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
    }

    /// Discards all unfinished imports.
    pub(crate) fn give_up_unfinished_imports(&mut self) -> Result<(), StoreError> {
        for key in self.unfinished_imports()? {
            info!(session_key = key, "discarding an import that did not finish");
            self.give_up(key)?;
        }
        Ok(())
    }
}

impl Readers {
    /// The import record of a session, if it was imported.
    pub(crate) fn imported(&self, id: &str) -> rusqlite::Result<Option<Imported>> {
        self.with(|connection| {
            let mut query = connection.prepare_cached(
                "SELECT native_id FROM imported JOIN session ON session.key = imported.session
                 WHERE session.id = ?1 AND finished",
            )?;
            query.query_row([id], |row| Ok(Imported { native_id: row.get(0)? })).optional()
        })
    }
}
