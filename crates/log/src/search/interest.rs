//! Whether anybody still waits for a page: a query of somebody who went away is not carried on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Somebody who waits. Dropping it says that nobody does any more.
#[derive(Debug)]
pub struct Waiting {
    is_over: Arc<AtomicBool>,
}

/// What whoever looks is asked by. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Interest {
    is_over: Arc<AtomicBool>,
}

impl Waiting {
    /// Somebody who begins to wait.
    #[allow(clippy::new_without_default, reason = "one that is dropped at once would be a mistake")]
    pub fn new() -> Self {
        Self { is_over: Arc::new(AtomicBool::new(false)) }
    }

    /// For [`crate::Log::search_while`].
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
    /// True when nobody waits any more.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}
