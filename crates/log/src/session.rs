//! The in-memory state of one session that is in use.

use crate::committed::Committed;
use crate::store::SessionRecord;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::id::SessionId;

/// Bytes of flushed events that a session keeps in memory. A follower that is further behind reads the store.
const KEPT_BYTES: usize = 64 * 1024;

/// Shared by the appender, the followers, the writer and the store of one session.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// The store's key of the session.
    pub(crate) key: i64,
    pub(crate) generation: Generation,
    /// The newest owner epoch known to this process. A store with a single process fences appends by it.
    epoch: AtomicU64,
    recent: Mutex<Recent>,
    /// The first event that is still kept.
    oldest: AtomicU64,
    /// The last durable event.
    head: AtomicU64,
    is_deleted: AtomicBool,
    progress: watch::Sender<Progress>,
}

/// What followers wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// The last durable event that followers were woken for.
    pub(crate) head: Seq,
    /// The log is closed or the session is deleted: nothing will be published any more.
    pub(crate) is_last: bool,
}

/// The latest committed events, without gaps. Events that are not flushed yet are always here.
#[derive(Default)]
struct Recent {
    events: VecDeque<Committed>,
    bytes: usize,
    /// The last flushed event: readers of the store can find it.
    flushed: u64,
    /// Events up to this one have a buffer of their own, not shared with their commits.
    compacted: u64,
}

impl Session {
    pub(crate) fn new(id: &SessionId, known: &SessionRecord) -> Self {
        let SessionRecord { key, generation, epoch, oldest, head } = known.clone();
        Self {
            id: id.clone(),
            key,
            generation,
            epoch: AtomicU64::new(epoch),
            recent: Mutex::new(Recent { flushed: head.0, ..Recent::default() }),
            oldest: AtomicU64::new(oldest.0),
            head: AtomicU64::new(head.0),
            is_deleted: AtomicBool::new(false),
            progress: watch::Sender::new(Progress { head, is_last: false }),
        }
    }

    pub(crate) fn head(&self) -> Seq {
        Seq(self.head.load(Ordering::Acquire))
    }

    pub(crate) fn oldest(&self) -> Seq {
        Seq(self.oldest.load(Ordering::Acquire))
    }

    /// Forgets events before `oldest`, also in memory. Readers of them get
    /// [`ReadError::Trimmed`](crate::ReadError::Trimmed).
    pub(crate) fn trim(&self, oldest: Seq) {
        if self.oldest.fetch_max(oldest.0, Ordering::AcqRel) < oldest.0 {
            self.recent().forget_before(oldest);
        }
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.is_deleted.load(Ordering::Acquire)
    }

    /// Marks the session as deleted. Appends are refused, and followers end after the events in memory.
    pub(crate) fn delete(&self) {
        self.is_deleted.store(true, Ordering::Release);
        self.end();
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Ends all followers: nothing will be published any more.
    pub(crate) fn end(&self) {
        self.progress.send_modify(|progress| progress.is_last = true);
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(crate) fn set_epoch(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::Release);
    }

    /// Publishes durable events. Only the writer calls this, after the commit.
    pub(crate) fn publish(&self, events: &[Committed]) {
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return };
        let mut recent = self.recent();
        if recent.events.back().is_some_and(|newest| newest.seq().next() != first.seq()) {
            // Another process has written to the session in between.
            recent.clear();
        }
        for event in events {
            recent.bytes += event.json().len();
            recent.events.push_back(event.clone());
        }
        recent.trim();
        // Before anyone can receive an event: a cursor must never be beyond the head.
        self.head.fetch_max(last.seq().0, Ordering::AcqRel);
    }

    /// Wakes the followers. This may cost a system call per follower, so the waker thread does it and not the
    /// writer.
    pub(crate) fn wake(&self) {
        self.progress.send_modify(|progress| progress.head = progress.head.max(self.head()));
    }

    /// Another process has committed up to this event. Followers read it from the store.
    pub(crate) fn advance_head(&self, head: Seq) {
        if self.head.fetch_max(head.0, Ordering::AcqRel) < head.0 {
            self.wake();
        }
    }

    /// Readers of the store can find events up to this one.
    pub(crate) fn mark_flushed(&self, up_to: Seq) {
        let mut recent = self.recent();
        recent.flushed = recent.flushed.max(up_to.0);
        recent.trim();
        recent.compact();
    }

    /// True if readers of the store can find this event.
    pub(crate) fn is_flushed(&self, seq: Seq) -> bool {
        self.recent().flushed >= seq.0
    }

