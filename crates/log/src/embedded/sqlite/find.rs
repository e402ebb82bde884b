//! Reads the index: a query becomes one FTS5 expression, and matches are read newest first.
//!
//! FTS5 can be interrupted, but then it does not say how far it came. Only the range down to its last match
//! is known to be searched. It also cannot be restricted to a range of row ids, because it continues to the
//! next match regardless of the bounds.
//!
//! So if FTS5 finds no match in time, the texts are compared one by one until the time is up. A page can
//! therefore end anywhere, and the next page continues from there.

use super::imports::VISIBLE;
use super::index::{HOUR, tags};
use crate::error::{ReadError, StoreFault};
use crate::projection::PieceKind;
use crate::search::terms::{Term, Terms};
use crate::search::{FoundPage, Hit, IndexPosition, Search, SearchError, Subject, snippet};
use rusqlite::types::Type;
use rusqlite::{CachedStatement, Connection, ErrorCode, OptionalExtension, Row, params};
use std::ops::RangeInclusive;
use std::sync::Arc;
use turnstream_model::event::{ItemKind, Role};
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// SQLite instructions between two checks of the search budget. Reading one FTS5 page takes three.
const INSTRUCTIONS: i32 = 48;

impl From<rusqlite::Error> for SearchError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Read(ReadError::Store(StoreFault::new(error)))
    }
}

/// One page of results, from one snapshot of the database.
pub(super) fn find(connection: &mut Connection, search: &Search) -> Result<FoundPage, SearchError> {
    find_asking(connection, search, INSTRUCTIONS)
}

fn find_asking(
    connection: &mut Connection,
    search: &Search,
    instructions: i32,
) -> Result<FoundPage, SearchError> {
    let budget = Arc::clone(&search.budget);
    connection.progress_handler(instructions, Some(move || budget.should_abandon_attempt()))?;
    let found = search_snapshot(connection, search);
    connection.progress_handler(0, None::<fn() -> bool>)?;
    found
}

fn search_snapshot(connection: &Connection, search: &Search) -> Result<FoundPage, SearchError> {
    let transaction = connection.unchecked_transaction()?;
    let index = name_of_index(&transaction)?;
    let newest = match search.after {
        Some(after) if after.index != index => return Err(search.foreign_cursor()),
        Some(after) => after.ordinal.saturating_sub(1),
        None => i64::MAX,
    };
    let mut pass = SearchPass { connection: &transaction, search, hits: Vec::new(), reached: None };
    let end = match bounds(&transaction, search)? {
        Some((first, last)) => pass.run(first..=last.min(newest))?,
        None => StopReason::Whole,
    };
    let SearchPass { hits, reached, .. } = pass;
    let next = match end {
        StopReason::Whole => None,
        StopReason::Full | StopReason::Spent => reached.map(|ordinal| IndexPosition { index, ordinal }),
    };
    let is_incomplete = end == StopReason::Spent && hits.len() < search.limit;
    Ok(FoundPage { hits, next, is_indexing: false, is_incomplete })
}

/// A page that is being filled.
struct SearchPass<'a> {
    connection: &'a Connection,
    search: &'a Search,
    hits: Vec<Hit>,
    /// Every entry with this ordinal or a higher one has been searched.
    reached: Option<i64>,
}

/// Why a search stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopReason {
    /// There are no further entries.
    Whole,
    /// The page is full, and there may be more.
    Full,
    /// The search budget is used up.
    Spent,
}

/// What is known about an entry.
#[derive(Clone, Copy)]
enum Matches {
    Fit,
    /// Its text must be compared.
    MayFit,
}

impl<'a> SearchPass<'a> {
    /// Searches the index, and the texts if the index gives no match in time.
    fn run(&mut self, numbers: RangeInclusive<i64>) -> Result<StopReason, SearchError> {
        let budget = &self.search.budget;
        budget.begin_attempt();
        let matched = self.search_index(&numbers);
        budget.end_attempt();
        match matched {
            Err(error) if error.sqlite_error_code() != Some(ErrorCode::OperationInterrupted) => {
                Err(error.into())
            }
            Ok(end) => Ok(end),
            Err(_) if self.reached.is_some() => Ok(StopReason::Spent),
            Err(_) => Ok(self.compare_texts(&numbers)?),
        }
    }

