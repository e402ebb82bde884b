//! The thread that commits. One commit of the store for everything that waits; publication only after it.

use crate::batch::{Batch, Merge, Waited};
use crate::error::AppendError;
use crate::figures::Meter;
use crate::health::Reporter;
use crate::queue::Queue;
use crate::sessions::Sessions;
use crate::store::{Commit, Stale, StoreError};
use crate::trouble::Trouble;
use crate::waker::Waker;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How often a failing commit is tried again: quickly at first, then about this often.
pub(crate) const SLOWEST_RETRY: Duration = Duration::from_millis(250);
/// How long a closing log goes on trying on a disk that fails.
pub(crate) const CLOSING: Duration = Duration::from_millis(500);

/// Everything the writing thread has.
pub(crate) struct Writer {
    pub(crate) commits: Box<dyn Commit>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) merge: Merge,
    pub(crate) health: Reporter,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) waker: Waker,
    /// What everyone is told since the store failed for good, or until the log was closed.
    pub(crate) given_up: Option<AppendError>,
    /// The last time that the disk failed for a while.
    pub(crate) trouble: Option<Trouble>,
    /// Sessions that do not know yet that they had to wait.
    pub(crate) untold: Vec<Waited>,
}

/// A commit that is durable.
struct Persisted {
    /// What the store left out of it.
    stale: Vec<Stale>,
    /// What the disk said before it succeeded.
    trouble: Option<String>,
}

impl Writer {
    /// Ends when the queue is closed and empty.
    pub(crate) fn run(mut self) {
        // However this ends, followers end with what is durable. Those who wait for it may hear of it later than of the
        // end, and look for themselves.
        let _end = EndOnDrop(self.sessions.clone());
        while let Some(appends) = self.queue.take() {
            self.commit(Batch::of(appends, self.merge));
            self.commits.between();
        }
    }

    fn commit(&mut self, mut batch: Batch) {
        if batch.groups.is_empty() {
            return batch.accept();
        }
        if let Some(error) = &self.given_up {
            return batch.refuse(error);
        }
        let since = Instant::now();
        match self.persist(&batch) {
            Ok(Persisted { stale, trouble }) => {
                batch.fence(&stale);
                self.meter.committed(batch.events(), since.elapsed());
                self.note(&batch, trouble);
                self.publish(batch);
                self.tell();
            }
            Err(error) => {
                // What comes after a refused batch may not be kept in its place.
                self.given_up = Some(error.clone());
                batch.refuse(&error);
            }
        }
    }

    /// Notes who had to wait, for this commit or for one before it.
    fn note(&mut self, batch: &Batch, problem: Option<String>) {
        let waited = match (problem, &mut self.trouble) {
            (Some(problem), trouble) => trouble.insert(Trouble::ended(&problem)).struck(batch),
            (None, Some(trouble)) if trouble.is_past() => {
                self.trouble = None;
                return;
            }
            (None, Some(trouble)) => trouble.held_up(batch),
            (None, None) => return,
        };
        // Whoever waited before and could not be told since is told once, of the longer wait.
        for mut waited in waited {
            if let Some(place) = self.untold.iter().position(|old| old.session.key == waited.session.key) {
                waited.wait = waited.wait.max(self.untold.swap_remove(place).wait);
            }
            self.untold.push(waited);
        }
    }

    /// Tells the sessions whose events had to wait: nothing was lost, and for how long nothing could be kept.
    fn tell(&mut self) {
        if self.untold.is_empty() {
            return;
        }
        let mut batch = Batch::of_notices(&self.untold);
        // If the disk fails again, they are told after the next commit.
        let since = Instant::now();
        if let Ok(stale) = self.commits.commit(&batch.groups) {
            self.untold.clear();
            batch.fence(&stale);
            self.meter.committed(batch.events(), since.elapsed());
            self.publish(batch);
        }
    }

    /// Shows it, answers those who appended it, and has followers woken.
    fn publish(&mut self, batch: Batch) {
        let Batch { groups, replies } = batch;
        for group in &groups {
            group.session.publish(&group.events);
        }
        for reply in replies {
            // Nobody waits for most appends.
            let _ = reply.done.send(Ok(reply.last));
        }
        self.waker.wake(groups.iter().map(|group| group.session.clone()).collect());
        turnstream_failpoint::reach("log.published");
        self.commits.keep(groups);
    }

    /// Tries until it succeeds, and gives up only when the log closes or the store has failed for good: nothing is lost
    /// while it waits, and nothing is shown.
    fn persist(&mut self, batch: &Batch) -> Result<Persisted, AppendError> {
        let mut pause = Duration::from_millis(5);
        let mut closing: Option<Instant> = None;
        let mut trouble = None;
        loop {
            match self.commits.commit(&batch.groups) {
                Ok(stale) => {
                    self.health.sound();
                    return Ok(Persisted { stale, trouble });
                }
                Err(StoreError::Passing(problem)) => {
                    self.meter.failed();
                    self.health.degraded(&problem);
                    trouble = Some(problem);
                }
                Err(StoreError::Lasting(problem)) => {
                    self.meter.failed();
                    self.health.failed(&problem);
                    return Err(AppendError::Store(problem));
                }
            }
            if self.queue.is_closed() && closing.get_or_insert_with(Instant::now).elapsed() > CLOSING {
                return Err(AppendError::Closed);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(SLOWEST_RETRY);
        }
    }
}

struct EndOnDrop(Arc<Sessions>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}
