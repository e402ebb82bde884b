//! Sessions that were imported. One that is being imported has its rows like any other and is found by nobody, until one
//! transaction shows it; a crash before that leaves rows that the next opening removes.

use super::index;
use super::read::Readers;
use super::write::Database;
use crate::importer::Imported;
use crate::store::StoreError;
use rusqlite::{OptionalExtension, Transaction, params};
use std::collections::HashSet;

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

/// Rows that are removed in one transaction, so that it does not grow with the session.
const AT_ONCE: usize = 256;

/// When a new session is found by those who look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// From its first row on.
    AtOnce,
    /// When it is whole.
    Later,
}

/// The session of that key is being imported.
pub(super) fn hide(transaction: &Transaction<'_>, key: i64) -> rusqlite::Result<()> {
    transaction.execute("INSERT INTO imported (session, finished) VALUES (?1, 0)", [key])?;
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

    /// Gives the id of an import free. Its rows go when the directory is opened again: segments that hold some of them are
    /// still read until then, and have to find out whose they were.
    pub(crate) fn give_up(&mut self, key: i64) -> Result<(), StoreError> {
        self.transact(0, |transaction| {
            // One that was shown a moment before stays.
            let unseen = "key = ?1 AND key IN (SELECT session FROM imported WHERE NOT finished)";
            let rename = format!("UPDATE session SET id = 'given up, ' || key WHERE {unseen}");
            transaction.execute(&rename, [key]).map(drop)
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

    /// Removes all there is of them, the row that names one last: a crash in between leaves the rest to the next time.
    pub(crate) fn remove_unfinished_imports(&mut self) -> Result<(), StoreError> {
        for key in self.unfinished_imports()? {
            while self.transact(0, |transaction| index::forget(transaction, key, AT_ONCE))? > 0 {}
            for (table, id) in [("chunk", "rowid"), ("piece", "ordinal")] {
                let some = format!(
                    "DELETE FROM {table} WHERE {id} IN (SELECT {id} FROM {table} WHERE session = ?1 LIMIT ?2)"
                );
                while self
                    .transact(0, |transaction| transaction.execute(&some, params![key, AT_ONCE as i64]))?
                    > 0
                {
                    turnstream_failpoint::reach("log.import.removing");
                }
            }
            self.transact(0, |transaction| {
                for rest in ["fold", "open_turn", "imported"] {
                    transaction.execute(&format!("DELETE FROM {rest} WHERE session = ?1"), [key])?;
                }
                transaction.execute("DELETE FROM session WHERE key = ?1", [key])
            })?;
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
