//! Reads a window of a stored fold, row by row from its newest item. The cost depends on the page and on the
//! events after the fold, not on the length of the session.

use super::pieces;
use crate::page::{MOST_TURNS, PAGE_BYTES, Reach, Window, WindowQuery, number_of};
use crate::projection::PieceKind;
use crate::stored_fold::{StoredFold, damaged};
use rusqlite::{Connection, OptionalExtension, params};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, HashSet};
use turnstream_model::event::Event;
use turnstream_model::fold::{Item, Prompt, State, Turn};
use turnstream_model::id::{PromptId, TurnId};

/// Reads the window and the events after the fold in one transaction.
pub(super) fn read(
    connection: &Connection,
    session: i64,
    wanted: &WindowQuery,
) -> rusqlite::Result<Result<Window, String>> {
    let transaction = connection.unchecked_transaction()?;
    let head: Option<(i64, String)> = transaction
        .prepare_cached("SELECT seq, body FROM fold WHERE session = ?1")?
        .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let seq = head.as_ref().map_or(0, |(seq, _)| *seq);
    let tail = pieces::tail(&transaction, session, seq)?;
    let stored = StoredFold { head: head.map(|(_, body)| body), pieces: BTreeMap::new(), tail };
    let state = match stored.state() {
        Ok(state) => state,
        Err(problem) => return Ok(Err(problem)),
    };
    let fold = FoldRows { connection: &transaction, session, seq };
    let parts = match Parts::read(&fold, wanted, state.counters.items)? {
        Ok(parts) => parts,
        Err(problem) => return Ok(Err(problem)),
    };
    let events =
        stored.lines_after(state.seq).map(|line| Event::from_json(line).map_err(|error| damaged(&error)));
    let tail: Vec<Event> = match events.collect() {
        Ok(tail) => tail,
        Err(problem) => return Ok(Err(problem)),
    };
    let mut expected = (state.seq.next().0..).zip(&tail);
    if let Some((missing, _)) = expected.find(|(number, event)| event.seq.0 != *number) {
        return Ok(Err(damaged(&format!("event {missing} is missing"))));
    }
    Ok(Ok(parts.into_window(state, tail)))
}

/// The rows of one stored fold. Rows that are ahead of the fold are left out: they are rebuilt from the
/// events.
struct FoldRows<'a> {
    connection: &'a Connection,
    session: i64,
    seq: i64,
}

/// The ordinal and the body of a row. Rows of one kind are in the order in which their things began.
type PieceRow = (i64, String);

