//! Cancels a search when its caller stops waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Held by the caller of a search. Dropping it cancels the search.
#[derive(Debug)]
pub struct Waiting {
    is_over: Arc<AtomicBool>,
}

/// Tells a search whether its caller still waits. Clones share the state.
#[derive(Clone, Debug)]
pub struct Interest {
    is_over: Arc<AtomicBool>,
}

impl Waiting {
    /// A caller that waits from now on.
    #[allow(clippy::new_without_default, reason = "one that is dropped at once would be a mistake")]
    pub fn new() -> Self {
        Self { is_over: Arc::new(AtomicBool::new(false)) }
    }

    /// The argument for [`crate::Log::search_while`].
    pub fn interest(&self) -> Interest {
        Interest { is_over: Arc::clone(&self.is_over) }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

impl Interest {
    /// True if the caller no longer waits.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}
