//! Counters of a log: events, commits and their latency, and queued bytes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets of [`Latency`], in microseconds. A healthy disk syncs within one or two
/// milliseconds; 250 ms means that the disk is failing or overloaded.
const BOUNDS: [u64; 11] =
    [500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000];

/// Counters since the log was opened, and the current queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Events that became durable.
    pub events: u64,
    /// The time from the first try of a commit until it was durable.
    pub commits: Latency,
    /// Failed commit attempts. A failed commit is retried.
    pub failed_commits: u64,
    /// Late partial writes that the store refused.
    pub refused_writes: u64,
    /// Approximate bytes that are appended and not yet in the database. Appends wait at
    /// [`Figures::most_under_way`].
    pub under_way: u64,
    /// The byte budget.
    pub most_under_way: u64,
}

/// A latency histogram.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// Cumulative counts by upper bound, ascending. A longer duration is in no bucket.
    pub within: Vec<(Duration, u64)>,
    /// The number of observations.
    pub count: u64,
    /// The sum of all durations.
    pub sum: Duration,
}

/// The counters that the writer thread updates.
#[derive(Default)]
pub(crate) struct Meter {
    events: AtomicU64,
    failed: AtomicU64,
    buckets: [AtomicU64; BOUNDS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

impl Meter {
    /// Counts a durable commit.
    pub(crate) fn committed(&self, events: usize, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.events.fetch_add(events as u64, Ordering::Relaxed);
        if let Some(bucket) = BOUNDS.iter().position(|bound| micros <= *bound) {
            self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Counts a failed commit attempt.
    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, refused_writes: u64, under_way: u64, most_under_way: u64) -> Figures {
        let of = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        let mut sum = 0;
        let within = BOUNDS.iter().zip(&self.buckets).map(|(bound, bucket)| {
            sum += of(bucket);
            (Duration::from_micros(*bound), sum)
        });
        let within: Vec<(Duration, u64)> = within.collect();
        // The counters are read one by one while the writer adds to them. The total is never less than the
        // buckets.
        let count = of(&self.count).max(within.last().map_or(0, |(_, count)| *count));
        Figures {
            events: of(&self.events),
            commits: Latency { within, count, sum: Duration::from_micros(of(&self.micros)) },
            failed_commits: of(&self.failed),
            refused_writes,
            under_way,
            most_under_way,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_longer_than_all_bounds_is_counted_and_in_no_bucket() {
        let meter = Meter::default();
        for millis in [0, 1, 3, 3, 60_000] {
            meter.committed(2, Duration::from_millis(millis));
        }
        meter.failed();
        let Figures { events, commits, failed_commits, .. } = meter.read(0, 0, 0);
        assert_eq!((events, failed_commits), (10, 1));
        assert_eq!((commits.count, commits.sum), (5, Duration::from_millis(60_007)));
        let counts: Vec<u64> = commits.within.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [1, 2, 2, 4, 4, 4, 4, 4, 4, 4, 4]);
    }
}
