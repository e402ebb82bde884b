//! Sessions that were imported. One that is being imported has its rows like any other and is found by nobody, until one
//! transaction shows it; what a crash before that leaves, the next opening gives up.

use super::read::Readers;
use super::write::{Database, FIRST_EPOCH};
use super::{index, pieces, remove};
use crate::importer::Imported;
use crate::projection::Projection;
use crate::store::StoreError;
use rusqlite::{OptionalExtension, Transaction, params};
use std::collections::HashSet;
use std::time::Instant;
use turnstream_model::cursor::Seq;
use turnstream_model::fold::State;

/// Beside the first tables: a database of an earlier version gets it when it is opened.
pub(super) const TABLE: &str = "
CREATE TABLE IF NOT EXISTS imported (
    session   INTEGER PRIMARY KEY,
    finished  INTEGER NOT NULL,
    native_id TEXT
) STRICT;
";

/// A condition on rows of `session`: it is not one that is being imported.
pub(super) const SEEN: &str = "session.key NOT IN (SELECT session FROM imported WHERE NOT finished)";

/// When a new session is found by those who look.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seen<'a> {
    /// From its first row on.
    AtOnce,
    /// When it is whole. Its events follow this base.
    Later { base: &'a State },
}

/// The session of that key is being imported.
pub(super) fn hide(transaction: &Transaction<'_>, key: i64, base: &State) -> rusqlite::Result<()> {
    transaction.execute("INSERT INTO imported (session, finished) VALUES (?1, 0)", [key])?;
    if base.seq > Seq(0) {
        pieces::set_base(transaction, key, base)?;
        // A fold that is not stored is taken for one of no events.
        let flush = Projection::unstored(base.clone(), FIRST_EPOCH, Instant::now()).flush();
        pieces::write(transaction, key, &flush)?;
        index::write(transaction, key, &flush.found)?;
    }
    turnstream_failpoint::reach("log.import");
    Ok(())
}

impl Database {
    /// Shows a session that was imported.
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

    /// Gives the id of an import free; its rows go as those of a deleted session do. False for one that was shown a moment
    /// before: it stays.
    pub(crate) fn give_up(&mut self, key: i64) -> Result<bool, StoreError> {
        self.transact(0, |transaction| {
            let unseen = "SELECT 1 FROM imported WHERE session = ?1 AND NOT finished";
            let is_unseen = transaction.prepare_cached(unseen)?.exists([key])?;
            if is_unseen {
                remove::void(transaction, key)?;
            }
            Ok(is_unseen)
        })
    }

    /// The sessions whose import did not come to its end.
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

    /// Gives all of them up.
    pub(crate) fn give_up_unfinished_imports(&mut self) -> Result<(), StoreError> {
        for key in self.unfinished_imports()? {
            self.give_up(key)?;
        }
        Ok(())
    }
}

impl Readers {
    /// What is known of the import of a session, if it was imported.
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
