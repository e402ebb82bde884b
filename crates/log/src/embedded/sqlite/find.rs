//! Reading the index: a query becomes one FTS5 expression, and its matches are read from the newest on.

use super::imports::SEEN;
use super::index::{HOUR, tags};
use crate::error::ReadError;
use crate::projection::PieceKind;
use crate::search::terms::{Term, Terms};
use crate::search::{Found, Hit, Place, Search, SearchError, Subject, snippet};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use turnstream_model::event::{ItemKind, Role};
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// Matches that are looked at for one page. Only a filter by time can refuse some of them, and only where much was
/// filed at another time than it was said.
const MOST_LOOKED_AT: usize = 20_000;

impl From<rusqlite::Error> for SearchError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Read(ReadError::Store(error.to_string()))
    }
}

/// One page, from one state of the database.
pub(super) fn find(connection: &Connection, search: &Search) -> Result<Found, SearchError> {
    let transaction = connection.unchecked_transaction()?;
    let index = name_of_index(&transaction)?;
    let newest = match search.after {
        Some(after) if after.index != index => return Err(search.foreign_cursor()),
        Some(after) => after.ordinal.saturating_sub(1),
        None => i64::MAX,
    };
    let mut found = Found { hits: Vec::new(), next: None, is_indexing: false };
    let Some((first, last)) = bounds(&transaction, search)? else { return Ok(found) };
    let mut matches = transaction.prepare_cached(
        "SELECT rowid FROM entry_word WHERE entry_word MATCH ?1 AND rowid <= ?2 AND rowid >= ?3 ORDER BY rowid DESC",
    )?;
    let mut entry = transaction.prepare_cached(&format!(
        "SELECT session.id, subject, entry.id, time, turn, kind, role, agent, text
         FROM entry JOIN session ON session.key = entry.session
         WHERE ordinal = ?1 AND time >= ?2 AND time < ?3 AND {SEEN}"
    ))?;
    let (from, to) = (millis(search.from, 0), millis(search.to, i64::MAX));
    let mut rows = matches.query(params![expression(search), last.min(newest), first])?;
    let (mut looked_at, mut place) = (0, None);
    while let Some(row) = rows.next()? {
        if found.hits.len() == search.limit || looked_at == MOST_LOOKED_AT {
            found.next = place;
            break;
        }
        let ordinal: i64 = row.get(0)?;
        found.hits.extend(entry.query_row([ordinal, from, to], |row| hit(row, search)).optional()?);
        place = Some(Place { index, ordinal });
        looked_at += 1;
    }
    Ok(found)
}

fn name_of_index(connection: &Connection) -> rusqlite::Result<u64> {
    let name: String =
        connection.query_row("SELECT value FROM meta WHERE name = 'index'", [], |row| row.get(0))?;
    Ok(u64::from_str_radix(&name, 16).unwrap_or(0))
}

/// Between which numbers everything of that time is; `None` when there is nothing. Things are filed about in the order in
/// which they began, so this is most of what a filter by time has to do.
fn bounds(connection: &Connection, search: &Search) -> rusqlite::Result<Option<(i64, i64)>> {
    if search.from.is_none() && search.to.is_none() {
        return Ok(Some((0, i64::MAX)));
    }
    let (from, to) = (millis(search.from, 0), millis(search.to, i64::MAX));
    let mut query = connection
        .prepare_cached("SELECT min(first), max(last) FROM entry_hour WHERE hour >= ?1 AND hour <= ?2")?;
    query.query_row([from / HOUR, to / HOUR], |row| {
        let (first, last): (Option<i64>, Option<i64>) = (row.get(0)?, row.get(1)?);
        Ok(first.zip(last))
    })
}

fn millis(time: Option<Time>, otherwise: i64) -> i64 {
    time.map_or(otherwise, |time| i64::try_from(time.0).unwrap_or(i64::MAX))
}

/// All tags and wanted terms, and none of the others.
fn expression(search: &Search) -> String {
    let Terms { wanted, unwanted } = &search.terms;
    let tags = tags(search.session, search.agent.as_deref(), search.kind, search.role);
    let all: Vec<String> = tags.iter().map(|tag| quoted(tag)).chain(wanted.iter().map(phrase)).collect();
    let nothing_of = |so_far: String, term: &Term| format!("({so_far}) NOT {}", phrase(term));
    unwanted.iter().fold(all.join(" AND "), nothing_of)
}

fn phrase(term: &Term) -> String {
    let Term { keys, is_beginning } = term;
    quoted(&keys.join(" ")) + if *is_beginning { " *" } else { "" }
}

/// Nothing but tokens can be inside: neither a key nor a tag has a quote.
fn quoted(tokens: &str) -> String {
    format!("\"{}\"", tokens.replace('"', " "))
}

fn hit(row: &Row<'_>, search: &Search) -> rusqlite::Result<Hit> {
    let (subject, id): (i64, String) = (row.get(1)?, row.get(2)?);
    let subject = if subject == PieceKind::Prompt as i64 {
        Subject::Prompt(id.into())
    } else {
        Subject::Item(id.into())
    };
    let unknown = |column: usize, word: &str| {
        rusqlite::Error::FromSqlConversionFailure(
            column,
            Type::Text,
            format!("{word:?} is no such word").into(),
        )
    };
    let (kind, role): (String, Option<String>) = (row.get(5)?, row.get(6)?);
    let role = role.map(|word| Role::from_word(&word).ok_or_else(|| unknown(6, &word))).transpose()?;
    Ok(Hit {
        session: SessionId::from(row.get::<_, String>(0)?),
        agent: row.get(7)?,
        subject,
        turn: row.get::<_, Option<String>>(4)?.map(Into::into),
        kind: ItemKind::from_word(&kind).ok_or_else(|| unknown(5, &kind))?,
        role,
        time: Time(row.get::<_, i64>(3)? as u64),
        snippet: snippet(row.get_ref(8)?.as_str()?, &search.terms.wanted),
    })
}
