//! The revision of the database: a count of the log's transactions. It is also recorded outside the database.
//! A database that was restored from a backup is recognised because its revision is lower than the recorded
//! one.

use super::wal::Wal;
use rusqlite::{Transaction, params};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The last durable transaction. Shared with the places that record it; never ahead of the database.
#[derive(Clone)]
pub(crate) struct Revision(Arc<AtomicU64>);

impl Revision {
    pub(crate) fn new(revision: u64) -> Self {
        Self(Arc::new(AtomicU64::new(revision)))
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// This transaction is durable.
    pub(super) fn reached(&self, revision: u64) {
        self.0.store(revision, Ordering::Release);
    }
}

/// Counts this transaction, starting at least after `known`, and records the write-ahead log it is in.
pub(super) fn count(transaction: &Transaction<'_>, known: u64, wal: Option<Wal>) -> rusqlite::Result<u64> {
    let mut next = transaction.prepare_cached(
        "INSERT INTO meta (name, value) VALUES ('revision', ?1 + 1) ON CONFLICT (name) DO UPDATE
         SET value = max(CAST(value AS INTEGER), ?1) + 1 RETURNING CAST(value AS INTEGER)",
    )?;
    let revision: i64 = next.query_row(params![known as i64], |row| row.get(0))?;
    // On the same page as the revision, so that it costs no extra write.
    let mut note = transaction
        .prepare_cached("INSERT OR REPLACE INTO meta (name, value) VALUES ('wal', ?1), ('base', ?2)")?;
    let (salt, base) =
        wal.map_or_else(Default::default, |wal| (format!("{:016x}", wal.salt), wal.base.to_string()));
    note.execute(params![salt, base])?;
    Ok(revision as u64)
}
