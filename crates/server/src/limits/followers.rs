//! Open event streams and WebSockets: a bounded number in all.

use super::refusals::{Limit, Refusals};
use crate::problem::{Kind, Problem};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Seconds after which a client that was refused may try again.
const RETRY_AFTER: u64 = 5;

/// The followers of one server.
pub(crate) struct Followers {
    most: usize,
    open: AtomicUsize,
    refusals: Arc<Refusals>,
}

/// One follower, counted until this is dropped.
pub(crate) struct Follower(Arc<Followers>);

impl Followers {
    pub(crate) fn new(most: usize, refusals: Arc<Refusals>) -> Arc<Self> {
        Arc::new(Self { most, open: AtomicUsize::new(0), refusals })
    }

    /// Counts one more follower, or refuses it.
    pub(crate) fn join(self: &Arc<Self>) -> Result<Follower, Problem> {
        let more = |open: usize| (open < self.most).then_some(open + 1);
        match self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Follower(self.clone())),
            Err(_) => {
                self.refusals.count(Limit::Followers);
                let detail = format!(
                    "{} event streams and WebSockets are open, and no more are allowed; close some, follow several \
                     sessions on one WebSocket (/v1/ws), or raise `followers` in [limits]",
                    self.most
                );
                let problem = Problem::new(Kind::TooManyFollowers, detail).with("limit", self.most);
                Err(problem.retry_after(RETRY_AFTER))
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
