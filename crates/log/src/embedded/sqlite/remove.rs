//! Removes deleted and trimmed data. Only this file knows every table that holds data of a session.
//!
//! One small transaction hides the data from readers, also after a crash. The rows are removed later, in
//! small transactions. SQLite overwrites them (`secure_delete`); copies that it leaves are for `scrub`.

use super::{index, pieces};
use crate::error::DamagedJson;
use crate::projection::PieceKind;
use crate::search::Subject;
use crate::store::Cut;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use tracing::debug;
use turnstream_model::fold::{Gone, State};

/// Bytes of rows per transaction; at least one row. SQLite writes every page that it overwrites into its
/// write-ahead log, and on a full disk only the space in reserve is there for it.
const BYTES_AT_ONCE: i64 = 1 << 20;
/// Rows per transaction.
const ROWS_AT_ONCE: i64 = 512;
/// Bytes of text per transaction whose words are removed from the index; at least one entry. FTS5 looks up
/// each word in each of its trees, which takes most of the time of a removal.
const TEXT_AT_ONCE: usize = 16 * 1024;
/// Deleted sessions to remember after their bytes are erased, so that a repeated delete gets the same answer.
const REMEMBERED: i64 = 10_000;

/// Whether there is more to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum More {
    Yes,
    No,
}

/// Tables with rows per session, and their largest column. The index is cleared after them, because it may be
/// filled from them.
const TABLES: &[(&str, &str)] = &[
    ("piece", "body"),
    ("fold", "body"),
    ("base", "body"),
    ("open_turn", "turn"),
    ("imported", "native_id"),
];

/// Deletes a session: its id is free, and its rows are removed later.
pub(super) fn delete(transaction: &Transaction<'_>, session: i64) -> rusqlite::Result<bool> {
    let mut gone = transaction.prepare_cached("DELETE FROM session WHERE key = ?1 RETURNING id")?;
    let id: Option<String> = gone.query_row([session], |row| row.get(0)).optional()?;
    let Some(id) = id else { return Ok(false) };
    insert_tombstone(transaction, session, &id)?;
    turnstream_failpoint::reach("log.delete");
    Ok(true)
}

/// Discards an unfinished import. No reader has seen it, so its id is not remembered.
pub(super) fn discard_import(transaction: &Transaction<'_>, session: i64) -> rusqlite::Result<()> {
    transaction.execute("DELETE FROM session WHERE key = ?1", [session])?;
    transaction.execute("DELETE FROM imported WHERE session = ?1", [session])?;
    insert_tombstone(transaction, session, &format!("given up, {session}"))?;
    turnstream_failpoint::reach("log.import.void");
    Ok(())
}

fn insert_tombstone(transaction: &Transaction<'_>, session: i64, id: &str) -> rusqlite::Result<()> {
    transaction
        .execute("INSERT INTO tombstone (session, id, done) VALUES (?1, ?2, 0)", params![session, id])?;
    // Nobody has to end its turns any more.
    transaction.execute("DELETE FROM open_turn WHERE session = ?1", [session])?;
    transaction.execute(
        "INSERT INTO meta (name, value) VALUES ('last_key', ?1)
         ON CONFLICT (name) DO UPDATE SET value = max(CAST(value AS INTEGER), ?1)",
        [session],
    )?;
    request_erasure(transaction)
}

/// Removes the beginning of a session. Its stored fold must reach the cut.
pub(super) fn trim(transaction: &Transaction<'_>, session: i64, cut: &Cut) -> rusqlite::Result<bool> {
    let Cut { after, base, gone } = cut;
    let last = base.seq.0 as i64;
    let at = pieces::base(transaction, session)?.map_or(0, |(seq, _)| seq);
    let is_there = transaction.prepare_cached("SELECT 1 FROM session WHERE key = ?1")?.exists([session])?;
    let fold: Option<(i64, String)> = transaction
        .prepare_cached("SELECT seq, body FROM fold WHERE session = ?1")?
        .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let head = match fold {
        Some((seq, body)) if is_there && at == after.0 && seq >= last => body,
        Some(_) | None => return Ok(false),
    };
    pieces::set_base(transaction, session, base)?;
    // The stored fold also has the used idempotency keys and the trim time. If it cannot be read, readers
    // start from the base.
    match serde_json::from_str::<State>(&head) {
        Ok(head) => {
            let head = State { spent: base.spent.clone(), trimmed: base.trimmed, ..head };
            transaction.execute(
                "UPDATE fold SET body = ?2 WHERE session = ?1",
                params![session, pieces::json(&head)],
            )?;
        }
        Err(error) => {
            let error = DamagedJson::from(error);
            debug!(session_key = session, %error, "the head of a stored fold is damaged");
        }
    }
    split_row(transaction, session, base.seq.0)?;
    remove_ids(transaction, session, gone)?;
    request_erasure(transaction)?;
    turnstream_failpoint::reach("log.trim");
    Ok(true)
}

