//! The root cause among several failures of one attempt.

use super::Failure;

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
}
