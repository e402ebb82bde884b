//! The root cause among several failures of one attempt.

use super::Failure;
use crate::attempt::{Outcome, StreamEnd};
use turnstream_model::event::ErrorClass;

/// Finds the root cause among the failures of one attempt.
///
/// A failure that the provider reported wins over one that transport or reader noticed, in any order.
/// Otherwise the first one wins. In an earlier product an in-band 524 was masked by the error that it
/// caused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RootCause {
    cause: Option<Failure>,
}

impl RootCause {
    /// Adds a failure.
    pub fn add(&mut self, mut failure: Failure) {
        self.cause = Some(match self.cause.take() {
            None => failure,
            Some(first) if failure.is_of_the_provider() && !first.is_of_the_provider() => {
                failure.followed_by(&first);
                failure
            }
            Some(mut first) => {
                first.followed_by(&failure);
                first
            }
        });
    }

    /// The root cause.
    pub fn cause(&self) -> Option<&Failure> {
        self.cause.as_ref()
    }

    /// The root cause, with the others as secondary failures.
    pub fn into_cause(self) -> Option<Failure> {
        self.cause
    }

    /// The cause of a failed attempt: what the stream shows, or the failure of transport or timeout.
    pub fn of_attempt(shown: Option<Failure>, broke: Option<Failure>, outcome: &Outcome) -> Option<Failure> {
        if outcome.ended == StreamEnd::Complete {
            // A failure after the end of the completion took nothing away.
            return shown;
        }
        let damage = |failure: &Failure| {
            matches!(
                failure.class,
                ErrorClass::StreamCorrupt | ErrorClass::StreamSpliced | ErrorClass::NotAStream
            )
        };
        let mut cause = Self::default();
        let is_damage = shown.as_ref().is_some_and(damage);
        let (first, second) = if is_damage { (shown, broke) } else { (broke, shown) };
        for failure in [first, second].into_iter().flatten() {
            cause.add(failure);
        }
        cause.into_cause()
    }
}
