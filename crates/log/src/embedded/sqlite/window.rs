//! Reads a window of a stored fold, row by row from its newest item. The cost depends on the page and on the
//! events after the fold, not on the length of the session.

use super::pieces;
use crate::error::DamagedJson;
use crate::page::{MOST_TURNS, MOST_WAITS, PAGE_BYTES, Reach, Window, WindowQuery, number_of};
use crate::projection::PieceKind;
use crate::stored_fold::{DamagedFold, StoredFold, decode_line};
use rusqlite::{Connection, OptionalExtension, params};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, HashSet};
use turnstream_model::cursor::Seq;
use turnstream_model::event::Event;
use turnstream_model::fold::{Approval, Asked, Item, Prompt, State, Turn};
use turnstream_model::id::{PromptId, TurnId};
use turnstream_model::time::Time;

/// Why a window cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FoldError {
    /// The database failed.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    /// The stored fold is damaged; the events still have everything.
    #[error(transparent)]
    Damaged(#[from] DamagedFold),
}

/// Reads the window and the events after the fold in one transaction.
pub(super) fn read(connection: &Connection, session: i64, wanted: &WindowQuery) -> Result<Window, FoldError> {
    let transaction = connection.unchecked_transaction()?;
    let head: Option<(i64, String)> = transaction
        .prepare_cached("SELECT seq, body FROM fold WHERE session = ?1")?
        .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let seq = head.as_ref().map_or(0, |(seq, _)| *seq);
    let tail = pieces::tail(&transaction, session, seq)?;
    let stored = StoredFold { head: head.map(|(_, body)| body), pieces: BTreeMap::new(), tail };
    let state = stored.state()?;
    let fold = FoldRows { connection: &transaction, session, seq };
    let parts = Parts::read(&fold, wanted, state.counters.items)?;
    let numbered = (state.seq.next().0..).zip(stored.lines_after(state.seq));
    let events = numbered.map(|(seq, line)| decode_line(Seq(seq), line));
    let tail = events.collect::<Result<Vec<Event>, _>>()?;
    let mut expected = (state.seq.next().0..).zip(&tail);
    if let Some((missing, _)) = expected.find(|(number, event)| event.seq.0 != *number) {
        return Err(DamagedFold::Missing(Seq(missing)).into());
    }
    Ok(parts.into_window(state, tail))
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
        mut each: impl FnMut(PieceRow) -> Result<bool, FoldError>,
    ) -> Result<(), FoldError> {
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
    fn place_of(&self, number: u64) -> Result<i64, FoldError> {
        self.place_where(PieceKind::Item, |id, _| Ok(number_of(id).is_none_or(|its| its < number)))
    }

    /// The position after the last thing of this kind that began until this time.
    fn place_after(&self, kind: PieceKind, time: Time) -> Result<i64, FoldError> {
        self.place_where(kind, |_, body| Ok(parsed::<Begun>(body)?.time <= time))
    }

    /// The first position of which this is false; it is true of all positions before that.
    fn place_where(
        &self,
        kind: PieceKind,
        is_before: impl Fn(&str, &str) -> Result<bool, DamagedFold>,
    ) -> Result<i64, FoldError> {
        let mut span = self.connection.prepare_cached(
            "SELECT (SELECT ordinal FROM piece WHERE session = ?1 AND kind = ?2 ORDER BY ordinal LIMIT 1),
                    (SELECT ordinal FROM piece WHERE session = ?1 AND kind = ?2 ORDER BY ordinal DESC LIMIT 1)",
        )?;
        let kind = kind as i64;
        let (first, last): (Option<i64>, Option<i64>) =
            span.query_row([self.session, kind], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (mut low, mut high) = (first.unwrap_or(0), last.map_or(0, |last| last + 1));
        let mut at = self.connection.prepare_cached(
            "SELECT ordinal, id, body FROM piece WHERE session = ?1 AND kind = ?2 AND ordinal >= ?3
             ORDER BY ordinal LIMIT 1",
        )?;
        while low < high {
            let middle = low + (high - low) / 2;
            let row: Option<(i64, String, String)> = at
                .query_row([self.session, kind, middle], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                .optional()?;
            match row {
                Some((ordinal, id, body)) if ordinal < high && is_before(&id, &body)? => low = ordinal + 1,
                _ => high = middle,
            }
        }
        Ok(low)
    }
}

/// When an approval or a question began.
#[derive(Deserialize)]
struct Begun {
    time: Time,
}

/// What was read for a window, newest first.
#[derive(Default)]
struct Parts {
    items: Vec<Item>,
    turns: Vec<Turn>,
    prompts: Vec<Prompt>,
    approvals: Vec<Approval>,
    questions: Vec<Asked>,
    /// The newest turn, if it is not among `turns`.
    newest: Option<Turn>,
    bytes: usize,
    reach: Option<Reach>,
    until: Option<TurnId>,
    more: bool,
}

impl Parts {
    fn read(fold: &FoldRows<'_>, wanted: &WindowQuery, started: u64) -> Result<Self, FoldError> {
        let mut parts = Self::default();
        let mut end = i64::MAX;
        let mut turns_end = Some(i64::MAX);
        if let Some(before) = &wanted.before {
            if let Some((ordinal, body)) = fold.one(PieceKind::Item, before.as_str())? {
                let item: Item = parsed(&body)?;
                (end, parts.reach, parts.until) = (ordinal, Some(Reach::Stored), item.turn);
                turns_end = match &parts.until {
                    Some(turn) => fold.one(PieceKind::Turn, turn.as_str())?.map(|(place, _)| place + 1),
                    None => None,
                };
            } else if let Some(number) = number_of(before.as_str()).filter(|number| *number <= started) {
                (end, parts.reach, turns_end) = (fold.place_of(number)?, Some(Reach::Stored), None);
            }
        }
        let mut seen = HashSet::new();
        fold.backwards(PieceKind::Item, (0, end), |(_, body)| {
            let item: Item = parsed(&body)?;
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
                parts.turns_between(fold, place, turns_end.unwrap_or(place + 1))?;
                turns_end = Some(place);
            }
            parts.items.push(item);
            Ok(true)
        })?;
        if !parts.more {
            parts.turns_between(fold, 0, turns_end.unwrap_or(0))?;
        }
        parts.newest_turn(fold)?;
        if wanted.before.is_none() {
            parts.approvals = newest_waits(fold, PieceKind::Approval, i64::MAX)?;
            parts.questions = newest_waits(fold, PieceKind::Question, i64::MAX)?;
        } else if !parts.turns.is_empty() {
            // Those of these turns began before the last of them ended, unless one is still open.
            let ends: Option<Vec<Time>> = parts.turns.iter().map(|turn| turn.ended).collect();
            let end = ends.and_then(|ends| ends.into_iter().max());
            parts.approvals = waits_until(fold, PieceKind::Approval, end)?;
            parts.questions = waits_until(fold, PieceKind::Question, end)?;
        }
        Ok(parts)
    }

    fn is_full_with(&self, bytes: usize) -> bool {
        !self.items.is_empty() && self.bytes + bytes > PAGE_BYTES
    }

    /// Adds the turns of these rows with their prompts.
    fn turns_between(&mut self, fold: &FoldRows<'_>, from: i64, end: i64) -> Result<(), FoldError> {
        let mut bodies = Vec::new();
        fold.backwards(PieceKind::Turn, (from, end), |(_, body)| {
            bodies.push(body);
            Ok(bodies.len() < MOST_TURNS)
        })?;
        for body in bodies {
            let turn: Turn = parsed(&body)?;
            self.bytes += body.len();
            for prompt in turn.prompts.iter().rev() {
                self.prompt(fold, prompt)?;
            }
            self.turns.push(turn);
        }
        Ok(())
    }

    fn prompt(&mut self, fold: &FoldRows<'_>, id: &PromptId) -> Result<(), FoldError> {
        // A prompt without an outcome is in the head of the fold.
        let Some((_, body)) = fold.one(PieceKind::Prompt, id.as_str())? else { return Ok(()) };
        self.bytes += body.len();
        self.prompts.push(parsed(&body)?);
        Ok(())
    }

    fn newest_turn(&mut self, fold: &FoldRows<'_>) -> Result<(), FoldError> {
        let mut newest = None;
        fold.backwards(PieceKind::Turn, (0, i64::MAX), |(_, body)| {
            newest = Some(body);
            Ok(false)
        })?;
        let Some(body) = newest else { return Ok(()) };
        let turn: Turn = parsed(&body)?;
        let is_there = self.turns.iter().any(|known| known.turn == turn.turn);
        self.newest = (!is_there).then_some(turn);
        Ok(())
    }

    fn into_window(self, state: State, tail: Vec<Event>) -> Window {
        let Self {
            mut items,
            mut turns,
            mut prompts,
            mut approvals,
            mut questions,
            newest,
            bytes: _,
            reach,
            until,
            more,
        } = self;
        items.reverse();
        approvals.reverse();
        questions.reverse();
        turns.reverse();
        turns.extend(newest);
        prompts.reverse();
        let state = State { items, turns, prompts, approvals, questions, ..state };
        Window { state, tail, reach: reach.unwrap_or(Reach::Newest), until, more }
    }
}

/// The newest approvals or questions that began until this time, newest first. Without a time, of all.
fn waits_until<T: DeserializeOwned>(
    fold: &FoldRows<'_>,
    kind: PieceKind,
    until: Option<Time>,
) -> Result<Vec<T>, FoldError> {
    let end = match until {
        Some(until) => fold.place_after(kind, until)?,
        None => i64::MAX,
    };
    newest_waits(fold, kind, end)
}

/// The newest approvals or questions before this place, newest first.
fn newest_waits<T: DeserializeOwned>(
    fold: &FoldRows<'_>,
    kind: PieceKind,
    end: i64,
) -> Result<Vec<T>, FoldError> {
    let mut waits = Vec::new();
    fold.backwards(kind, (0, end), |(_, body)| {
        waits.push(parsed(&body)?);
        Ok(waits.len() < MOST_WAITS)
    })?;
    Ok(waits)
}

fn parsed<T: DeserializeOwned>(body: &str) -> Result<T, DamagedFold> {
    Ok(serde_json::from_str(body).map_err(DamagedJson::from)?)
}
