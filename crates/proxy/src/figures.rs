//! What is counted of each route, for the metrics page.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How requests end, in the order of [`Figures::ended`].
pub const OUTCOMES: [&str; 4] = ["complete", "failed", "broken", "cancelled"];

/// The numbers of one route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Requests of clients that run.
    pub open: u64,
    /// Requests to the provider.
    pub attempts: u64,
    /// Requests that came to this route because another one had failed.
    pub fallbacks: u64,
    /// Requests that took over an answer whose client was gone.
    pub reattached: u64,
    /// Requests of clients that have ended, by [`OUTCOMES`].
    pub ended: [u64; OUTCOMES.len()],
}

/// The counters of one route.
#[derive(Debug, Default)]
pub(crate) struct RouteCounters {
    started: AtomicU64,
    attempts: AtomicU64,
    fallbacks: AtomicU64,
    reattached: AtomicU64,
    ended: [AtomicU64; OUTCOMES.len()],
}

impl RouteCounters {
    pub(crate) fn started(&self) {
        self.started.fetch_add(1, Relaxed);
    }

    pub(crate) fn attempted(&self) {
        self.attempts.fetch_add(1, Relaxed);
    }

    pub(crate) fn fell_back(&self) {
        self.fallbacks.fetch_add(1, Relaxed);
    }

    pub(crate) fn reattached(&self) {
        self.reattached.fetch_add(1, Relaxed);
    }

    pub(crate) fn ended(&self, outcome: &str) {
        if let Some(at) = OUTCOMES.iter().position(|known| *known == outcome) {
            self.ended[at].fetch_add(1, Relaxed);
        }
    }

    fn figures(&self) -> Figures {
        // Read before `started`, so that no request seems to have ended before it began.
        let ended = std::array::from_fn(|at| self.ended[at].load(Relaxed));
        let open = self.started.load(Relaxed).saturating_sub(ended.iter().sum());
        Figures {
            open,
            attempts: self.attempts.load(Relaxed),
            fallbacks: self.fallbacks.load(Relaxed),
            reattached: self.reattached.load(Relaxed),
            ended,
        }
    }
}

/// The numbers of all routes.
pub(crate) fn all<'a>(
    counters: impl Iterator<Item = (&'a String, &'a std::sync::Arc<RouteCounters>)>,
) -> BTreeMap<String, Figures> {
    counters.map(|(name, counters)| (name.clone(), counters.figures())).collect()
}
