//! A disk that refuses writes: requests that wait for it are answered with an error instead of waiting.

use crate::error::{RequestError, SharedError};
use std::time::Duration;
use turnstream_log::{Health, Log};

/// How long the disk may fail before waiting requests are answered. A shorter failure is not reported.
const GRACE: Duration = Duration::from_millis(200);

/// Why the log cannot be written.
#[derive(Clone, Debug)]
pub(crate) enum DiskFailure {
    /// The log keeps trying.
    Temporary(SharedError),
    /// The log has given up until the gateway is restarted.
    Permanent(SharedError),
}

impl DiskFailure {
    /// The answer to a request that was not begun.
    pub(crate) fn refused(self) -> RequestError {
        match self {
            Self::Temporary(problem) => RequestError::Degraded(problem),
            Self::Permanent(problem) => RequestError::Log(problem),
        }
    }

    /// The answer to a request that was accepted.
    pub(crate) fn not_durable_yet(self) -> RequestError {
        match self {
            Self::Temporary(problem) => RequestError::NotDurableYet(problem),
            Self::Permanent(problem) => RequestError::Log(problem),
        }
    }
}

/// Returns when the disk has been failing for longer than [`GRACE`].
pub(crate) async fn wait(log: &Log) -> DiskFailure {
    let mut watch = log.watch_health();
    loop {
        if current(log).is_some() {
            tokio::time::sleep(GRACE).await;
            if let Some(failure) = current(log) {
                return failure;
            }
        } else if watch.changed().await.is_none() {
            // A closed log answers its own waiters with an error.
            return std::future::pending().await;
        }
    }
}

/// Why the log cannot be written at this moment; `None` when it can.
pub(crate) fn current(log: &Log) -> Option<DiskFailure> {
    match log.health() {
        Health::Sound => None,
        Health::Degraded { problem, .. } => Some(DiskFailure::Temporary(problem)),
        Health::Failed { problem } => Some(DiskFailure::Permanent(problem)),
    }
}

#[cfg(test)]
mod tests {
    use super::{DiskFailure, RequestError, SharedError};
    use turnstream_model::Chain;

    #[derive(Debug, thiserror::Error)]
    #[error("the segment cannot be written")]
    struct Segment(#[source] std::io::Error);

    #[test]
    fn what_a_full_disk_refuses_shows_the_error_of_the_disk() {
        let full = SharedError::new(Segment(std::io::Error::other("no space left")));
        for refused in [
            DiskFailure::Temporary(full.clone()).refused(),
            DiskFailure::Temporary(full.clone()).not_durable_yet(),
            DiskFailure::Permanent(full).refused(),
        ] {
            let shown = Chain(&refused).to_string();
            assert_eq!(shown.matches("the segment cannot be written").count(), 1, "{shown}");
            assert!(shown.ends_with(": no space left"), "{shown}");
        }
    }

    #[test]
    fn what_a_failed_log_refuses_is_not_said_to_be_tried_again() {
        let problem = || SharedError::new("no such file");
        let failed = RequestError::Log(problem());
        assert_eq!(DiskFailure::Permanent(problem()).refused(), failed);
        assert_eq!(DiskFailure::Permanent(problem()).not_durable_yet(), failed);
        assert_eq!(DiskFailure::Temporary(problem()).refused(), RequestError::Degraded(problem()));
        assert_eq!(
            DiskFailure::Temporary(problem()).not_durable_yet(),
            RequestError::NotDurableYet(problem())
        );
    }
}
