//! The fold of a session at its head: the stored fold plus every later event (L4).

use crate::committed::Committed;
use crate::error::{DamagedEvent, ReadError, StoreFault};
use crate::health::Health;
use crate::log::{Inner, Log};
use crate::session::Session;
use turnstream_model::event::Event;
use turnstream_model::fold::{Applied, Fold, Snapshot, State};
use turnstream_model::id::SessionId;

/// Bytes of events that are folded at a time.
const AT_ONCE: usize = 1 << 20;
/// Retries of a read during which the session was trimmed.
const TRIES: u32 = 8;

impl Log {
    /// The state of the session at its head.
    pub fn snapshot(&self, id: &SessionId) -> Result<Snapshot, ReadError> {
        let session = self.find(id)?;
        let mut state = self.inner().state(&session)?;
        state.degraded |= self.health() != Health::Sound;
        Ok(Snapshot { generation: session.generation.clone(), state })
    }
}

impl Inner {
    pub(crate) fn state(&self, session: &Session) -> Result<State, ReadError> {
        for _ in 1..TRIES {
            // A trim may remove events between the read of the fold and the read of the events after it.
            match self.state_now(session) {
                Err(ReadError::Trimmed { .. }) => {}
                state => return state,
            }
        }
        self.state_now(session)
    }

    fn state_now(&self, session: &Session) -> Result<State, ReadError> {
        if session.is_deleted() {
            return Err(ReadError::Unknown(session.id.to_string()));
        }
        let mut fold = self.store.fold(session.key)?;
        let head = session.head();
        while fold.state().seq < head {
            // From memory, or from the store if they have left memory meanwhile.
            let events = self.read_some(session, fold.state().seq.next(), AT_ONCE)?;
            apply(session, &mut fold, &events)?;
        }
        Ok(fold.into_state())
    }
}

/// Decodes a stored event.
pub(crate) fn decode(event: &Committed) -> Result<Event, ReadError> {
    let damaged = |error| StoreFault::new(DamagedEvent::new(event.seq(), &error));
    event.event().map_err(|error| ReadError::Store(damaged(error)))
}

pub(crate) fn apply(session: &Session, fold: &mut Fold, events: &[Committed]) -> Result<(), ReadError> {
    for event in events {
        let event = decode(event)?;
        match fold.apply(&event) {
            Applied::Yes | Applied::Repeated => {}
            Applied::Gap { expected: seq } => {
                return Err(ReadError::Missing {
                    session: session.id.to_string(),
                    seq,
                    head: session.head(),
                });
            }
        }
    }
    Ok(())
}
