//! A stored fold as rows, and how it is assembled.

use crate::error::{DamagedEvent, DamagedJson};
use crate::projection::PieceKind;
use std::collections::BTreeMap;
use turnstream_model::cursor::Seq;
use turnstream_model::event::Event;
use turnstream_model::fold::{Applied, Fold, State};

/// Why a stored fold cannot be used. It is a shortcut: the events have everything it says.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DamagedFold {
    /// A row is not the JSON it should be.
    #[error("what is stored of a session is damaged: {0}")]
    Row(#[from] DamagedJson),
    /// An event after the fold cannot be decoded.
    #[error("what is stored of a session is damaged: {0}")]
    Event(#[from] DamagedEvent),
    /// An event after the fold is missing.
    #[error("what is stored of a session is damaged: event {0} is missing")]
    Missing(Seq),
}

/// A stored fold and the events after it, read at one moment.
pub(crate) struct StoredFold {
    /// The state without its lists.
    pub(crate) head: Option<String>,
    /// The members of its lists, in the order in which they were first written.
    pub(crate) pieces: BTreeMap<PieceKind, Vec<String>>,
    /// Rows of events after the fold, each with the seq of its first event. The first row may begin inside
    /// the fold.
    pub(crate) tail: Vec<(u64, String)>,
}

impl StoredFold {
    /// The stored state, or the empty state if there is none.
    pub(crate) fn state(&self) -> Result<State, DamagedFold> {
        let Some(head) = &self.head else { return Ok(State::default()) };
        let head: State = serde_json::from_str(head).map_err(DamagedJson::from)?;
        Ok(State {
            turns: self.list(PieceKind::Turn)?,
            items: self.list(PieceKind::Item)?,
            approvals: self.list(PieceKind::Approval)?,
            questions: self.list(PieceKind::Question)?,
            prompts: self.list(PieceKind::Prompt)?,
            ..head
        })
    }

    /// The fold including the events after it.
    pub(crate) fn fold(&self) -> Result<Fold, DamagedFold> {
        let mut fold = Fold::from(self.state()?);
        for line in self.lines_after(fold.state().seq) {
            let event = decode_line(fold.state().seq.next(), line)?;
            if let Applied::Gap { expected } = fold.apply(&event) {
                return Err(DamagedFold::Missing(expected));
            }
        }
        Ok(fold)
    }

    /// The events after `seq`, one JSON line each.
    pub(crate) fn lines_after(&self, seq: Seq) -> impl Iterator<Item = &str> {
        let numbered = self.tail.iter().flat_map(|(first, data)| (*first..).zip(data.lines()));
        numbered.filter(move |(number, _)| *number > seq.0).map(|(_, line)| line)
    }

    fn list<T: serde::de::DeserializeOwned>(&self, kind: PieceKind) -> Result<Vec<T>, DamagedFold> {
        let bodies = self.pieces.get(&kind).map(Vec::as_slice).unwrap_or_default();
        bodies.iter().map(|body| Ok(serde_json::from_str(body).map_err(DamagedJson::from)?)).collect()
    }
}

/// Decodes a stored line, which should be the event `seq`.
pub(crate) fn decode_line(seq: Seq, line: &str) -> Result<Event, DamagedFold> {
    Event::from_json(line).map_err(|error| DamagedEvent::new(seq, &error).into())
}
