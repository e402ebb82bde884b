//! Searches hold one state of the database for up to a second, and SQLite's own log cannot be emptied while a reader is in
//! it. Whoever searches one page after the other would be in the way for ever: what was removed would stay in that log, and
//! the log would grow. So searches can be asked to leave. They end with what they have found so far, and others wait
//! outside until they may enter again.

use crate::search::effort::Effort;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long it is waited for searches to leave. They are asked often, but not in the middle of a text.
const LEAVING: Duration = Duration::from_millis(250);
/// How long a search waits outside; then it enters all the same.
const OUTSIDE: Duration = Duration::from_millis(500);

/// What every search goes through.
#[derive(Default)]
pub(super) struct Passage {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// How many want it to be empty.
    closed: usize,
    inside: Vec<Arc<Effort>>,
}

/// A search is inside until this is dropped.
pub(super) struct Inside<'a> {
    passage: &'a Passage,
    effort: Arc<Effort>,
}

/// Nobody enters until this is dropped.
pub(crate) struct Closed<'a> {
    passage: &'a Passage,
}

impl Passage {
    /// Enters, at the latest after a moment. Whoever is asked to leave finds the effort spent.
    pub(super) fn enter(&self, effort: &Arc<Effort>) -> Inside<'_> {
        let waiting = self.changed.wait_timeout_while(self.lock(), OUTSIDE, |state| state.closed > 0);
        let (mut state, _) = waiting.unwrap_or_else(PoisonError::into_inner);
        state.inside.push(Arc::clone(effort));
        Inside { passage: self, effort: Arc::clone(effort) }
    }

    /// Asks all who are inside to leave, and waits a moment until they have.
    pub(super) fn close(&self) -> Closed<'_> {
        let mut state = self.lock();
        state.closed += 1;
        state.inside.iter().for_each(|effort| effort.cut_short());
        // Who is still there then is in the way of what follows, which finds that out itself.
        drop(self.changed.wait_timeout_while(state, LEAVING, |state| !state.inside.is_empty()));
        Closed { passage: self }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.passage.lock().inside.retain(|inside| !Arc::ptr_eq(inside, &self.effort));
        self.passage.changed.notify_all();
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.passage.lock().closed -= 1;
        self.passage.changed.notify_all();
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

    /// How long anything may take here before the test fails; nothing should come near it.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Reads one state of the database until it is asked to leave, as a search does that finds nothing.
    fn look(readers: &Readers, connection: &Connection, is_over: &AtomicBool) {
        let effort = Arc::new(Effort::of_asking(u64::MAX));
        let _inside = readers.passage().enter(&effort);
        let transaction = connection.unchecked_transaction().unwrap();
        let _: i64 = transaction.query_row("SELECT count(*) FROM meta", [], |row| row.get(0)).unwrap();
        let begun = Instant::now();
        while !effort.is_spent() && !is_over.load(Ordering::Relaxed) {
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
            // Each time something was written since, and is read by all.
            for serial in 1..=5 {
                database.settled(serial).unwrap();
                thread::sleep(Duration::from_millis(20));
                let begun = Instant::now();
                while !database.empty_log_of(&readers).unwrap() {
                    assert!(begun.elapsed() < PATIENCE, "somebody is always in the way");
                }
            }
            let log = directory.path().join("log.db-wal");
            let bytes = || std::fs::metadata(&log).unwrap().len();
            database.settled(6).unwrap();
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
