//! The sessions in use: one shared object per session.

use crate::error::ReadError;
use crate::session::Session;
use crate::store::{SessionRecord, Store};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use turnstream_model::cursor::Seq;
use turnstream_model::id::SessionId;

/// Fewer entries than this are not swept.
const FEW: usize = 64;

/// The sessions in use. Appenders, followers, commits and the flush queue all hold their session, so the
/// store has every event of a session that is not in here.
#[derive(Default)]
pub(crate) struct Sessions {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    by_id: HashMap<SessionId, Weak<Session>>,
    /// The number of entries at which unused ones are removed.
    sweep_at: usize,
    /// The log is closed: nothing is published any more.
    ended: bool,
}

impl Sessions {
    /// The session, from memory or else from the store.
    pub(crate) fn find(&self, id: &SessionId, store: &dyn Store) -> Result<Arc<Session>, ReadError> {
        // Locked during the whole lookup, so that two callers get the same object.
        let mut state = self.lock();
        if let Some(session) = state.get(id) {
            return Ok(session);
        }
        let known = store.session(id)?.ok_or_else(|| ReadError::Unknown(id.to_string()))?;
        Ok(state.add(id, &known))
    }

    /// The session, if it is in memory.
    pub(crate) fn in_use(&self, id: &SessionId) -> Option<Arc<Session>> {
        self.lock().get(id)
    }

    /// Another process has committed to this session. Its followers here are woken.
    pub(crate) fn advance_head(&self, id: &SessionId, head: Seq) {
        if let Some(session) = self.lock().get(id) {
            session.advance_head(head);
        }
    }

    /// Every session in use.
    pub(crate) fn live(&self) -> Vec<Arc<Session>> {
        self.lock().by_id.values().filter_map(Weak::upgrade).collect()
    }

    /// Ends all followers, including those that are created later.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        for session in state.by_id.values().filter_map(Weak::upgrade) {
            session.end();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic leaves the state unchanged.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn get(&self, id: &SessionId) -> Option<Arc<Session>> {
        // A deleted session makes room for a new one with the same id.
        self.by_id.get(id).and_then(Weak::upgrade).filter(|session| !session.is_deleted())
    }

    fn add(&mut self, id: &SessionId, known: &SessionRecord) -> Arc<Session> {
        if self.by_id.len() >= self.sweep_at {
            self.by_id.retain(|_, session| session.strong_count() > 0);
            self.sweep_at = (2 * self.by_id.len()).max(FEW);
        }
        let session = Arc::new(Session::new(id, known));
        if self.ended {
            session.end();
        }
        self.by_id.insert(id.clone(), Arc::downgrade(&session));
        session
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::Shared;

    #[test]
    fn a_session_leaves_when_nobody_has_it_and_is_never_there_twice() {
        let (sessions, shared) = (Sessions::default(), Shared::default());
        let store = shared.reader();
        let name = |number: usize| SessionId::from(format!("s{number}"));
        for number in 0..1_000 {
            shared.make(&name(number));
        }
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let one = sessions.find(&name(0), &store).unwrap();
                        let other = sessions.find(&name(0), &store).unwrap();
                        assert!(Arc::ptr_eq(&one, &other));
                    }
                });
            }
        });
        let held = sessions.find(&name(0), &store).unwrap();
        sessions.advance_head(&name(0), Seq(7));
        for number in 1..1_000 {
            sessions.find(&name(number), &store).unwrap();
        }
        assert!(sessions.lock().by_id.len() <= 2 * FEW, "those that nobody has are gone");
        assert_eq!(held.head(), Seq(7), "the one in use is not");
        assert!(Arc::ptr_eq(&held, &sessions.find(&name(0), &store).unwrap()));
    }
}
