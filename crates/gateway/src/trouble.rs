//! A disk that fails: whoever waits for it hears of it, instead of waiting for as long as it fails.

use crate::error::RequestError;
use std::time::Duration;
use turnstream_log::{Health, Log};

/// How long the disk may fail until those who wait for it are told. What is over after a moment is not worth a word.
const BRIEF: Duration = Duration::from_millis(200);

/// Why nothing can be kept, with what the disk said.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// For now: it is tried again.
    Passing(String),
    /// Without help nothing more is kept.
    Lasting(String),
}

impl Trouble {
    /// For whoever asks for something that is not begun.
    pub(crate) fn refused(self) -> RequestError {
        match self {
            Self::Passing(problem) => RequestError::Degraded(problem),
            Self::Lasting(problem) => RequestError::Log(problem),
        }
    }

    /// For whoever asked for something that was taken.
    pub(crate) fn unkept(self) -> RequestError {
        match self {
            Self::Passing(problem) => RequestError::Unkept(problem),
            Self::Lasting(problem) => RequestError::Log(problem),
        }
    }
}

/// Returns when the disk has been failing for more than a moment.
pub(crate) async fn trouble(log: &Log) -> Trouble {
    let mut watch = log.watch_health();
    loop {
        if now(log).is_some() {
            tokio::time::sleep(BRIEF).await;
            if let Some(trouble) = now(log) {
                return trouble;
            }
        } else if watch.changed().await.is_none() {
            // A closed log refuses what waits for it.
            return std::future::pending().await;
        }
    }
}

/// Why nothing can be kept at the moment, if it cannot.
pub(crate) fn now(log: &Log) -> Option<Trouble> {
    match log.health() {
        Health::Sound => None,
        Health::Degraded { problem, .. } => Some(Trouble::Passing(problem)),
        Health::Failed { problem } => Some(Trouble::Lasting(problem)),
    }
}

#[cfg(test)]
mod tests {
    use super::Trouble;
    use crate::error::RequestError;

    #[test]
    fn what_a_failed_log_refuses_is_not_said_to_be_tried_again() {
        let problem = || "no such file".to_owned();
        let failed = RequestError::Log(problem());
        assert_eq!(Trouble::Lasting(problem()).refused(), failed);
        assert_eq!(Trouble::Lasting(problem()).unkept(), failed);
        assert_eq!(Trouble::Passing(problem()).refused(), RequestError::Degraded(problem()));
        assert_eq!(Trouble::Passing(problem()).unkept(), RequestError::Unkept(problem()));
    }
}