    /// True if readers of the store can find every durable event.
    pub(crate) fn is_all_flushed(&self) -> bool {
        self.is_flushed(self.head())
    }

    /// Events from `from` on, up to `max_bytes` but at least one. `None` if they are older than what is in
    /// memory, and therefore in the store.
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
        // No panic can happen between two related changes.
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recent {
    fn clear(&mut self) {
        self.events.clear();
        self.bytes = 0;
    }

    /// Copies the kept events into one buffer when all of them are flushed. Otherwise each of them would keep
    /// the buffer of its whole commit in memory.
    fn compact(&mut self) {
        let Some(last) = self.events.back().map(|event| event.seq().0) else {
            self.events = VecDeque::new();
            return;
        };
        if last > self.flushed || last == self.compacted {
            return;
        }
        self.compacted = last;
        let mut data = Vec::with_capacity(self.bytes);
        for event in &self.events {
            data.extend_from_slice(event.json());
        }
        let data = Bytes::from(data);
        let mut start = 0;
        let own = |event: &Committed| {
            let range = start..start + event.json().len();
            start = range.end;
            Committed::new(event.seq(), event.kind().clone(), data.slice(range))
        };
        self.events = self.events.iter().map(own).collect();
    }

    fn forget_before(&mut self, oldest: Seq) {
        while let Some(event) = self.events.pop_front_if(|event| event.seq() < oldest) {
            self.bytes -= event.json().len();
        }
        // The remaining events may share a buffer with the removed ones.
        self.compacted = 0;
        self.compact();
    }

    fn trim(&mut self) {
        while self.bytes > KEPT_BYTES
            && let Some(oldest) = self.events.front()
            && oldest.seq().0 <= self.flushed
        {
            self.bytes -= oldest.json().len();
            self.events.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT_BYTES, Session};
    use crate::committed::Committed;
    use crate::store::SessionRecord;
    use bytes::Bytes;
    use turnstream_model::cursor::{Generation, Seq};
    use turnstream_model::event::Kind;
    use turnstream_model::id::SessionId;

    fn kind() -> Kind {
        Kind::named("notice")
    }

    #[test]
    fn what_is_kept_of_a_large_commit_does_not_keep_the_commit() {
        let known = SessionRecord {
            key: 1,
            generation: Generation::new("g").unwrap(),
            epoch: 1,
            oldest: Seq(1),
            head: Seq(0),
        };
        let session = Session::new(&SessionId::from("s"), &known);
        let commit = Bytes::from(vec![b'x'; 100 * 100_000]);
        let slice = |seq: u64| {
            let start = (seq as usize - 1) * 100;
            Committed::new(Seq(seq), kind(), commit.slice(start..start + 100))
        };
        let events: Vec<Committed> = (1..=100_000).map(slice).collect();
        session.publish(&events);
        session.mark_flushed(Seq(50_000));
        assert_eq!(session.recent().events.len(), 50_000, "the rest is nowhere else");
        session.mark_flushed(Seq(100_000));
        let kept = session.recent_from(Seq(99_900), usize::MAX).unwrap();
        assert_eq!(kept, events[99_899..]);
        let recent = session.recent();
        let inside = commit.as_ptr_range();
        assert!(recent.events.iter().all(|event| !inside.contains(&event.json().as_ptr())));
        assert!(recent.bytes <= KEPT_BYTES && recent.events.capacity() < 2_000);
    }

    #[test]
    fn whoever_was_handed_an_event_never_finds_the_head_behind_it() {
        let known = SessionRecord {
            key: 1,
            generation: Generation::new("g").unwrap(),
            epoch: 1,
            oldest: Seq(1),
            head: Seq(0),
        };
        let session = Session::new(&SessionId::from("s"), &known);
        let last = 300_000;
        let behind = std::thread::scope(|scope| {
            scope.spawn(|| {
                for seq in 1..=last {
                    session.publish(&[Committed::new(Seq(seq), kind(), Bytes::from_static(b"{}"))]);
                    session.mark_flushed(Seq(seq.saturating_sub(8)));
                }
            });
            let (mut behind, mut next) = (0, Seq(1));
            while next.0 <= last {
                let Some(event) = session.recent_from(next, 1).and_then(|events| events.last().cloned())
                else {
                    next = session.head().next();
                    continue;
                };
                // A client that returns with this cursor is compared with the head.
                behind += u32::from(session.head() < event.seq());
                next = session.head().max(event.seq()).next();
            }
            behind
        });
        assert_eq!(behind, 0, "cursors that are said to be beyond the head");
    }
}
