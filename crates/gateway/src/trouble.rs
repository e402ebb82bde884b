//! A disk that fails: whoever waits for it hears of it, instead of waiting for as long as it fails.

use std::time::Duration;
use turnstream_log::{Health, Log};

/// How long the disk may fail until those who wait for it are told. What is over after a moment is not worth a word.
const BRIEF: Duration = Duration::from_millis(200);

/// Returns when the disk has been failing for more than a moment, with what it said.
pub(crate) async fn trouble(log: &Log) -> String {
    let mut watch = log.watch_health();
    loop {
        if problem(log).is_some() {
            tokio::time::sleep(BRIEF).await;
            if let Some(problem) = problem(log) {
                return problem;
            }
        } else if watch.changed().await.is_none() {
            // A closed log refuses what waits for it.
            return std::future::pending().await;
        }
    }
}

/// What the disk says, if it does not take anything at the moment.
pub(crate) fn problem(log: &Log) -> Option<String> {
    match log.health() {
        Health::Sound => None,
        Health::Degraded { problem, .. } | Health::Failed { problem } => Some(problem),
    }
}
