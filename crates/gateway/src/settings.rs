//! How long things may take, and what happens when nobody answers.

use crate::retention::Retention;
use std::path::{Path, PathBuf};
use std::time::Duration;
use turnstream_redact::Rules;

/// How a gateway behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Sessions may only work below these.
    pub roots: Vec<PathBuf>,
    /// How long the making of a link may take.
    pub connect: Duration,
    /// How long an agent may take to show that it has begun with a prompt.
    pub start: Duration,
    /// How long an agent may be silent in a turn, while it does not wait for a person. Only real activity renews it.
    pub inactivity: Duration,
    /// How long an agent may take to end a turn that was cancelled; then it is stopped by force.
    pub cancel: Duration,
    /// How long the settling of what a dead owner left open may take; then it is given up as lost.
    pub recovery: Duration,
    /// How long an agent may take to answer a question of ours.
    pub truth: Duration,
    /// How long an approval or question may wait for a person; for ever where nothing is said.
    pub approval: Option<Duration>,
    /// What becomes of one that waited so long.
    pub on_timeout: OnTimeout,
    /// How long a session may be quiet until its keeper and its agent are put away.
    pub idle: Duration,
    /// How long a search may wait for its turn; then whoever asks is sent away for a moment.
    pub search: Duration,
    /// How long a stored fold may be behind while its session talks.
    pub debounce: Duration,
    /// What counts as a secret, and never reaches the log.
    pub secrets: Rules,
    /// How long what was said is kept; for ever where nothing is said.
    pub retention: Retention,
}

impl Settings {
    /// Whether sessions may work in this directory, which is given without links and dots.
    pub(crate) fn allows(&self, real: &Path) -> bool {
        self.roots.iter().any(|root| root.canonicalize().is_ok_and(|root| real.starts_with(root)))
    }
}

/// What becomes of an approval that nobody answered in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTimeout {
    /// The agent is told that it was refused, and goes on without.
    Reject,
    /// The turn is cancelled.
    Cancel,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            connect: Duration::from_secs(30),
            start: Duration::from_secs(60),
            inactivity: Duration::from_secs(30 * 60),
            cancel: Duration::from_secs(10),
            recovery: Duration::from_secs(60),
            truth: Duration::from_secs(10),
            approval: None,
            on_timeout: OnTimeout::Reject,
            idle: Duration::from_secs(10 * 60),
            search: Duration::from_secs(5),
            debounce: Duration::from_secs(1),
            secrets: Rules::standard(),
            retention: Retention::default(),
        }
    }
}
