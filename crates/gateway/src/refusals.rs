//! What limits refused: numbers for metrics, and log lines whose number is bounded.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A limit that can refuse a request.
pub trait RefusingLimit: Copy + Ord {
    /// Its label in metrics and log lines. If the limit has a key in the configuration, it is the key.
    fn word(self) -> &'static str;
}

/// The refusals by each limit of one kind. The owner calls [`Refusals::report`] at intervals.
pub struct Refusals<L>(Mutex<BTreeMap<L, Series>>);

/// The refusals by one limit. A series ends when a whole report period had none.
#[derive(Clone, Copy, Default)]
struct Series {
    total: u64,
    /// Refusals since the last line.
    unreported: u64,
    is_open: bool,
}

impl<L> Default for Refusals<L> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<L: RefusingLimit> Refusals<L> {
    /// The time between two reports.
    pub const REPORT_EVERY: Duration = Duration::from_secs(60);

    /// Counts a refusal. The first of a series has a log line.
    pub fn count(&self, limit: L) {
        if self.add(limit) {
            tracing::warn!(limit = limit.word(), "a limit is reached, and clients are refused");
        }
    }

    /// The same, with the error that the client gets in the log line.
    pub(crate) fn count_error(&self, limit: L, error: &dyn Error) {
        if self.add(limit) {
            tracing::warn!(limit = limit.word(), %error, "a limit is reached, and clients are refused");
        }
    }

    /// Writes a line for every limit that refused more since the last line.
    pub fn report(&self) {
        let refused = |(limit, series): (&L, &mut Series)| {
            series.is_open = series.unreported > 0;
            (*limit, std::mem::take(&mut series.unreported))
        };
        let refused: Vec<(L, u64)> = self.lock().iter_mut().map(refused).collect();
        for (limit, refused) in refused.into_iter().filter(|(_, refused)| *refused > 0) {
            tracing::warn!(limit = limit.word(), refused, "a limit refused more clients");
        }
    }

    /// All refusals by a limit since the start.
    pub fn total(&self, limit: L) -> u64 {
        self.lock().get(&limit).map_or(0, |series| series.total)
    }

    /// Counts a refusal. True for the first of a series.
    fn add(&self, limit: L) -> bool {
        let mut all = self.lock();
        let series = all.entry(limit).or_default();
        series.total += 1;
        if series.is_open {
            series.unreported += 1;
        }
        !std::mem::replace(&mut series.is_open, true)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<L, Series>> {
        // The map is valid also after a panic of its holder.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::Refusals;
    use crate::limits::Limit;
    use turnstream_testkit::diagnostics::capture;

    #[test]
    fn a_series_of_refusals_has_a_first_line_and_then_a_number() {
        let refusals = Refusals::default();
        let ((), lines) = capture(|| {
            for _ in 0..1_000 {
                refusals.count(Limit::Sessions);
            }
            refusals.report();
            refusals.count(Limit::Sessions);
            refusals.report();
            // A period without any: the next one is the first of another series.
            refusals.report();
            refusals.count(Limit::Sessions);
        });
        let numbers: Vec<Option<&str>> = lines
            .iter()
            .filter(|line| line.field("limit") == Some("sessions"))
            .map(|line| line.field("refused"))
            .collect();
        assert_eq!(numbers, [None, Some("999"), Some("1"), None]);
        assert_eq!((refusals.total(Limit::Sessions), refusals.total(Limit::LiveAgents)), (1_002, 0));
    }
}
