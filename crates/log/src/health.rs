//! Whether the log can make events durable.

use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::watch;

/// The health of the disk as the log sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Appended events become durable.
    Sound,
    /// Writes fail at the moment. Appended events wait, are not published, and are retried.
    Degraded {
        /// When the failures began.
        since: SystemTime,
        /// The latest error.
        problem: String,
    },
    /// Writes will not succeed again without an operator.
    Failed {
        /// The error.
        problem: String,
    },
}

/// Who reports: the writer thread, for commits, or the store, for its work after commits. Each has its own
/// state, so that success of one does not hide failure of the other.
#[derive(Clone, Copy)]
pub(crate) enum HealthSource {
    Writer,
    Store,
}

/// Reports the health of one source.
pub(crate) struct HealthReporter {
    source: HealthSource,
    by_source: Arc<watch::Sender<HealthBySource>>,
}

/// The health of both sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HealthBySource {
    writer: Health,
    store: Health,
}

impl HealthBySource {
    pub(crate) fn watch() -> (HealthReporter, HealthReporter, watch::Receiver<Self>) {
        let (sender, receiver) = watch::channel(Self { writer: Health::Sound, store: Health::Sound });
        let by_source = Arc::new(sender);
        (
            HealthReporter { source: HealthSource::Writer, by_source: by_source.clone() },
            HealthReporter { source: HealthSource::Store, by_source },
            receiver,
        )
    }

    /// The worse health of the two.
    pub(crate) fn worst(&self) -> Health {
        match (&self.writer, &self.store) {
            (Health::Failed { .. }, _)
            | (Health::Degraded { .. }, Health::Sound | Health::Degraded { .. }) => self.writer.clone(),
            (_, store) => store.clone(),
        }
    }
}

/// Receives every change between sound, degraded and failed.
pub struct HealthWatch {
    by_source: watch::Receiver<HealthBySource>,
    last: Health,
}

impl HealthWatch {
    pub(crate) fn new(mut by_source: watch::Receiver<HealthBySource>) -> Self {
        let last = by_source.borrow_and_update().worst();
        Self { by_source, last }
    }

    /// The next health of another kind than the last one. `None` when the log is closed.
    pub async fn changed(&mut self) -> Option<Health> {
        loop {
            self.by_source.changed().await.ok()?;
            let health = self.by_source.borrow_and_update().worst();
            let same = std::mem::discriminant(&health) == std::mem::discriminant(&self.last);
            self.last = health.clone();
            if !same {
                return Some(health);
            }
        }
    }
}

impl HealthReporter {
    pub(crate) fn sound(&self) {
        self.set(|health| (*health != Health::Sound).then_some(Health::Sound));
    }

    pub(crate) fn degraded(&self, problem: &str) {
        self.set(|health| {
            let since = match health {
                Health::Degraded { since, .. } => *since,
                Health::Sound | Health::Failed { .. } => SystemTime::now(),
            };
            Some(Health::Degraded { since, problem: problem.to_owned() })
        });
    }

    pub(crate) fn failed(&self, problem: &str) {
        self.set(|_| Some(Health::Failed { problem: problem.to_owned() }));
    }

    fn set(&self, change: impl FnOnce(&Health) -> Option<Health>) {
        self.by_source.send_if_modified(|by_source| {
            let health = match self.source {
                HealthSource::Writer => &mut by_source.writer,
                HealthSource::Store => &mut by_source.store,
            };
            match change(health) {
                Some(new) => {
                    *health = new;
                    true
                }
                None => false,
            }
        });
    }
}
