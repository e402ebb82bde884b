//! Stored content that search cannot find yet: sessions whose fold lags after a crash, and rows that are
//! older than the index.

use super::sqlite::Readers;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tracing::info;

/// The backlog of the index. The flusher works on it between flushes; searches report it as `is_indexing`.
pub(crate) struct IndexBacklog {
    state: Mutex<State>,
}

struct State {
    /// Keys and epochs of sessions whose fold lags.
    behind: Vec<(i64, u64)>,
    is_unindexed: bool,
    /// A task was handed out and is not done yet.
    is_under_way: bool,
}

/// The next task.
pub(crate) enum BacklogTask {
    Nothing,
    /// A session whose fold lags.
    Session {
        key: i64,
        epoch: u64,
    },
    /// Rows that are older than the index.
    Rows,
}

impl IndexBacklog {
    /// Reads the backlog from the database.
    pub(crate) fn find(readers: &Readers) -> rusqlite::Result<Self> {
        let (behind, is_unindexed) = (readers.behind()?, readers.is_unindexed()?);
        if !behind.is_empty() || is_unindexed {
            info!(
                sessions = behind.len(),
                rows = is_unindexed,
                "the search index is behind; it is being completed"
            );
        }
        Ok(Self { state: Mutex::new(State { behind, is_unindexed, is_under_way: false }) })
    }

    /// The next task. Calling this says that the previous one is done.
    pub(crate) fn next(&self) -> BacklogTask {
        let mut state = self.lock();
        state.is_under_way = true;
        // Sessions first: they were used most recently.
        if let Some((key, epoch)) = state.behind.pop() {
            return BacklogTask::Session { key, epoch };
        }
        if state.is_unindexed {
            return BacklogTask::Rows;
        }
        state.is_under_way = false;
        BacklogTask::Nothing
    }

    /// The session was deleted and need not be indexed.
    pub(crate) fn forget(&self, key: i64) {
        self.lock().behind.retain(|(behind, _)| *behind != key);
    }

    /// Some rows were indexed; `more`: there are others.
    pub(crate) fn rows_indexed(&self, more: bool) {
        self.lock().is_unindexed = more;
    }

    /// True if search finds everything that is flushed.
    pub(crate) fn is_done(&self) -> bool {
        let state = self.lock();
        state.behind.is_empty() && !state.is_unindexed && !state.is_under_way
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is a single step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