    /// Adds every entry of this range that the index matches.
    fn search_index(&mut self, numbers: &RangeInclusive<i64>) -> rusqlite::Result<StopReason> {
        let mut query = self.connection.prepare_cached(
            "SELECT rowid FROM entry_word WHERE entry_word MATCH ?1 AND rowid <= ?2 AND rowid >= ?3
             ORDER BY rowid DESC",
        )?;
        let mut entry = self.entry()?;
        let mut rows = query.query(params![expression(self.search), numbers.end(), numbers.start()])?;
        while let Some(row) = rows.next()? {
            if let Some(reason) = self.stop_reason() {
                return Ok(reason);
            }
            self.add_hit(&mut entry, row.get(0)?, Matches::Fit)?;
        }
        Ok(StopReason::Whole)
    }

    /// Adds every entry of this range whose text matches. Slow, but it makes progress for any query.
    fn compare_texts(&mut self, numbers: &RangeInclusive<i64>) -> rusqlite::Result<StopReason> {
        let Search { session, agent, kind, role, .. } = self.search;
        let mut query = self.connection.prepare_cached(
            "SELECT ordinal, session, agent, kind, role FROM entry WHERE ordinal <= ?1 AND ordinal >= ?2
             ORDER BY ordinal DESC",
        )?;
        let mut entry = self.entry()?;
        let mut rows = query.query([numbers.end(), numbers.start()])?;
        while let Some(row) = rows.next()? {
            if let Some(reason) = self.stop_reason() {
                return Ok(reason);
            }
            let (ordinal, its_session): (i64, i64) = (row.get(0)?, row.get(1)?);
            let has = |column: usize, word: Option<&str>| -> rusqlite::Result<bool> {
                Ok(word.is_none() || row.get_ref(column)?.as_str_or_null()? == word)
            };
            let passes = session.is_none_or(|session| session == its_session)
                && has(2, agent.as_deref())?
                && has(3, kind.map(ItemKind::as_str))?
                && has(4, role.map(Role::as_str))?;
            if passes {
                self.add_hit(&mut entry, ordinal, Matches::MayFit)?;
            }
            self.reached = Some(ordinal);
        }
        Ok(StopReason::Whole)
    }

    /// Why the search must stop now, if it must. Long texts are slow to excerpt, and a time filter may reject
    /// many matches.
    fn stop_reason(&self) -> Option<StopReason> {
        if self.hits.len() == self.search.limit {
            return Some(StopReason::Full);
        }
        (self.reached.is_some() && self.search.budget.is_spent()).then_some(StopReason::Spent)
    }

    /// The statement that reads an entry by its ordinal.
    fn entry(&self) -> rusqlite::Result<CachedStatement<'a>> {
        self.connection.prepare_cached(&format!(
            "SELECT session.id, subject, entry.id, time, turn, kind, role, agent, text
             FROM entry JOIN session ON session.key = entry.session
             WHERE ordinal = ?1 AND time >= ?2 AND time < ?3 AND {VISIBLE}"
        ))
    }

    /// Adds the entry with this ordinal to the page if it passes the filters.
    fn add_hit(
        &mut self,
        entry: &mut CachedStatement<'_>,
        ordinal: i64,
        matches: Matches,
    ) -> rusqlite::Result<()> {
        let search = self.search;
        let (from, to) = (millis(search.from, 0), millis(search.to, i64::MAX));
        let hit = entry.query_row([ordinal, from, to], |row| hit(row, search, matches)).optional()?;
        self.hits.extend(hit.flatten());
        self.reached = Some(ordinal);
        Ok(())
    }
}

fn name_of_index(connection: &Connection) -> rusqlite::Result<u64> {
    let name: String =
        connection.query_row("SELECT value FROM meta WHERE name = 'index'", [], |row| row.get(0))?;
    Ok(u64::from_str_radix(&name, 16).unwrap_or(0))
}

