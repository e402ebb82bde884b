//! A gate through which every search passes, so that searches can be interrupted.
//!
//! A search reads one snapshot of the database for up to a second, and SQLite cannot truncate its write-ahead
//! log while a reader uses it. A client that reads one page after another could block that for ever: removed
//! data would stay in the log, and the log would grow. When the gate closes, running searches end with what
//! they have found so far, and new ones wait until it opens.

use crate::search::budget::SearchBudget;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long to wait for running searches to end. They check often, but not in the middle of a text.
const LEAVING: Duration = Duration::from_millis(250);
/// How long a search waits at a closed gate before it enters anyway.
const OUTSIDE: Duration = Duration::from_millis(500);

/// The gate of all searches.
#[derive(Default)]
pub(super) struct SearchGate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The number of callers that keep the gate closed.
    closed: usize,
    inside: Vec<Arc<SearchBudget>>,
}

/// A running search.
pub(super) struct SearchGuard<'a> {
    gate: &'a SearchGate,
    budget: Arc<SearchBudget>,
}

/// Keeps the gate closed until it is dropped.
pub(crate) struct ClosedGate<'a> {
    gate: &'a SearchGate,
}

impl SearchGate {
    /// Enters, after a bounded wait. When the gate closes, the budget of the search is used up.
    pub(super) fn enter(&self, budget: &Arc<SearchBudget>) -> SearchGuard<'_> {
        let waiting = self.changed.wait_timeout_while(self.lock(), OUTSIDE, |state| state.closed > 0);
        let (mut state, _) = waiting.unwrap_or_else(PoisonError::into_inner);
        state.inside.push(Arc::clone(budget));
        SearchGuard { gate: self, budget: Arc::clone(budget) }
    }

    /// Closes the gate: interrupts the running searches, and waits a bounded time for them to end.
    pub(super) fn close(&self) -> ClosedGate<'_> {
        let mut state = self.lock();
        state.closed += 1;
        state.inside.iter().for_each(|budget| budget.cut_short());
        // A search that is still running blocks the checkpoint, which then reports it.
        drop(self.changed.wait_timeout_while(state, LEAVING, |state| !state.inside.is_empty()));
        ClosedGate { gate: self }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SearchGuard<'_> {
    fn drop(&mut self) {
        self.gate.lock().inside.retain(|inside| !Arc::ptr_eq(inside, &self.budget));
        self.gate.changed.notify_all();
    }
}

impl Drop for ClosedGate<'_> {
    fn drop(&mut self) {
        self.gate.lock().closed -= 1;
        self.gate.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{read::Readers, schema};
    use super::*;
    use rusqlite::Connection;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Instant;

    /// A limit for hanging tests.
    const PATIENCE: Duration = Duration::from_secs(300);

    /// Reads one snapshot of the database until it is interrupted, like a search that finds nothing.
    fn look(readers: &Readers, connection: &Connection, is_over: &AtomicBool) {
        let budget = Arc::new(SearchBudget::of_asking(u64::MAX));
        let _inside = readers.gate().enter(&budget);
        let transaction = connection.unchecked_transaction().unwrap();
        let _: i64 = transaction.query_row("SELECT count(*) FROM meta", [], |row| row.get(0)).unwrap();
        let begun = Instant::now();
        while !budget.is_spent() && !is_over.load(Ordering::Relaxed) {
            assert!(begun.elapsed() < PATIENCE, "nobody asked it to leave");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn searches_without_a_pause_do_not_keep_sqlites_own_log_from_being_emptied() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.db");
        let mut database = schema::open(&path).unwrap().database;
        let (readers, is_over) = (Readers::new(&path), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let connection = Connection::open(&path).unwrap();
                    while !is_over.load(Ordering::Relaxed) {
                        look(&readers, &connection, &is_over);
                    }
                });
            }
            // Each time, something was written and all searches have read it.
            for serial in 1..=5 {
                database.mark_flushed(serial).unwrap();
                thread::sleep(Duration::from_millis(20));
                let begun = Instant::now();
                while !database.empty_log_of(&readers).unwrap() {
                    assert!(begun.elapsed() < PATIENCE, "somebody is always in the way");
                }
            }
            let log = directory.path().join("log.db-wal");
            let bytes = || std::fs::metadata(&log).unwrap().len();
            database.mark_flushed(6).unwrap();
            let is = bytes();
            database.keep_log_below(is + 1, &readers).unwrap();
            assert_eq!(bytes(), is, "it is small enough");
            let begun = Instant::now();
            while bytes() > 0 {
                database.keep_log_below(is, &readers).unwrap();
                assert!(begun.elapsed() < PATIENCE, "somebody is always in the way");
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
