//! The thread that commits. One write and one sync for everything that waits; publication only after it.

use crate::batch::{Batch, Merge, Waited};
use crate::error::AppendError;
use crate::health::Reporter;
use crate::queue::{Queue, Taken};
use crate::segment::Segments;
use crate::sessions::Sessions;
use crate::trouble::Trouble;
use crate::unsettled::Unsettled;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How often a failing commit is tried again: quickly at first, then about this often.
pub(crate) const SLOWEST_RETRY: Duration = Duration::from_millis(250);
/// How long a closing log goes on trying on a disk that fails.
pub(crate) const CLOSING: Duration = Duration::from_millis(500);
/// Without work, how long until it looks which segments have been settled.
const PATIENCE: Duration = Duration::from_millis(100);

/// Everything the writing thread has.
pub(crate) struct Writer {
    pub(crate) segments: Segments,
    pub(crate) queue: Arc<Queue>,
    pub(crate) merge: Merge,
    pub(crate) health: Reporter,
    pub(crate) unsettled: Arc<Unsettled>,
    pub(crate) sessions: Arc<Sessions>,
    /// The disk failed until the log was closed.
    pub(crate) given_up: bool,
    /// The last time that the disk failed for a while.
    pub(crate) trouble: Option<Trouble>,
    /// Sessions that do not know yet that they had to wait.
    pub(crate) untold: Vec<Waited>,
}

/// A commit that is durable.
struct Persisted {
    /// The segment that holds it.
    serial: u64,
    /// What the disk said before it succeeded.
    trouble: Option<String>,
}

impl Writer {
    /// Ends when the queue is closed and empty.
    pub(crate) fn run(mut self) {
        // However this ends, the settler hears of it: it settles what it has and ends too. Followers end with what is
        // durable.
        let _end = EndOnDrop(self.unsettled.clone(), self.sessions.clone());
        loop {
            match self.queue.take(PATIENCE) {
                Taken::Work(appends) => self.commit(Batch::of(appends, self.merge)),
                Taken::Quiet => {}
                Taken::Closed => return,
            }
            self.segments.settled(self.unsettled.settled_serial());
        }
    }

    fn commit(&mut self, batch: Batch) {
        if batch.groups.is_empty() {
            return batch.accept();
        }
        if self.given_up {
            return batch.refuse(&AppendError::Closed);
        }
        match self.persist(&batch) {
            Ok(Persisted { serial, trouble }) => {
                self.note(&batch, trouble);
                self.publish(batch, serial);
                self.tell();
            }
            Err(error) => batch.refuse(&error),
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
        self.untold.extend(waited);
    }

    /// Tells the sessions whose events had to wait: nothing was lost, and for how long nothing could be kept.
    fn tell(&mut self) {
        if self.untold.is_empty() {
            return;
        }
        let batch = Batch::of_notices(&self.untold);
        // If the disk fails again, they are told after the next commit.
        if let Ok(serial) = self.segments.append(&batch.groups) {
            self.untold.clear();
            self.publish(batch, serial);
        }
    }

    fn publish(&mut self, batch: Batch, serial: u64) {
        let Batch { groups, replies } = batch;
        for group in &groups {
            group.session.publish(&group.events);
        }
        turnstream_failpoint::reach("log.published");
        for reply in replies {
            // Nobody waits for most appends.
            let _ = reply.done.send(Ok(reply.last));
        }
        self.unsettled.put(groups, serial);
    }

    /// Tries until it succeeds, and gives up only when the log closes: nothing is lost while it waits, and nothing is
    /// shown.
    fn persist(&mut self, batch: &Batch) -> Result<Persisted, AppendError> {
        let mut pause = Duration::from_millis(5);
        let mut closing: Option<Instant> = None;
        let mut trouble = None;
        loop {
            match self.segments.append(&batch.groups) {
                Ok(serial) => {
                    self.health.sound();
                    return Ok(Persisted { serial, trouble });
                }
                Err(error) => {
                    self.health.degraded(&error.to_string());
                    trouble = Some(error.to_string());
                }
            }
            if self.queue.is_closed() && closing.get_or_insert_with(Instant::now).elapsed() > CLOSING {
                // What comes after a refused batch may not be kept in its place.
                self.given_up = true;
                return Err(AppendError::Closed);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(SLOWEST_RETRY);
        }
    }
}

struct EndOnDrop(Arc<Unsettled>, Arc<Sessions>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
        self.1.end();
    }
}
