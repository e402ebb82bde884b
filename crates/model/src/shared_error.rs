//! An error that several answers can share, with its sources.

use crate::error_chain::Chain;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// An error whose clones share one value: one failed commit answers many requests.
///
/// It reads as the error inside it, and has the same source.
#[derive(Clone, Debug)]
pub struct SharedError(Arc<dyn Error + Send + Sync>);

impl SharedError {
    /// Shares an error, or a message.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Arc::from(error.into()))
    }

    /// The error itself, for a look at its type.
    pub fn get_ref(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0
    }
}

impl fmt::Display for SharedError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl Error for SharedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Errors are equal when a person reads the same.
impl PartialEq for SharedError {
    fn eq(&self, other: &Self) -> bool {
        Chain(self).to_string() == Chain(other).to_string()
    }
}

impl Eq for SharedError {}
