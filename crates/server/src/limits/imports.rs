//! Imports run one at a time, and each within a bounded time.

use super::options::Limits;
use super::refusals::{Limit, Refusals};
use crate::problem::{Kind, Problem};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// Seconds after which a client that was refused may try again.
const RETRY_AFTER: u64 = 10;

/// The imports of one server.
pub(crate) struct Imports {
    turn: Arc<Semaphore>,
    time: Duration,
    wait: Duration,
    refusals: Arc<Refusals>,
}

impl Imports {
    pub(crate) fn new(limits: &Limits, refusals: Arc<Refusals>) -> Self {
        Self { turn: Arc::new(Semaphore::new(1)), time: limits.import_time, wait: limits.wait, refusals }
    }

    /// Waits a bounded time until no other import runs.
    pub(crate) async fn turn(&self) -> Result<OwnedSemaphorePermit, Problem> {
        // The semaphore is never closed.
        if let Ok(Ok(turn)) = tokio::time::timeout(self.wait, self.turn.clone().acquire_owned()).await {
            return Ok(turn);
        }
        self.refusals.count(Limit::Imports);
        let detail = format!("another import runs, and did not end within {:?}; try again later", self.wait);
        Err(Problem::new(Kind::ImportBusy, detail).retry_after(RETRY_AFTER))
    }

    /// When an import that begins now must be over.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        Instant::now().checked_add(self.time)
    }

    /// The result of receiving the file, which has to arrive before the deadline.
    pub(crate) async fn in_time<T>(
        &self,
        deadline: Option<Instant>,
        receive: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        let Some(deadline) = deadline else { return receive.await };
        if let Ok(received) = tokio::time::timeout_at(deadline, receive).await {
            return received;
        }
        Err(self.too_slow("the file was not complete"))
    }

    /// The answer to an import that took too long.
    pub(crate) fn too_slow(&self, what: &str) -> Problem {
        self.refusals.count(Limit::ImportTime);
        let detail = format!(
            "{what} after {:?}, and nothing was imported; use a faster connection, or raise `import_time` in [limits]",
            self.time
        );
        Problem::new(Kind::SlowBody, detail)
    }
}