/// The range of ordinals to search, restricted by time if the query is. `None` if there are no entries.
/// Entries are indexed roughly in the order in which they began, so this does most of the work of a time
/// filter.
fn bounds(connection: &Connection, search: &Search) -> rusqlite::Result<Option<(i64, i64)>> {
    if search.from.is_none() && search.to.is_none() {
        let mut query = connection
            .prepare_cached("SELECT (SELECT min(ordinal) FROM entry), (SELECT max(ordinal) FROM entry)")?;
        return query.query_row([], both);
    }
    let (from, to) = (millis(search.from, 0), millis(search.to, i64::MAX));
    let mut query = connection
        .prepare_cached("SELECT min(first), max(last) FROM entry_hour WHERE hour >= ?1 AND hour <= ?2")?;
    query.query_row([from / HOUR, to / HOUR], both)
}

fn both(row: &Row<'_>) -> rusqlite::Result<Option<(i64, i64)>> {
    let (first, last): (Option<i64>, Option<i64>) = (row.get(0)?, row.get(1)?);
    Ok(first.zip(last))
}

fn millis(time: Option<Time>, otherwise: i64) -> i64 {
    time.map_or(otherwise, |time| i64::try_from(time.0).unwrap_or(i64::MAX))
}

/// The FTS5 expression: all tags and wanted terms, and none of the unwanted ones.
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

/// Contains only tokens: neither a key nor a tag has a quote.
fn quoted(tokens: &str) -> String {
    format!("\"{}\"", tokens.replace('"', " "))
}

/// `None` if the text does not match.
fn hit(row: &Row<'_>, search: &Search, matches: Matches) -> rusqlite::Result<Option<Hit>> {
    let text = row.get_ref(8)?.as_str()?;
    match matches {
        Matches::MayFit if !search.terms.fit(text) => return Ok(None),
        Matches::MayFit | Matches::Fit => {}
    }
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
    Ok(Some(Hit {
        session: SessionId::from(row.get::<_, String>(0)?),
        agent: row.get(7)?,
        subject,
        turn: row.get::<_, Option<String>>(4)?.map(Into::into),
        kind: ItemKind::from_word(&kind).ok_or_else(|| unknown(5, &kind))?,
        role,
        time: Time(row.get::<_, i64>(3)? as u64),
        snippet: snippet(text, &search.terms.wanted),
    }))
}

#[cfg(test)]
mod stopped;

#[cfg(test)]
mod tests {
    use super::super::index::{self, EntryRow};
    use super::super::schema;
    use super::*;
    use crate::search::Entry;
    use crate::search::budget::SearchBudget;
    use crate::search::terms::Terms;
    use std::path::Path;

    const ENTRIES: u64 = 6_000;

    /// The text of an entry: words that all entries have, in an order that few have, and words that few have.
    fn text(number: u64) -> String {
        let rare = if number % 601 == 7 { "one two one two one" } else { "two one three one one two" };
        format!(
            "{rare} {rare} beginning{number:05} {}",
            if number.is_multiple_of(7) { "seven" } else { "other" }
        )
    }

    fn database(directory: &Path) -> Connection {
        let path = directory.join("log.db");
        drop(schema::open(&path).unwrap());
        let mut connection = Connection::open(&path).unwrap();
        let transaction = connection.transaction().unwrap();
        transaction.execute_batch(super::super::imports::TABLE).unwrap();
        transaction.execute_batch("INSERT INTO session VALUES (1, 's', 'g', 1)").unwrap();
        for number in 0..ENTRIES {
            let (subject, kind) = (Subject::Item(format!("i{number}").into()), ItemKind::Message);
            // Every second entry began long before it was indexed.
            let time = Time(if number % 2 == 0 { number * 1_000 } else { 0 });
            let entry = Entry { subject, turn: None, kind, role: None, time, text: text(number) };
            index::insert(&transaction, None, 1, &EntryRow::of("agent", &entry)).unwrap();
        }
        transaction.commit().unwrap();
        connection
    }

    fn search(words: &str, after: Option<IndexPosition>, budget: SearchBudget) -> Search {
        Search {
            terms: Terms::parse(words).unwrap(),
            session: None,
            agent: None,
            role: None,
            kind: None,
            from: None,
            to: None,
            limit: 5,
            after,
            budget: Arc::new(budget),
        }
    }

