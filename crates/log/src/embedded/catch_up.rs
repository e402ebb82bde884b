//! What is stored and cannot be found yet: sessions whose fold is behind after a crash, and what was there before the index.

use super::sqlite::Readers;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is left to file. The settler does it beside its other work; searches say that it is not done.
pub(crate) struct CatchUp {
    state: Mutex<State>,
}

struct State {
    /// Their keys and epochs.
    behind: Vec<(i64, u64)>,
    is_unindexed: bool,
    /// One of the two has been handed out and is not filed yet.
    is_under_way: bool,
}

/// What is to be filed next.
pub(crate) enum Left {
    Nothing,
    /// A session whose fold is behind.
    Session {
        key: i64,
        epoch: u64,
    },
    /// Rows that were there before the index.
    Rows,
}

impl CatchUp {
    /// Looks for it.
    pub(crate) fn find(readers: &Readers) -> rusqlite::Result<Self> {
        let (behind, is_unindexed) = (readers.behind()?, readers.is_unindexed()?);
        Ok(Self { state: Mutex::new(State { behind, is_unindexed, is_under_way: false }) })
    }

    /// The next piece of work. Asking for it says that the one before is done.
    pub(crate) fn next(&self) -> Left {
        let mut state = self.lock();
        state.is_under_way = true;
        // Sessions first: they were in use last.
        if let Some((key, epoch)) = state.behind.pop() {
            return Left::Session { key, epoch };
        }
        if state.is_unindexed {
            return Left::Rows;
        }
        state.is_under_way = false;
        Left::Nothing
    }

    /// That session is deleted: nothing of it is to be filed.
    pub(crate) fn forget(&self, key: i64) {
        self.lock().behind.retain(|(behind, _)| *behind != key);
    }

    /// A step of rows was filed.
    pub(crate) fn filed(&self, more: bool) {
        self.lock().is_unindexed = more;
    }

    /// True when everything that is settled can be found.
    pub(crate) fn is_done(&self) -> bool {
        let state = self.lock();
        state.behind.is_empty() && !state.is_unindexed && !state.is_under_way
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of it is one step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
