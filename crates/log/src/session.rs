//! What the log knows of one session while somebody uses it.

use crate::committed::Committed;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::id::SessionId;

/// What one session keeps in memory beyond what is not settled yet. A follower that is further behind reads the database.
const KEPT_BYTES: usize = 64 * 1024;

/// Shared by the appender, the followers, the writer and the settler of one session.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// Its row in the database.
    pub(crate) key: i64,
    pub(crate) generation: Generation,
    /// The epoch that may append. The writer compares with it.
    epoch: AtomicU64,
    /// The epoch whose appender is alive; 0 for none.
    held: AtomicU64,
    recent: Mutex<Recent>,
    progress: watch::Sender<Progress>,
}

/// What followers wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// The last durable event.
    pub(crate) head: Seq,
    /// The log is closed: there will be no other.
    pub(crate) is_last: bool,
}

/// The last events, contiguous up to the head. What the database does not have yet is always here.
#[derive(Default)]
struct Recent {
    events: VecDeque<Committed>,
    bytes: usize,
    /// The last event that is in the database.
    settled: u64,
}

impl Session {
    pub(crate) fn new(id: SessionId, key: i64, generation: Generation, epoch: u64, head: Seq) -> Self {
        Self {
            id,
            key,
            generation,
            epoch: AtomicU64::new(epoch),
            held: AtomicU64::new(0),
            recent: Mutex::new(Recent { settled: head.0, ..Recent::default() }),
            progress: watch::Sender::new(Progress { head, is_last: false }),
        }
    }

    pub(crate) fn head(&self) -> Seq {
        self.progress.borrow().head
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Nothing will be published any more: whoever waits for it is told.
    pub(crate) fn end(&self) {
        self.progress.send_modify(|progress| progress.is_last = true);
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(crate) fn set_epoch(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::Release);
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire) != 0
    }

    pub(crate) fn hold(&self, epoch: u64) {
        self.held.store(epoch, Ordering::Release);
    }

    /// The appender of that epoch is gone. If a newer one has the session, nothing changes.
    pub(crate) fn release(&self, epoch: u64) {
        let _ = self.held.compare_exchange(epoch, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Shows durable events to followers. Called by the writer alone, after the sync.
    pub(crate) fn publish(&self, events: &[Committed]) {
        let Some(last) = events.last() else { return };
        let mut recent = self.recent();
        for event in events {
            recent.bytes += event.json().len();
            recent.events.push_back(event.clone());
        }
        recent.trim();
        drop(recent);
        self.progress.send_modify(|progress| progress.head = last.seq());
    }

    /// Events up to this one are in the database.
    pub(crate) fn settle(&self, up_to: Seq) {
        let mut recent = self.recent();
        recent.settled = recent.settled.max(up_to.0);
        recent.trim();
    }

    /// Events from `from` on, `max_bytes` of them but at least one; `None` when they are older than what is kept, and
    /// so in the database.
    pub(crate) fn recent_from(&self, from: Seq, max_bytes: usize) -> Option<Vec<Committed>> {
        let recent = self.recent();
        let first = recent.events.front()?.seq();
        let skip = usize::try_from(from.0.checked_sub(first.0)?).ok()?;
        let mut bytes = 0;
        let mut batch = Vec::new();
        for event in recent.events.iter().skip(skip) {
            bytes += event.json().len();
            if bytes > max_bytes && !batch.is_empty() {
                break;
            }
            batch.push(event.clone());
        }
        Some(batch)
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        // Nothing in here panics between two changes that belong together.
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recent {
    fn trim(&mut self) {
        while self.bytes > KEPT_BYTES
            && let Some(oldest) = self.events.front()
            && oldest.seq().0 <= self.settled
        {
            self.bytes -= oldest.json().len();
            self.events.pop_front();
        }
    }
}
