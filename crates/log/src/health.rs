//! Whether the log can make events durable.

use crate::error::{StoreFault, is_disk_full};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;
use tokio::sync::watch;
use tracing::{error, info, warn};
use turnstream_model::Chain;

/// An outage of this length is logged as an error: somebody has to look at the disk.
const LASTING_MILLIS: u64 = 5_000;

/// The line for a full disk.
const DISK_FULL: &str =
    "the disk is full: events wait and new prompts are refused; free some space on it, or delete sessions";

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
        problem: StoreFault,
    },
    /// Writes will not succeed again without an operator.
    Failed {
        /// The error.
        problem: StoreFault,
    },
}

/// Who reports: the writer thread, for commits, the store, for its work after commits, or the store about the
/// space in reserve. Each has its own state, so that success of one does not hide failure of another.
#[derive(Clone, Copy)]
pub(crate) enum HealthSource {
    Writer,
    Store,
    Reserve,
}

impl HealthSource {
    /// Its name in log lines.
    fn name(self) -> &'static str {
        match self {
            Self::Writer => "commit",
            Self::Store => "flush",
            Self::Reserve => "reserve",
        }
    }
}

/// Reports the health of one source.
pub(crate) struct HealthReporter {
    source: HealthSource,
    by_source: Arc<watch::Sender<HealthBySource>>,
    /// The current outage was logged as an error.
    is_escalated: AtomicBool,
}

/// The health of all sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HealthBySource {
    writer: SourceHealth,
    store: SourceHealth,
    reserve: SourceHealth,
}

/// The health of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SourceHealth {
    health: Health,
    /// It is degraded because the disk is full.
    is_disk_full: bool,
}

/// One reporter for each source.
pub(crate) struct HealthReporters {
    pub(crate) writer: HealthReporter,
    pub(crate) store: HealthReporter,
    pub(crate) reserve: HealthReporter,
}

impl HealthBySource {
    pub(crate) fn watch() -> (HealthReporters, watch::Receiver<Self>) {
        let sound = SourceHealth { health: Health::Sound, is_disk_full: false };
        let all_sound = Self { writer: sound.clone(), store: sound.clone(), reserve: sound };
        let (sender, receiver) = watch::channel(all_sound);
        let by_source = Arc::new(sender);
        let reporters = HealthReporters {
            writer: HealthReporter::new(HealthSource::Writer, by_source.clone()),
            store: HealthReporter::new(HealthSource::Store, by_source.clone()),
            reserve: HealthReporter::new(HealthSource::Reserve, by_source),
        };
        (reporters, receiver)
    }

    /// The worst health. Of several that are equally bad, that of the writer comes first.
    pub(crate) fn worst(&self) -> Health {
        let rank = |health: &Health| match health {
            Health::Sound => 0,
            Health::Degraded { .. } => 1,
            Health::Failed { .. } => 2,
        };
        // The last one of the largest is taken.
        let all = [&self.reserve, &self.store, &self.writer].into_iter();
        all.map(|source| &source.health).max_by_key(|health| rank(health)).cloned().unwrap_or(Health::Sound)
    }

    /// Whether the disk is full, and nothing else is wrong with it.
    pub(crate) fn is_disk_full(&self) -> bool {
        let all = [&self.writer, &self.store, &self.reserve];
        let mut bad = all.into_iter().filter(|source| source.health != Health::Sound).peekable();
        bad.peek().is_some() && bad.all(|source| source.is_disk_full)
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
    fn new(source: HealthSource, by_source: Arc<watch::Sender<HealthBySource>>) -> Self {
        Self { source, by_source, is_escalated: AtomicBool::new(false) }
    }

    pub(crate) fn sound(&self) {
        let previous = self.replace(false, |health| match health {
            Health::Sound => None,
            Health::Degraded { .. } | Health::Failed { .. } => Some(Health::Sound),
        });
        let duration_ms = match previous {
            None | Some(Health::Sound) => return,
            Some(Health::Degraded { since, .. }) => Some(millis_since(since)),
            Some(Health::Failed { .. }) => None,
        };
        self.is_escalated.store(false, Ordering::Relaxed);
        info!(source = self.source.name(), duration_ms, "writes succeed again");
    }

    /// Called for every failed try, and logs an outage once; once more, as an error, if it lasts.
    pub(crate) fn degraded(&self, fault: &StoreFault) {
        let began = SystemTime::now();
        let is_full = is_disk_full(fault.get_ref());
        let previous = self.replace(is_full, |health| {
            let since = match health {
                Health::Degraded { since, .. } => *since,
                Health::Sound | Health::Failed { .. } => began,
            };
            Some(Health::Degraded { since, problem: fault.clone() })
        });
        let source = self.source.name();
        match previous {
            Some(Health::Degraded { since, .. }) => {
                let duration_ms = millis_since(since);
                if duration_ms >= LASTING_MILLIS && !self.is_escalated.swap(true, Ordering::Relaxed) {
                    error!(source, duration_ms, error = %Chain(fault), "writes still fail; events wait");
                }
            }
            Some(Health::Sound | Health::Failed { .. }) | None if is_full => {
                warn!(source, error = %Chain(fault), "{DISK_FULL}");
            }
            Some(Health::Sound | Health::Failed { .. }) | None => {
                warn!(source, error = %Chain(fault), "writes fail; events wait and are retried");
            }
        }
    }

    pub(crate) fn failed(&self, fault: &StoreFault) {
        let previous = self.replace(false, |_| Some(Health::Failed { problem: fault.clone() }));
        if !matches!(previous, Some(Health::Failed { .. })) {
            let source = self.source.name();
            error!(source, error = %Chain(fault), "the store failed permanently; nothing more is accepted");
        }
    }

    /// Sets the health to what `change` returns, and returns the previous one. `None` if it stays.
    fn replace(&self, is_disk_full: bool, change: impl FnOnce(&Health) -> Option<Health>) -> Option<Health> {
        let mut previous = None;
        self.by_source.send_if_modified(|by_source| {
            let source = match self.source {
                HealthSource::Writer => &mut by_source.writer,
                HealthSource::Store => &mut by_source.store,
                HealthSource::Reserve => &mut by_source.reserve,
            };
            if let Some(health) = change(&source.health) {
                let new = SourceHealth { health, is_disk_full };
                previous = Some(std::mem::replace(source, new).health);
            }
            previous.is_some()
        });
        previous
    }
}

fn millis_since(since: SystemTime) -> u64 {
    // A clock that was set back shows no time.
    since.elapsed().map_or(0, |elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use turnstream_testkit::diagnostics::{Level, capture};

    #[test]
    fn an_outage_that_lasts_is_logged_once_more_as_an_error() {
        let (HealthReporters { writer, .. }, health) = HealthBySource::watch();
        let fault = StoreFault::new("no space left");
        let ((), lines) = capture(|| {
            writer.degraded(&fault);
            writer.degraded(&fault);
            let since = SystemTime::now() - Duration::from_millis(LASTING_MILLIS);
            writer.replace(false, |_| Some(Health::Degraded { since, problem: fault.clone() }));
            (0..20).for_each(|_| writer.degraded(&fault));
            assert_ne!(health.borrow().worst(), Health::Sound);
            writer.sound();
            writer.sound();
        });
        let told = lines.iter().filter(|line| line.target.ends_with("log::health"));
        let levels: Vec<Level> = told.map(|line| line.level).collect();
        assert_eq!(levels, [Level::WARN, Level::ERROR, Level::INFO], "{lines:#?}");
        assert_eq!(health.borrow().worst(), Health::Sound);
    }
}
