//! A stored fold as rows, and how it is put together again.

use crate::projection::PieceKind;
use std::collections::BTreeMap;
use std::fmt::Display;
use turnstream_model::cursor::Seq;
use turnstream_model::event::Event;
use turnstream_model::fold::{Applied, Fold, State};

/// A stored fold and the events after it, as they were at one moment.
pub(crate) struct Stored {
    /// The state without its lists.
    pub(crate) head: Option<String>,
    /// The members of its lists, in the order in which they were first written.
    pub(crate) pieces: BTreeMap<PieceKind, Vec<String>>,
    /// Rows of events, with the number of the first in each; the first row may begin before the end of the fold.
    pub(crate) tail: Vec<(u64, String)>,
}

impl Stored {
    /// The state that was stored; the empty one when there is none.
    pub(crate) fn state(&self) -> Result<State, String> {
        let Some(head) = &self.head else { return Ok(State::default()) };
        let head: State = serde_json::from_str(head).map_err(|error| damaged(&error))?;
        Ok(State {
            turns: self.list(PieceKind::Turn)?,
            items: self.list(PieceKind::Item)?,
            approvals: self.list(PieceKind::Approval)?,
            questions: self.list(PieceKind::Question)?,
            prompts: self.list(PieceKind::Prompt)?,
            ..head
        })
    }

    /// The fold after all of its events.
    pub(crate) fn fold(&self) -> Result<Fold, String> {
        let mut fold = Fold::from(self.state()?);
        for line in self.lines_after(fold.state().seq) {
            let event = Event::from_json(line).map_err(|error| damaged(&error))?;
            if let Applied::Gap { expected } = fold.apply(&event) {
                return Err(damaged(&format!("event {expected} is missing")));
            }
        }
        Ok(fold)
    }

    /// The events of its tail after that one.
    pub(crate) fn lines_after(&self, seq: Seq) -> impl Iterator<Item = &str> {
        let numbered = self.tail.iter().flat_map(|(first, data)| (*first..).zip(data.lines()));
        numbered.filter(move |(number, _)| *number > seq.0).map(|(_, line)| line)
    }

    fn list<T: serde::de::DeserializeOwned>(&self, kind: PieceKind) -> Result<Vec<T>, String> {
        let bodies = self.pieces.get(&kind).map(Vec::as_slice).unwrap_or_default();
        bodies.iter().map(|body| serde_json::from_str(body).map_err(|error| damaged(&error))).collect()
    }
}

/// What is wrong with a stored fold. It is only a shorter way to what the events say.
pub(crate) fn damaged(error: &dyn Display) -> String {
    format!("what is stored of a session is damaged: {error}")
}
