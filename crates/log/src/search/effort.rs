//! What one page may cost. A query can be made that reads the whole index and finds nothing: it is stopped, and the page says
//! from where the next one goes on (L13).

use super::Query;
use super::interest::Interest;
#[cfg(test)]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long is looked for a first page. It is wanted within 100 ms; the rest is for what cannot be stopped.
const FIRST_PAGE: Duration = Duration::from_millis(60);
/// How long for one of the others: whoever asks for it has seen that there is more to do.
const NEXT_PAGE: Duration = Duration::from_secs(1);

/// How much was done for a page, and how much may be. The store asks as it goes.
#[derive(Debug)]
pub(crate) struct Effort {
    measure: Measure,
    most: u64,
    is_attempt: AtomicBool,
    is_cut_short: AtomicBool,
    /// Without one, somebody waits to the end.
    interest: Option<Interest>,
}

#[derive(Debug)]
enum Measure {
    /// In microseconds since then.
    Clock(Instant),
    /// In times that it was asked for, which is the same on every machine.
    #[cfg(test)]
    Asked(AtomicU64),
}

impl Effort {
    /// What is spent on a page of this query, from now on.
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

    /// It is also over when nobody waits any more.
    pub(crate) fn while_wanted(self, interest: Interest) -> Self {
        Self { interest: Some(interest), ..self }
    }

    /// It is over when it has been asked for so many times.
    #[cfg(test)]
    pub(crate) fn of_asking(most: u64) -> Self {
        Self::with(Measure::Asked(AtomicU64::new(0)), most)
    }

    /// True when all that a page may cost was done, nobody waits for it, or it was cut short.
    pub(crate) fn is_spent(&self) -> bool {
        self.is_over() || self.done() >= self.most
    }

    /// What was done has to do: somebody else needs what this one holds.
    pub(crate) fn cut_short(&self) {
        self.is_cut_short.store(true, Ordering::Relaxed);
    }

    /// What begins now may be in vain, and is stopped so early that something can be done otherwise.
    pub(crate) fn begin_attempt(&self) {
        self.is_attempt.store(true, Ordering::Relaxed);
    }

    /// What follows is not stopped from outside.
    pub(crate) fn end_attempt(&self) {
        self.is_attempt.store(false, Ordering::Relaxed);
    }

    /// True when there is an attempt and it is to be given up.
    pub(crate) fn is_in_vain(&self) -> bool {
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
