//! Several failures of one attempt: which of them it was.

use super::Failure;

/// Gathers what goes wrong in one attempt. What the provider says wins over what transport and decoder notice, whichever
/// came first; of two of a kind the first wins. An in-band 524 was once masked by the error that it caused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    cause: Option<Failure>,
}

impl Case {
    /// Adds one more.
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

    /// The one that counts.
    pub fn cause(&self) -> Option<&Failure> {
        self.cause.as_ref()
    }

    /// The one that counts.
    pub fn into_cause(self) -> Option<Failure> {
        self.cause
    }
}
