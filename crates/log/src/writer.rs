//! The writer thread: one commit for everything that waits, then publication.

use crate::batch::{Batch, DelayedSession, Merge};
use crate::diagnostics::{SlowCommits, answer};
use crate::error::{AppendError, StoreFault};
use crate::figures::Meter;
use crate::health::HealthReporter;
use crate::outage::Outage;
use crate::queue::Queue;
use crate::sessions::Sessions;
use crate::store::{Commit, Stale, StoreError};
use crate::waker::Waker;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tracing::{debug, error, trace};
use turnstream_model::Chain;

/// The longest pause between two tries of a failing commit.
pub(crate) const SLOWEST_RETRY: Duration = Duration::from_millis(250);
/// How long a log that is closing keeps trying on a failing disk.
pub(crate) const CLOSING: Duration = Duration::from_millis(500);

/// The state of the writer thread.
pub(crate) struct Writer {
    pub(crate) commits: Box<dyn Commit>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) merge: Merge,
    pub(crate) health: HealthReporter,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) waker: Waker,
    /// The answer to every append after the store has failed permanently, or after the log gave up closing.
    pub(crate) refusal: Option<AppendError>,
    /// The latest outage of the disk.
    pub(crate) outage: Option<Outage>,
    /// Delayed sessions without a notice yet.
    pub(crate) unnotified: Vec<DelayedSession>,
    pub(crate) slow_commits: SlowCommits,
}

/// A commit that is durable.
struct Persisted {
    /// Groups that the store left out.
    stale: Vec<Stale>,
    /// The last error before the commit succeeded, if it was retried.
    fault: Option<StoreFault>,
}

impl Writer {
    /// Runs until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        // However this thread ends, followers end after the durable events. A follower may learn of the end
        // before it is woken for the last events; it then reads them anyway.
        let _end = EndOnDrop(self.sessions.clone());
        while let Some(appends) = self.queue.next_commit() {
            self.commit(Batch::of(appends, self.merge));
            self.commits.between_commits();
        }
    }

    fn commit(&mut self, mut batch: Batch) {
        if batch.groups.is_empty() {
            return batch.accept();
        }
        if let Some(error) = &self.refusal {
            return batch.refuse(error);
        }
        let since = Instant::now();
        match self.persist(&batch) {
            Ok(Persisted { stale, fault }) => {
                let took = since.elapsed();
                batch.fence(&stale);
                self.meter.committed(batch.events(), took);
                trace!(events = batch.events(), micros = took.as_micros(), "committed");
                // A commit that was retried has been logged as an outage.
                if fault.is_none() {
                    self.slow_commits.note(batch.events(), took);
                }
                self.record_delays(&batch, fault);
                self.publish(batch);
                self.send_notices();
            }
            Err(error) => {
                // Later batches must not take the place of a refused one.
                self.refusal = Some(error.clone());
                batch.refuse(&error);
            }
        }
    }

    /// Records which sessions were delayed, by this commit or an earlier one.
    fn record_delays(&mut self, batch: &Batch, fault: Option<StoreFault>) {
        // A notice that is late must not have an earlier time than the events before it.
        for delayed in &mut self.unnotified {
            let same = batch.groups.iter().filter(|group| group.session.key == delayed.session.key);
            let last = same.filter_map(|group| group.parsed.last()).map(|event| event.time).max();
            delayed.time = delayed.time.max(last.unwrap_or_default());
        }
        let waited = match (fault, &mut self.outage) {
            (Some(fault), outage) => outage.insert(Outage::ended(&fault)).in_failed_commit(batch),
            (None, Some(outage)) if outage.is_past() => {
                self.outage = None;
                return;
            }
            (None, Some(outage)) => outage.delayed_behind(batch),
            (None, None) => return,
        };
        // A session that has no notice of an earlier delay gets one notice, with the longer delay.
        for mut waited in waited {
            if let Some(place) = self.unnotified.iter().position(|old| old.session.key == waited.session.key)
            {
                waited.wait = waited.wait.max(self.unnotified.swap_remove(place).wait);
            }
            self.unnotified.push(waited);
        }
    }

    /// Appends notices to the sessions that were delayed: how long, and that nothing was lost.
    fn send_notices(&mut self) {
        if self.unnotified.is_empty() {
            return;
        }
        let mut batch = Batch::of_notices(&self.unnotified);
        let since = Instant::now();
        match self.commits.commit(&batch.groups) {
            Ok(stale) => {
                self.unnotified.clear();
                batch.fence(&stale);
                self.meter.committed(batch.events(), since.elapsed());
                self.publish(batch);
            }
            Err(error) => {
                let (sessions, error) = (self.unnotified.len(), Chain(&error));
                debug!(sessions, %error, "no notice of the outage yet; the next commit retries");
            }
        }
    }

    /// Publishes the events, answers their callers, and wakes the followers.
    fn publish(&mut self, batch: Batch) {
        let Batch { groups, replies } = batch;
        for group in &groups {
            group.session.publish(&group.events);
        }
        for reply in replies {
            answer(reply.done, Ok(reply.last));
        }
        self.waker.wake(groups.iter().map(|group| group.session.clone()).collect());
        turnstream_failpoint::reach("log.published");
        self.commits.published(groups);
    }

    /// Commits until it succeeds. Gives up only if the log is closing or the store has failed permanently.
    /// Nothing is lost or published while this retries.
    fn persist(&mut self, batch: &Batch) -> Result<Persisted, AppendError> {
        let mut pause = Duration::from_millis(5);
        let mut closing: Option<Instant> = None;
        let mut last_fault = None;
        loop {
            match self.commits.commit(&batch.groups) {
                Ok(stale) => {
                    self.health.sound();
                    return Ok(Persisted { stale, fault: last_fault });
                }
                Err(StoreError::Transient(fault)) => {
                    self.meter.failed();
                    self.health.degraded(&fault);
                    last_fault = Some(fault);
                }
                Err(StoreError::Permanent(fault)) => {
                    self.meter.failed();
                    self.health.failed(&fault);
                    return Err(AppendError::Store(fault));
                }
            }
            if self.queue.is_closed() && closing.get_or_insert_with(Instant::now).elapsed() > CLOSING {
                let events = batch.events();
                error!(events, "the log closes while the disk fails; these events are lost");
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
