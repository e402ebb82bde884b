//! The fold of a session at its head: what is stored, with every event after it on top. Never stale by one event.

use crate::committed::Committed;
use crate::error::ReadError;
use crate::health::Health;
use crate::log::{Inner, Log, lines};
use crate::projection::assemble;
use crate::session::Session;
use crate::sqlite::Stored;
use turnstream_model::cursor::Seq;
use turnstream_model::fold::{Fold, Item, ItemStage, Snapshot, State};
use turnstream_model::id::SessionId;

/// Which messages are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Also those that are being written, with their state: for a person who looks now.
    All,
    /// Only whole ones: for search, export and the next prompt (L10).
    Finished,
}

/// How often a reader looks again when events left memory between its two looks.
const LOOKS: usize = 8;

impl Log {
    /// What the session is at its head.
    pub fn snapshot(&self, id: &SessionId) -> Result<Snapshot, ReadError> {
        let session = self.find(id)?;
        let mut state = self.inner().state(&session)?;
        state.degraded |= self.health() != Health::Sound;
        Ok(Snapshot { generation: session.generation.clone(), state })
    }

    /// The items of the session, in the order in which they started.
    pub fn items(&self, id: &SessionId, which: Which) -> Result<Vec<Item>, ReadError> {
        let session = self.find(id)?;
        let mut items = self.inner().state(&session)?.items;
        if which == Which::Finished {
            items.retain(|item| {
                matches!(item.state, ItemStage::Completed | ItemStage::Failed) && !item.incomplete
            });
        }
        Ok(items)
    }
}

impl Inner {
    fn fold_events(&self, session: &Session) -> Result<Fold, ReadError> {
        const AT_ONCE: usize = 1 << 20;
        let mut fold = Fold::new();
        let head = session.head();
        while fold.state().seq < head {
            let events = self.read_some(session, fold.state().seq.next(), AT_ONCE)?;
            apply(&mut fold, &events).map_err(ReadError::Store)?;
        }
        Ok(fold)
    }

    fn state(&self, session: &Session) -> Result<State, ReadError> {
        for _ in 0..LOOKS {
            let stored =
                self.readers().stored(session.key).map_err(|error| ReadError::Store(error.to_string()))?;
            // A fold is only a shorter way to what the events say: without it they are read from the first on.
            let mut fold = match fold_of(stored) {
                Ok(fold) => fold,
                Err(_) => self.fold_events(session)?,
            };
            if fold.state().seq >= session.head() {
                return Ok(fold.into_state());
            }
            // What is not in the database is in memory, unless it was settled and left between the two looks.
            if let Some(events) = session.recent_from(fold.state().seq.next(), usize::MAX) {
                apply(&mut fold, &events).map_err(ReadError::Store)?;
                return Ok(fold.into_state());
            }
        }
        Err(ReadError::Missing { session: session.id.to_string(), seq: Seq(0), head: session.head() })
    }
}

/// The fold of what is in the database.
fn fold_of(stored: Stored) -> Result<Fold, String> {
    let state = match &stored.head {
        Some(head) => {
            assemble(head, &stored.pieces).map_err(|error| format!("a stored fold is damaged: {error}"))?
        }
        None => State::default(),
    };
    let mut fold = Fold::from(state);
    for (first, data) in stored.tail {
        let from = fold.state().seq.next();
        apply(&mut fold, &lines(first, data, from))?;
    }
    Ok(fold)
}

fn apply(fold: &mut Fold, events: &[Committed]) -> Result<(), String> {
    for event in events {
        let event = event.event().map_err(|error| format!("a stored event is damaged: {error}"))?;
        fold.apply(&event);
    }
    Ok(())
}