impl FoldRows<'_> {
    fn one(&self, kind: PieceKind, id: &str) -> rusqlite::Result<Option<PieceRow>> {
        let mut query = self.connection.prepare_cached(
            "SELECT ordinal, body FROM piece WHERE session = ?1 AND kind = ?2 AND id = ?4 AND seq <= ?3",
        )?;
        let values = params![self.session, kind as i64, self.seq, id];
        query.query_row(values, |row| Ok((row.get(0)?, row.get(1)?))).optional()
    }

    /// Calls `each` with the rows in `from..end`, newest first, until it returns false.
    fn backwards(
        &self,
        kind: PieceKind,
        (from, end): (i64, i64),
        mut each: impl FnMut(PieceRow) -> rusqlite::Result<bool>,
    ) -> rusqlite::Result<()> {
        let mut query = self.connection.prepare_cached(
            "SELECT ordinal, body FROM piece WHERE session = ?1 AND kind = ?2 AND seq <= ?3
             AND ordinal >= ?4 AND ordinal < ?5 ORDER BY ordinal DESC",
        )?;
        let mut rows = query.query(params![self.session, kind as i64, self.seq, from, end])?;
        while let Some(row) = rows.next()? {
            if !each((row.get(0)?, row.get(1)?))? {
                break;
            }
        }
        Ok(())
    }

    /// The position after the last item with a lower number, for an item that has no row any more.
    fn place_of(&self, number: u64) -> rusqlite::Result<i64> {
        let mut span = self.connection.prepare_cached(
            "SELECT (SELECT ordinal FROM piece WHERE session = ?1 AND kind = ?2 ORDER BY ordinal LIMIT 1),
                    (SELECT ordinal FROM piece WHERE session = ?1 AND kind = ?2 ORDER BY ordinal DESC LIMIT 1)",
        )?;
        let kind = PieceKind::Item as i64;
        let (first, last): (Option<i64>, Option<i64>) =
            span.query_row([self.session, kind], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (mut low, mut high) = (first.unwrap_or(0), last.map_or(0, |last| last + 1));
        let mut at = self.connection.prepare_cached(
            "SELECT ordinal, id FROM piece WHERE session = ?1 AND kind = ?2 AND ordinal >= ?3 ORDER BY ordinal LIMIT 1",
        )?;
        while low < high {
            let middle = low + (high - low) / 2;
            let row: Option<(i64, String)> = at
                .query_row([self.session, kind, middle], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            match row {
                Some((ordinal, id)) if ordinal < high && number_of(&id).is_none_or(|its| its < number) => {
                    low = ordinal + 1;
                }
                _ => high = middle,
            }
        }
        Ok(low)
    }
}

/// What was read for a window, newest first.
#[derive(Default)]
struct Parts {
    items: Vec<Item>,
    turns: Vec<Turn>,
    prompts: Vec<Prompt>,
    /// The newest turn, if it is not among `turns`.
    newest: Option<Turn>,
    bytes: usize,
    reach: Option<Reach>,
    until: Option<TurnId>,
    more: bool,
}

impl Parts {
    fn read(
        fold: &FoldRows<'_>,
        wanted: &WindowQuery,
        started: u64,
    ) -> rusqlite::Result<Result<Self, String>> {
        let mut parts = Self::default();
        let mut end = i64::MAX;
        let mut turns_end = Some(i64::MAX);
        if let Some(before) = &wanted.before {
            if let Some((ordinal, body)) = fold.one(PieceKind::Item, before.as_str())? {
                let item: Item = match parsed(&body) {
                    Ok(item) => item,
                    Err(problem) => return Ok(Err(problem)),
                };
                (end, parts.reach, parts.until) = (ordinal, Some(Reach::Stored), item.turn);
                turns_end = match &parts.until {
                    Some(turn) => fold.one(PieceKind::Turn, turn.as_str())?.map(|(place, _)| place + 1),
                    None => None,
                };
            } else if let Some(number) = number_of(before.as_str()).filter(|number| *number <= started) {
                (end, parts.reach, turns_end) = (fold.place_of(number)?, Some(Reach::Stored), None);
            }
        }
        let mut problem = None;
        let mut seen = HashSet::new();
        fold.backwards(PieceKind::Item, (0, end), |(_, body)| {
            let item = match parsed::<Item>(&body) {
                Ok(item) => item,
                Err(error) => {
                    problem = Some(error);
                    return Ok(false);
                }
            };
            if parts.items.len() == wanted.limit || parts.is_full_with(body.len()) {
                parts.more = true;
                return Ok(false);
            }
            parts.bytes += body.len();
            if let Some(turn) = item.turn.as_ref().filter(|turn| seen.insert((*turn).clone()))
                && let Some((place, _)) = fold.one(PieceKind::Turn, turn.as_str())?
                && turns_end.is_none_or(|end| place < end)
            {
                // If the requested item has no row, the turns begin with the turn of the first item.
                problem = parts.turns_between(fold, place, turns_end.unwrap_or(place + 1))?;
                turns_end = Some(place);
            }
            parts.items.push(item);
            Ok(problem.is_none())
        })?;
        if problem.is_none() && !parts.more {
            problem = parts.turns_between(fold, 0, turns_end.unwrap_or(0))?;
        }
        if problem.is_none() {
            problem = parts.newest_turn(fold)?;
        }
        Ok(problem.map_or(Ok(parts), Err))
    }

    fn is_full_with(&self, bytes: usize) -> bool {
        !self.items.is_empty() && self.bytes + bytes > PAGE_BYTES
    }

    /// Adds the turns of these rows with their prompts. Returns what is damaged, if anything.
    fn turns_between(
        &mut self,
        fold: &FoldRows<'_>,
        from: i64,
        end: i64,
    ) -> rusqlite::Result<Option<String>> {
        let mut bodies = Vec::new();
        fold.backwards(PieceKind::Turn, (from, end), |(_, body)| {
            bodies.push(body);
            Ok(bodies.len() < MOST_TURNS)
        })?;
        for body in bodies {
            let turn: Turn = match parsed(&body) {
                Ok(turn) => turn,
                Err(problem) => return Ok(Some(problem)),
            };
            self.bytes += body.len();
            for prompt in turn.prompts.iter().rev() {
                if let Some(problem) = self.prompt(fold, prompt)? {
                    return Ok(Some(problem));
                }
            }
            self.turns.push(turn);
        }
        Ok(None)
    }

    fn prompt(&mut self, fold: &FoldRows<'_>, id: &PromptId) -> rusqlite::Result<Option<String>> {
        // A prompt without an outcome is in the head of the fold.
        let Some((_, body)) = fold.one(PieceKind::Prompt, id.as_str())? else { return Ok(None) };
        self.bytes += body.len();
        Ok(match parsed(&body) {
            Ok(prompt) => {
                self.prompts.push(prompt);
                None
            }
            Err(problem) => Some(problem),
        })
    }

    fn newest_turn(&mut self, fold: &FoldRows<'_>) -> rusqlite::Result<Option<String>> {
        let mut newest = None;
        fold.backwards(PieceKind::Turn, (0, i64::MAX), |(_, body)| {
            newest = Some(body);
            Ok(false)
        })?;
        let Some(body) = newest else { return Ok(None) };
        Ok(match parsed::<Turn>(&body) {
            Ok(turn) => {
                let is_there = self.turns.iter().any(|known| known.turn == turn.turn);
                self.newest = (!is_there).then_some(turn);
                None
            }
            Err(problem) => Some(problem),
        })
    }

    fn into_window(self, state: State, tail: Vec<Event>) -> Window {
        let Self { mut items, mut turns, mut prompts, newest, bytes: _, reach, until, more } = self;
        items.reverse();
        turns.reverse();
        turns.extend(newest);
        prompts.reverse();
        let state = State { items, turns, prompts, ..state };
        Window { state, tail, reach: reach.unwrap_or(Reach::Newest), until, more }
    }
}

fn parsed<T: DeserializeOwned>(body: &str) -> Result<T, String> {
    serde_json::from_str(body).map_err(|error| damaged(&error))
}
