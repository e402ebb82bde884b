//! The sessions in use: one object each, however many look for it.

use crate::error::ReadError;
use crate::session::Session;
use crate::sqlite::{Known, Readers};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::id::SessionId;

/// Sessions in use.
#[derive(Default)]
pub(crate) struct Sessions {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    by_id: HashMap<String, Arc<Session>>,
    /// Nothing is published any more.
    ended: bool,
}

impl Sessions {
    /// The session, from memory or from the database.
    pub(crate) fn find(&self, id: &str, readers: &Readers) -> Result<Arc<Session>, ReadError> {
        // Held throughout, so that two callers get the same one.
        let mut state = self.lock();
        if let Some(session) = state.by_id.get(id) {
            return Ok(session.clone());
        }
        let found = readers.session(id).map_err(|error| ReadError::Store(error.to_string()))?;
        let Some(Known { key, generation, epoch, head }) = found else {
            return Err(ReadError::Unknown(id.to_owned()));
        };
        let generation = Generation::new(generation).map_err(|error| ReadError::Store(error.to_string()))?;
        Ok(state.add(Session::new(SessionId::from(id), key, generation, epoch, Seq(head))))
    }

    /// Adds a session that was just made, and returns the one there is.
    pub(crate) fn add(&self, session: Session) -> Arc<Session> {
        self.lock().add(session)
    }

    /// Lets go of those that nobody uses. Appenders, followers, commits and what is not settled all hold theirs, so what
    /// the database has of the others is all there is; and they can only be had from here, where it is locked.
    pub(crate) fn sweep(&self) {
        self.lock().by_id.retain(|_, session| Arc::strong_count(session) > 1);
    }

    /// Nothing is published any more: tells every follower, and those that come.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        for session in state.by_id.values() {
            session.end();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic leaves it as it was before the call that panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, session: Session) -> Arc<Session> {
        if self.ended {
            session.end();
        }
        self.by_id.entry(session.id.to_string()).or_insert_with(|| Arc::new(session)).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_session_leaves_when_nobody_has_it_and_is_never_there_twice() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.db");
        sqlite::open(&path).unwrap().store.create("s", "g1").unwrap();
        let (sessions, readers) = (Sessions::default(), Readers::new(&path));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    sessions.sweep();
                }
            });
            let finders: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..2_000 {
                            let one = sessions.find("s", &readers).unwrap();
                            let other = sessions.find("s", &readers).unwrap();
                            assert!(Arc::ptr_eq(&one, &other));
                        }
                    })
                })
                .collect();
            for finder in finders {
                finder.join().unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        let held = sessions.find("s", &readers).unwrap();
        sessions.sweep();
        assert_eq!(sessions.lock().by_id.len(), 1);
        drop(held);
        sessions.sweep();
        assert!(sessions.lock().by_id.is_empty());
    }
}
