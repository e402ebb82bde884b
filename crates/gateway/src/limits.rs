//! The gateway's limits that refuse requests, and which errors are theirs.

use crate::error::RequestError;
use crate::import::{Fault, ImportError};
use crate::refusals::{Refusals, RefusingLimit};

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
    /// The length of titles, names, keys and other short texts.
    TextLength,
}

impl Limit {
    /// Every limit.
    pub const ALL: [Self; 5] =
        [Self::Sessions, Self::LiveAgents, Self::QueuedPrompts, Self::QueuedBytes, Self::TextLength];

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
            | RequestError::AgentForgot { .. }
            | RequestError::NotForgotten { .. }
            | RequestError::BadBudget { .. }
            | RequestError::BadUnattended { .. }
            | RequestError::BadMcp(_)
            | RequestError::McpRefused { .. }
            | RequestError::NoDirectory { .. }
            | RequestError::NoFile { .. }
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
            // The server has this limit, and counts it.
            ImportError::TooSlow => None,
            ImportError::File(_) | ImportError::Exists(_) | ImportError::Spool(_) => None,
        }
    }
}

impl RefusingLimit for Limit {
    fn word(self) -> &'static str {
        match self {
            Self::Sessions => "sessions",
            Self::LiveAgents => "live_agents",
            Self::QueuedPrompts => "queued_prompts",
            Self::QueuedBytes => "queued_bytes",
            Self::TextLength => "text_length",
        }
    }
}

impl Refusals<Limit> {
    /// Counts the result of a request if a limit refused it.
    pub(crate) fn note<T>(&self, result: Result<T, RequestError>) -> Result<T, RequestError> {
        result.inspect_err(|error| {
            if let Some(limit) = Limit::of(error) {
                self.count_error(limit, error);
            }
        })
    }

    /// The same for an import.
    pub(crate) fn note_import<T>(&self, result: Result<T, ImportError>) -> Result<T, ImportError> {
        result.inspect_err(|error| {
            if let Some(limit) = Limit::of_import(error) {
                self.count_error(limit, error);
            }
        })
    }

    /// All counts, in the order of [`Limit::ALL`].
    pub(crate) fn all(&self) -> Vec<(Limit, u64)> {
        Limit::ALL.into_iter().map(|limit| (limit, self.total(limit))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Limit, Refusals, RequestError};
    use turnstream_testkit::diagnostics::{Level, capture};

    #[test]
    fn a_thousand_refusals_are_counted_and_make_two_lines() {
        let refusals = Refusals::default();
        let refused = || Err::<(), _>(RequestError::TooManySessions { most: 3 });
        let ((), lines) = capture(|| {
            for _ in 0..1_000 {
                assert!(refusals.note(refused()).is_err());
            }
            assert!(refusals.note(Err::<(), _>(RequestError::Closing)).is_err());
            // Without another refusal.
            refusals.report();
        });
        let lines: Vec<_> = lines.iter().filter(|line| line.field("limit") == Some("sessions")).collect();
        let said: Vec<_> = lines
            .iter()
            .map(|line| (line.level, line.field("error").is_some(), line.field("refused")))
            .collect();
        assert_eq!(said, [(Level::WARN, true, None), (Level::WARN, false, Some("999"))]);
        assert_eq!(refusals.all()[0], (Limit::Sessions, 1_000));
        assert!(refusals.all()[1..].iter().all(|(_, count)| *count == 0));
    }
}