/// Splits the row at the cut, and keeps the events after it.
fn split_row(transaction: &Transaction<'_>, session: i64, last: u64) -> rusqlite::Result<()> {
    let row: Option<(i64, i64, i64, String)> = transaction
        .prepare_cached(
            "SELECT rowid, first_seq, count, data FROM chunk WHERE session = ?1 AND first_seq <= ?2
             ORDER BY first_seq DESC LIMIT 1",
        )?
        .query_row([session, last as i64], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .optional()?;
    let Some((rowid, first, count, data)) = row else { return Ok(()) };
    let goes = last as i64 - first + 1;
    if goes >= count {
        return Ok(());
    }
    let start =
        memchr::memchr_iter(b'\n', data.as_bytes()).nth(goes as usize - 1).map_or(data.len(), |at| at + 1);
    transaction.execute("DELETE FROM chunk WHERE rowid = ?1", [rowid])?;
    transaction.execute(
        "INSERT INTO chunk (session, first_seq, count, data) VALUES (?1, ?2, ?3, ?4)",
        params![session, last as i64 + 1, count - goes, &data[start..]],
    )?;
    Ok(())
}

/// Removes the rows and index entries of these ids from a session that stays.
fn remove_ids(transaction: &Transaction<'_>, session: i64, gone: &Gone) -> rusqlite::Result<()> {
    let Gone { turns, items, approvals, questions, prompts } = gone;
    let mut delete =
        transaction.prepare_cached("DELETE FROM piece WHERE session = ?1 AND kind = ?2 AND id = ?3")?;
    let mut forget = |kind: PieceKind, id: &str| delete.execute(params![session, kind as i64, id]).map(drop);
    turns.iter().try_for_each(|id| forget(PieceKind::Turn, id.as_str()))?;
    items.iter().try_for_each(|id| forget(PieceKind::Item, id.as_str()))?;
    approvals.iter().try_for_each(|id| forget(PieceKind::Approval, id.as_str()))?;
    questions.iter().try_for_each(|id| forget(PieceKind::Question, id.as_str()))?;
    prompts.iter().try_for_each(|id| forget(PieceKind::Prompt, id.as_str()))?;
    let items = items.iter().cloned().map(Subject::Item);
    items
        .chain(prompts.iter().cloned().map(Subject::Prompt))
        .try_for_each(|subject| index::hide(transaction, session, &subject))
}

/// Removes some rows that no reader finds any more.
pub(super) fn remove_some_rows(transaction: &Transaction<'_>) -> rusqlite::Result<More> {
    let of_deleted = |table: &str| {
        format!("tombstone JOIN {table} ON {table}.session = tombstone.session WHERE tombstone.done = 0")
    };
    let mut removed = remove_rows(transaction, "chunk", "data", &of_deleted("chunk"))?;
    if removed == 0 {
        let trimmed = "base JOIN chunk ON chunk.session = base.session AND chunk.first_seq <= base.seq";
        removed = remove_rows(transaction, "chunk", "data", trimmed)?;
    }
    for (table, largest) in TABLES {
        if removed > 0 {
            break;
        }
        removed = remove_rows(transaction, table, largest, &of_deleted(table))?;
    }
    if removed == 0 {
        removed = remove_from_index(transaction)?;
    }
    turnstream_failpoint::reach("log.remove");
    Ok(if removed == 0 { More::No } else { More::Yes })
}

/// Removes the first of these rows, up to [`BYTES_AT_ONCE`] in their largest column.
fn remove_rows(
    transaction: &Transaction<'_>,
    table: &str,
    largest: &str,
    which: &str,
) -> rusqlite::Result<usize> {
    // The length is in the head of a row, so its content is not read.
    let mut find = transaction.prepare_cached(&format!(
        "SELECT {table}.rowid, coalesce(octet_length({table}.{largest}), 0) FROM {which} LIMIT {ROWS_AT_ONCE}"
    ))?;
    let mut found = find.query([])?;
    let (mut rowids, mut bytes) = (Vec::new(), 0);
    while let Some(row) = found.next()? {
        let length: i64 = row.get(1)?;
        if !rowids.is_empty() && bytes + length > BYTES_AT_ONCE {
            break;
        }
        bytes += length;
        rowids.push(row.get::<_, i64>(0)?);
    }
    drop(found);
    let mut delete = transaction.prepare_cached(&format!("DELETE FROM {table} WHERE rowid = ?1"))?;
    rowids.iter().try_fold(0, |removed, rowid| Ok(removed + delete.execute([rowid])?))
}

/// Removes some entries of deleted sessions, and hidden ones, from the index.
fn remove_from_index(transaction: &Transaction<'_>) -> rusqlite::Result<usize> {
    let mut query = transaction.prepare_cached(
        "SELECT session FROM tombstone WHERE done = 0 AND EXISTS (SELECT 1 FROM entry WHERE entry.session = tombstone.session)",
    )?;
    let session: Option<i64> = query.query_row([], |row| row.get(0)).optional()?;
    let session = session.map_or_else(|| index::hidden_session(transaction), |session| Ok(Some(session)))?;
    session.map_or(Ok(0), |session| index::remove_entries(transaction, session, TEXT_AT_ONCE))
}

/// Recorded until everything is erased, so that the next start continues.
fn request_erasure(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute("INSERT OR REPLACE INTO meta (name, value) VALUES ('removing', '1')", []).map(drop)
}

pub(super) fn is_erasure_pending(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM meta WHERE name = 'removing'")?.exists([])
}

/// Records that everything removed is erased from every file.
pub(super) fn mark_erased(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute("DELETE FROM meta WHERE name = 'removing'", [])?;
    transaction.execute("UPDATE tombstone SET done = 1 WHERE done = 0", [])?;
    transaction.execute(
        "DELETE FROM tombstone WHERE done = 1 AND session <=
             (SELECT session FROM tombstone WHERE done = 1 ORDER BY session DESC LIMIT 1 OFFSET ?1)",
        [REMEMBERED],
    )?;
    turnstream_failpoint::reach("log.removed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{More, remove_some_rows};
    use rusqlite::Connection;

    /// The rows that are left after each transaction.
    fn steps(lengths: &[usize]) -> Vec<i64> {
        let directory = tempfile::tempdir().unwrap();
        let mut database = super::super::open(&directory.path().join("log.db")).unwrap().database;
        let connection: &mut Connection = &mut database.connection;
        connection.execute_batch(super::super::imports::TABLE).unwrap();
        connection.execute_batch("INSERT INTO tombstone (session, id, done) VALUES (1, 's', 0)").unwrap();
        for (at, length) in lengths.iter().enumerate() {
            let row = "INSERT INTO chunk (session, first_seq, count, data) VALUES (1, ?1, 1, ?2)";
            connection.execute(row, (at as i64 + 1, "x".repeat(*length))).unwrap();
        }
        let mut left = Vec::new();
        loop {
            let transaction = connection.transaction().unwrap();
            let more = remove_some_rows(&transaction).unwrap();
            transaction.commit().unwrap();
            if more == More::No {
                return left;
            }
            left.push(connection.query_row("SELECT count(*) FROM chunk", [], |row| row.get(0)).unwrap());
        }
    }

    #[test]
    fn a_removal_takes_as_many_rows_as_fit_and_at_least_one() {
        assert_eq!(steps(&[400 << 10; 5]), [3, 1, 0]);
        assert_eq!(steps(&[10, 10 << 20, 10, 10]), [3, 2, 0]);
    }
}
