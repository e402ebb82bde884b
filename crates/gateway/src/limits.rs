//! Limits that refuse requests: how often each did, and a log line for the first refusal of a series.

use crate::error::RequestError;
use crate::import::{Fault, ImportError};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A limit that refuses requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// Sessions in all.
    Sessions,
    /// Links to agents that are up at the same time.
    LiveAgents,
    /// Prompts that wait in one session.
    QueuedPrompts,
    /// Bytes of the prompts that wait in one session.
    QueuedBytes,
    /// The length of titles, names, keys and other short texts. It cannot be configured.
    TextLength,
}

impl Limit {
    /// Every limit.
    pub const ALL: [Self; 5] =
        [Self::Sessions, Self::LiveAgents, Self::QueuedPrompts, Self::QueuedBytes, Self::TextLength];

    /// Its name in metrics and log lines, and its key in `[limits]` if it can be configured.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sessions => "sessions",
            Self::LiveAgents => "live_agents",
            Self::QueuedPrompts => "queued_prompts",
            Self::QueuedBytes => "queued_bytes",
            Self::TextLength => "text_length",
        }
    }

    /// The limit that refused a request, if one did.
    fn of(error: &RequestError) -> Option<Self> {
        match error {
            RequestError::TooManySessions { .. } => Some(Self::Sessions),
            RequestError::TooManyAgents { .. } => Some(Self::LiveAgents),
            RequestError::QueueFull { .. } => Some(Self::QueuedPrompts),
            RequestError::QueueTooLarge { .. } => Some(Self::QueuedBytes),
            RequestError::TooLong { .. } => Some(Self::TextLength),
            RequestError::UnknownSession(_)
            | RequestError::UnknownAgent { .. }
            | RequestError::AgentUnusable { .. }
            | RequestError::UnknownModel { .. }
            | RequestError::NoDirectory { .. }
            | RequestError::OutsideRoots { .. }
            | RequestError::KeyReused { .. }
            | RequestError::Refused(_)
            | RequestError::BadPrompt(_)
            | RequestError::SecretName { .. }
            | RequestError::BadAnswer(_)
            | RequestError::BadSearch(_)
            | RequestError::BadCursor(_)
            | RequestError::SearchBusy { .. }
            | RequestError::Recovering(_)
            | RequestError::Degraded(_)
            | RequestError::NotDurableYet(_)
            | RequestError::StopNotDurableYet(_)
            | RequestError::NothingSettled { .. }
            | RequestError::Closing
            | RequestError::Log(_) => None,
        }
    }

    /// The limit that refused an import, if one did.
    fn of_import(error: &ImportError) -> Option<Self> {
        match error {
            ImportError::File(file) if file.fault == Fault::TooLong => Some(Self::TextLength),
            ImportError::Request(error) => Self::of(error),
            ImportError::File(_) | ImportError::Exists(_) | ImportError::Spool(_) => None,
        }
    }
}

/// How long refusals by one limit are only counted after a line about them.
const ONE_LINE_PER: Duration = Duration::from_secs(60);

/// Refusals by limit since the gateway was opened.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<BTreeMap<Limit, Series>>);

#[derive(Default)]
struct Series {
    refused: u64,
    /// The last line, and how many refusals there had been.
    logged: Option<(Instant, u64)>,
}

impl Refusals {
    /// Counts the result of a request if a limit refused it.
    pub(crate) fn note<T>(&self, result: Result<T, RequestError>) -> Result<T, RequestError> {
        result.inspect_err(|error| self.count(Limit::of(error), error))
    }

    /// The same for an import.
    pub(crate) fn note_import<T>(&self, result: Result<T, ImportError>) -> Result<T, ImportError> {
        result.inspect_err(|error| self.count(Limit::of_import(error), error))
    }

    /// All counts, in the order of [`Limit::ALL`].
    pub(crate) fn all(&self) -> Vec<(Limit, u64)> {
        let series = self.lock();
        let count = |limit: Limit| (limit, series.get(&limit).map_or(0, |series| series.refused));
        Limit::ALL.into_iter().map(count).collect()
    }

    fn count(&self, limit: Option<Limit>, error: &dyn std::error::Error) {
        let Some(limit) = limit else { return };
        if let Some(refused) = self.lock().entry(limit).or_default().add(Instant::now()) {
            let limit = limit.name();
            tracing::warn!(limit, refused, %error, "a limit refused a request; this line comes once a minute");
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Limit, Series>> {
        // The map is valid also after a panic of its holder.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Series {
    /// Counts a refusal. Returns how many there were since the last line, when the next line is due.
    fn add(&mut self, now: Instant) -> Option<u64> {
        self.refused += 1;
        let before = match self.logged {
            Some((last, _)) if now.duration_since(last) < ONE_LINE_PER => return None,
            Some((_, before)) => before,
            None => 0,
        };
        self.logged = Some((now, self.refused));
        Some(self.refused - before)
    }
}

#[cfg(test)]
mod tests {
    use super::{Instant, Limit, ONE_LINE_PER, Refusals, RequestError, Series};
    use turnstream_testkit::diagnostics::{Level, capture};

    #[test]
    fn a_thousand_refusals_are_counted_and_make_one_line() {
        let refusals = Refusals::default();
        let refused = || Err::<(), _>(RequestError::TooManySessions { most: 3 });
        let ((), lines) = capture(|| {
            for _ in 0..1_000 {
                assert!(refusals.note(refused()).is_err());
            }
            assert!(refusals.note(Err::<(), _>(RequestError::Closing)).is_err());
        });
        let lines: Vec<_> = lines.iter().filter(|line| line.message.contains("a limit refused")).collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!((lines[0].level, lines[0].field("limit")), (Level::WARN, Some("sessions")));
        let counted: Vec<u64> = refusals.all().into_iter().map(|(_, count)| count).collect();
        assert_eq!(counted, [1_000, 0, 0, 0, 0]);
        assert_eq!(refusals.all()[0].0, Limit::Sessions);
    }

    #[test]
    fn the_next_line_comes_a_minute_later_and_says_how_many_it_stands_for() {
        let (mut series, begin) = (Series::default(), Instant::now());
        assert_eq!(series.add(begin), Some(1));
        for _ in 0..9 {
            assert_eq!(series.add(begin + ONE_LINE_PER / 2), None);
        }
        assert_eq!(series.add(begin + ONE_LINE_PER), Some(10));
        assert_eq!(series.add(begin + ONE_LINE_PER), None);
    }
}
