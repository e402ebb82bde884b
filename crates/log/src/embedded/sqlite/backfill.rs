//! Fills a new index from stored rows: after an upgrade, or after a change of the tokenizer. It works in
//! small steps, so that the log stays usable and a crash costs one step.

use super::index::{EntryRow, insert};
use crate::error::DamagedJson;
use crate::projection::PieceKind;
use crate::search::Entry;
use rusqlite::{OptionalExtension, Transaction, params};
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use tracing::warn;
use turnstream_model::fold::{Item, Prompt, State};

/// Bytes of rows per step.
const AT_ONCE_BYTES: usize = 256 * 1024;

/// Indexes the next stored rows and records the progress. False if there is nothing left to do.
///
/// Rows keep their order and come before everything that was indexed since. An entry that was indexed since
/// is newer than the row, and stays.
pub(super) fn step(transaction: &Transaction<'_>) -> rusqlite::Result<bool> {
    let Some((next, last)) = left(transaction)? else { return Ok(false) };
    let mut query = transaction.prepare_cached(
        "SELECT ordinal, session, kind, body FROM piece WHERE ordinal > ?1 AND ordinal <= ?2 AND NOT streaming
         AND kind IN (?3, ?4) ORDER BY ordinal",
    )?;
    let mut rows = query.query(params![next, last, PieceKind::Item as i64, PieceKind::Prompt as i64])?;
    let mut agents = HashMap::new();
    let (mut bytes, mut reached) = (0, None);
    while bytes < AT_ONCE_BYTES
        && let Some(row) = rows.next()?
    {
        let (ordinal, session, kind): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let body = row.get_ref(3)?.as_str()?;
        (bytes, reached) = (bytes + body.len() + 64, Some(ordinal));
        let entry = if kind == PieceKind::Item as i64 {
            decoded::<Item>(ordinal, body).as_ref().and_then(Entry::of_item)
        } else {
            decoded::<Prompt>(ordinal, body).as_ref().and_then(Entry::of_prompt)
        };
        let Some(entry) = entry else { continue };
        let agent = match agents.entry(session) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(new) => new.insert(agent(transaction, session)?),
        };
        let row = EntryRow::of(agent, &entry);
        if !is_filed(transaction, session, &row)? {
            insert(transaction, Some(ordinal), session, &row)?;
        }
    }
    match reached {
        Some(reached) => {
            let mut set =
                transaction.prepare_cached("UPDATE meta SET value = ?1 WHERE name = 'unindexed'")?;
            set.execute([format!("{reached} {last}")])?;
        }
        None => {
            file_waiting(transaction)?;
            transaction.execute("DELETE FROM meta WHERE name = 'unindexed'", [])?;
        }
    }
    Ok(reached.is_some())
}

/// A row that cannot be decoded is not indexed; the events still have its content.
fn decoded<T: DeserializeOwned>(row: i64, body: &str) -> Option<T> {
    match serde_json::from_str(body) {
        Ok(value) => Some(value),
        Err(error) => {
            let error = DamagedJson::from(error);
            warn!(row, %error, "a stored row is damaged; search does not find it");
            None
        }
    }
}

/// Indexes waiting prompts, which have no rows of their own. They are the newest entries, so they come last.
fn file_waiting(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let mut query =
        transaction.prepare("SELECT session, body FROM fold WHERE instr(body, '\"queue\":[{') > 0")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let session: i64 = row.get(0)?;
        let Some(State { queue, session: about, .. }) = decoded(session, row.get_ref(1)?.as_str()?) else {
            continue;
        };
        for entry in queue.iter().filter_map(Entry::of_prompt) {
            let row = EntryRow::of(&about.agent, &entry);
            if !is_filed(transaction, session, &row)? {
                insert(transaction, None, session, &row)?;
            }
        }
    }
    Ok(())
}

/// The range of `piece` rows that is left: after the first number, up to the second.
fn left(transaction: &Transaction<'_>) -> rusqlite::Result<Option<(i64, i64)>> {
    let mut query = transaction.prepare_cached("SELECT value FROM meta WHERE name = 'unindexed'")?;
    let value: Option<String> = query.query_row([], |row| row.get(0)).optional()?;
    let numbers = |value: String| {
        let (next, last) = value.split_once(' ')?;
        Some((next.parse().ok()?, last.parse().ok()?))
    };
    Ok(value.and_then(numbers))
}

fn agent(transaction: &Transaction<'_>, session: i64) -> rusqlite::Result<String> {
    let mut query = transaction.prepare_cached("SELECT body FROM fold WHERE session = ?1")?;
    let head: Option<String> = query.query_row([session], |row| row.get(0)).optional()?;
    // The fold of a session without a fold row lags; the session is indexed when it is folded.
    let state = head.and_then(|head| decoded::<State>(session, &head));
    Ok(state.map(|state| state.session.agent).unwrap_or_default())
}

fn is_filed(transaction: &Transaction<'_>, session: i64, row: &EntryRow) -> rusqlite::Result<bool> {
    let mut query =
        transaction.prepare_cached("SELECT 1 FROM entry WHERE session = ?1 AND subject = ?2 AND id = ?3")?;
    query.exists(params![session, row.subject, row.id])
}
