//! The time budget of one page of results. A query can read the whole index and find nothing. It is
//! interrupted, and the page says where the next one continues (L13).

use super::Query;
use super::interest::Interest;
#[cfg(test)]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time for a first page. The target is 100 ms; the rest is for work that cannot be interrupted.
const FIRST_PAGE: Duration = Duration::from_millis(60);
/// The time for a later page: its reader knows that there is more to do.
const NEXT_PAGE: Duration = Duration::from_secs(1);

/// How much of a page's budget is used. The store checks it regularly.
#[derive(Debug)]
pub(crate) struct SearchBudget {
    measure: Measure,
    most: u64,
    is_attempt: AtomicBool,
    is_cut_short: AtomicBool,
    /// `None` if the caller waits until the end.
    interest: Option<Interest>,
}

#[derive(Debug)]
enum Measure {
    /// Microseconds since this moment.
    Clock(Instant),
    /// The number of checks, which is the same on every machine.
    #[cfg(test)]
    Asked(AtomicU64),
}

impl SearchBudget {
    /// The budget of a page of this query, starting now.
    pub(crate) fn of(query: &Query) -> Self {
        let usual = if query.cursor.is_none() { FIRST_PAGE } else { NEXT_PAGE };
        let most = query.patience.unwrap_or(usual);
        let most = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
        Self::with(Measure::Clock(Instant::now()), most)
    }

    fn with(measure: Measure, most: u64) -> Self {
        let (is_attempt, is_cut_short) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { measure, most, is_attempt, is_cut_short, interest: None }
    }

    /// Also ends the search when its caller has gone.
    pub(crate) fn while_wanted(self, interest: Interest) -> Self {
        Self { interest: Some(interest), ..self }
    }

    /// A budget of this many checks.
    #[cfg(test)]
    pub(crate) fn of_asking(most: u64) -> Self {
        Self::with(Measure::Asked(AtomicU64::new(0)), most)
    }

    /// True if the budget is used up, the caller has gone, or the search was interrupted.
    pub(crate) fn is_spent(&self) -> bool {
        self.is_over() || self.done() >= self.most
    }

    /// Interrupts the search: another task needs the database snapshot it holds.
    pub(crate) fn cut_short(&self) {
        self.is_cut_short.store(true, Ordering::Relaxed);
    }

    /// Begins an attempt that may find nothing. It is abandoned early enough to leave time for another
    /// method.
    pub(crate) fn begin_attempt(&self) {
        self.is_attempt.store(true, Ordering::Relaxed);
    }

    /// Ends the attempt: what follows is not abandoned early.
    pub(crate) fn end_attempt(&self) {
        self.is_attempt.store(false, Ordering::Relaxed);
    }

    /// True if there is an attempt that should be abandoned.
    pub(crate) fn should_abandon_attempt(&self) -> bool {
        let is_attempt = self.is_attempt.load(Ordering::Relaxed);
        is_attempt && (self.is_over() || self.done() >= self.most / 5 * 4)
    }

    fn is_over(&self) -> bool {
        self.is_cut_short.load(Ordering::Relaxed) || self.interest.as_ref().is_some_and(Interest::is_over)
    }

    fn done(&self) -> u64 {
        match &self.measure {
            Measure::Clock(begun) => u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX),
            #[cfg(test)]
            Measure::Asked(times) => times.fetch_add(1, Ordering::Relaxed),
        }
    }
}