    fn number_of(hit: &Hit) -> u64 {
        let Subject::Item(item) = &hit.subject else { panic!("{hit:?}") };
        item.as_str()[1..].parse().unwrap()
    }

    /// Reads pages with this budget each, at most forty of them. Returns what was found, how far that is, and
    /// how many pages were incomplete.
    fn pages(connection: &mut Connection, asked: &Search, most: u64) -> (Vec<u64>, i64, usize) {
        let (mut found, mut incomplete, mut after) = (Vec::new(), 0, None::<IndexPosition>);
        for _ in 0..40 {
            let budget = Arc::new(SearchBudget::of_asking(most));
            let terms = asked.terms.clone();
            let (from, to) = (asked.from, asked.to);
            let page =
                Search { terms, after, from, to, budget, ..search("x", None, SearchBudget::of_asking(0)) };
            let page = find(connection, &page).unwrap();
            found.extend(page.hits.iter().map(number_of));
            assert!(page.hits.len() <= 5);
            assert!(!page.is_incomplete || page.next.is_some() && page.hits.len() < 5);
            incomplete += usize::from(page.is_incomplete);
            let Some(next) = page.next else { return (found, 0, incomplete) };
            assert!(after.is_none_or(|after| next.ordinal < after.ordinal), "{next:?} after {after:?}");
            after = Some(next);
        }
        (found, after.map_or(0, |after| after.ordinal), incomplete)
    }

    #[test]
    fn pages_that_are_left_incomplete_have_everything_once_however_little_is_done_for_each() {
        let directory = tempfile::tempdir().unwrap();
        let mut connection = database(directory.path());
        for (words, times) in [
            // Words that every entry has, in a rare order.
            ("\"one two one two one\"", None),
            ("one two three -seven -\"two one\"", None),
            ("nowhere", None),
            // A prefix with thousands of words.
            ("beginn*", None),
            ("seven beginning0*", None),
            ("\"two beginning1*\" -beginning12*", None),
            // Half of the entries in this range began at another time.
            ("seven", Some((5_000_000, 5_900_000))),
        ] {
            let mut asked = search(words, None, SearchBudget::of_asking(0));
            (asked.from, asked.to) = (times.map(|(from, _)| Time(from)), times.map(|(_, to)| Time(to)));
            let fits = |number: &u64| {
                let is_of_then = times.is_none_or(|(from, to)| {
                    number.is_multiple_of(2) && (from..to).contains(&(number * 1_000))
                });
                is_of_then && asked.terms.fit(&text(*number))
            };
            let expected: Vec<u64> = (0..ENTRIES).rev().filter(fits).collect();
            for most in [0, 1, 3, 40, 1_000_000] {
                let (found, reached, incomplete) = pages(&mut connection, &asked, most);
                // The first entry has the ordinal 1.
                let is_reached = |number: &&u64| **number as i64 + 1 >= reached;
                let expected: Vec<u64> = expected.iter().take_while(is_reached).copied().collect();
                assert_eq!(found, expected, "{words} with {most}");
                assert!(most < 1_000_000 || incomplete == 0, "{words} with all the budget it takes");
            }
        }
    }

    #[test]
    fn a_page_that_is_stopped_gets_on_and_the_connection_reads_on() {
        let directory = tempfile::tempdir().unwrap();
        let mut connection = database(directory.path());
        let asked = search("\"one two one two three one two\"", None, SearchBudget::of_asking(0));
        let page = find(&mut connection, &asked).unwrap();
        // Exactly one entry was compared.
        let index = name_of_index(&connection).unwrap();
        let next = Some(IndexPosition { index, ordinal: ENTRIES as i64 });
        assert_eq!((page.hits, page.next, page.is_incomplete), (vec![], next, true));
        let count: i64 = connection
            .query_row("SELECT count(*) FROM entry_word WHERE entry_word MATCH 'one'", [], |row| row.get(0))
            .unwrap();
        assert_eq!(count, ENTRIES as i64, "nobody is stopped who was not to be");
    }
}
