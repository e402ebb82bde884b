//! What the limits refused: numbers for the metrics, and log lines whose number is bounded.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A limit that can refuse a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Connections,
    ConnectionsPerAddress,
    RequestsPerSecond,
    Followers,
    BodyMemory,
    Imports,
    ImportTime,
}

impl Limit {
    pub(crate) const ALL: [Self; 7] = [
        Self::Connections,
        Self::ConnectionsPerAddress,
        Self::RequestsPerSecond,
        Self::Followers,
        Self::BodyMemory,
        Self::Imports,
        Self::ImportTime,
    ];

    /// Its label in the metrics and in log lines. If the limit has a key in the configuration, it is the key.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::ConnectionsPerAddress => "connections_per_address",
            Self::RequestsPerSecond => "requests_per_second",
            Self::Followers => "followers",
            Self::BodyMemory => "body_memory",
            Self::Imports => "imports",
            Self::ImportTime => "import_time",
        }
    }
}

/// The refusals of one limit. A series ends when a whole report period had none.
#[derive(Clone, Copy, Default)]
struct Series {
    total: u64,
    /// Refusals since the last line.
    unreported: u64,
    is_open: bool,
}

/// The refusals of all limits.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<[Series; Limit::ALL.len()]>);

impl Refusals {
    /// The time between two reports.
    pub(crate) const REPORT_EVERY: Duration = Duration::from_secs(60);

    /// Counts a refusal. The first of a series has a log line.
    pub(crate) fn count(&self, limit: Limit) {
        let is_first = {
            let series = &mut self.series()[limit as usize];
            series.total += 1;
            if series.is_open {
                series.unreported += 1;
            }
            !std::mem::replace(&mut series.is_open, true)
        };
        if is_first {
            tracing::warn!(limit = limit.word(), "a limit is reached, and clients are refused");
        }
    }

    /// Writes a line for every limit that refused more since the last line.
    pub(crate) fn report(&self) {
        for limit in Limit::ALL {
            let refused = {
                let series = &mut self.series()[limit as usize];
                series.is_open = series.unreported > 0;
                std::mem::take(&mut series.unreported)
            };
            if refused > 0 {
                tracing::warn!(limit = limit.word(), refused, "a limit refused more clients");
            }
        }
    }

    /// All refusals of a limit since the start.
    pub(crate) fn total(&self, limit: Limit) -> u64 {
        self.series()[limit as usize].total
    }

    fn series(&self) -> MutexGuard<'_, [Series; Limit::ALL.len()]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{Limit, Refusals};
    use turnstream_testkit::diagnostics::capture;

    #[test]
    fn a_series_of_refusals_has_a_first_line_and_then_a_number() {
        let refusals = Refusals::default();
        let ((), lines) = capture(|| {
            for _ in 0..1_000 {
                refusals.count(Limit::Followers);
            }
            refusals.report();
            refusals.count(Limit::Followers);
            refusals.report();
            // A period without any: the next one is the first of another series.
            refusals.report();
            refusals.count(Limit::Followers);
        });
        let numbers: Vec<Option<&str>> = lines
            .iter()
            .filter(|line| line.field("limit") == Some("followers"))
            .map(|line| line.field("refused"))
            .collect();
        assert_eq!(numbers, [None, Some("999"), Some("1"), None]);
        assert_eq!((refusals.total(Limit::Followers), refusals.total(Limit::Imports)), (1_002, 0));
    }

    #[test]
    fn the_limits_are_in_the_order_of_their_numbers() {
        for (place, limit) in Limit::ALL.into_iter().enumerate() {
            assert_eq!(limit as usize, place);
        }
    }
}
