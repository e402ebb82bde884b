//! Whether the log keeps its promise at the moment.

use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::watch;

/// The state of the disk as the log sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// What is appended becomes durable.
    Sound,
    /// Writes fail for now; what was appended waits, unseen, and is tried again.
    Degraded {
        /// Since when.
        since: SystemTime,
        /// What the disk said last.
        problem: String,
    },
    /// Writes will not succeed again without help.
    Failed {
        /// What the disk said.
        problem: String,
    },
}

/// Who tells: the thread that commits, or the store of what it does beside commits. One that is sound does not hide that
/// the other is not.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    Writer,
    Store,
}

/// Tells how one side is doing.
pub(crate) struct Reporter {
    side: Side,
    sides: Arc<watch::Sender<Sides>>,
}

/// Both sides, for those who watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sides {
    writer: Health,
    store: Health,
}

impl Sides {
    pub(crate) fn watch() -> (Reporter, Reporter, watch::Receiver<Self>) {
        let (sender, receiver) = watch::channel(Self { writer: Health::Sound, store: Health::Sound });
        let sides = Arc::new(sender);
        (
            Reporter { side: Side::Writer, sides: sides.clone() },
            Reporter { side: Side::Store, sides },
            receiver,
        )
    }

    /// The worse of the two.
    pub(crate) fn worst(&self) -> Health {
        match (&self.writer, &self.store) {
            (Health::Failed { .. }, _)
            | (Health::Degraded { .. }, Health::Sound | Health::Degraded { .. }) => self.writer.clone(),
            (_, store) => store.clone(),
        }
    }
}

/// Sees every lasting change of a log's health.
pub struct HealthWatch {
    sides: watch::Receiver<Sides>,
    last: Health,
}

impl HealthWatch {
    pub(crate) fn new(mut sides: watch::Receiver<Sides>) -> Self {
        let last = sides.borrow_and_update().worst();
        Self { sides, last }
    }

    /// The next health that differs from the last one in kind; `None` when the log is closed.
    pub async fn changed(&mut self) -> Option<Health> {
        loop {
            self.sides.changed().await.ok()?;
            let health = self.sides.borrow_and_update().worst();
            let same = std::mem::discriminant(&health) == std::mem::discriminant(&self.last);
            self.last = health.clone();
            if !same {
                return Some(health);
            }
        }
    }
}

impl Reporter {
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
        self.sides.send_if_modified(|sides| {
            let health = match self.side {
                Side::Writer => &mut sides.writer,
                Side::Store => &mut sides.store,
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
