//! The latest events of all sessions, shared by all viewers. Each is encoded once. Memory is bounded: a
//! viewer that falls behind is told the state again.

use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use turnstream_model::cursor::Seq;
use turnstream_model::id::{SessionId, TurnId};

/// Most bytes of events that are kept.
const KEPT: usize = 8 << 20;
/// What an entry costs besides its bytes.
const ENTRY: usize = 128;
/// How many entries are newer than what the list of sessions may lack.
const LAST: usize = 1_024;

/// The events of opencode that one event of a log became.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) session: SessionId,
    pub(super) directory: Arc<str>,
    pub(super) progress: Progress,
    /// One JSON object per line.
    pub(super) lines: Bytes,
}

/// How far a session has come with an entry.
#[derive(Clone)]
pub(super) enum Progress {
    /// Up to this event of its log. `over` is the turn that ended with it.
    Reached { seq: Seq, is_busy: bool, over: Option<TurnId> },
    /// It was deleted, or its log was replaced: what was told of it before does not count any more.
    Gone,
}

#[derive(Default)]
struct Kept {
    entries: VecDeque<Entry>,
    /// The number of the first entry.
    first: u64,
    bytes: usize,
}

/// The latest events.
pub(super) struct Ring {
    kept: Mutex<Kept>,
    end: watch::Sender<u64>,
}

/// What a viewer reads next.
pub(super) enum Read {
    /// Entries, and the number of the next one.
    Entries(Vec<Entry>, u64),
    /// The next entry is no longer kept.
    Behind,
}

impl Ring {
    pub(super) fn new() -> Self {
        Self { kept: Mutex::default(), end: watch::Sender::new(0) }
    }

    /// Adds an entry.
    pub(super) fn push(&self, entry: Entry) {
        let mut kept = self.lock();
        kept.bytes += ENTRY + entry.lines.len();
        kept.entries.push_back(entry);
        while kept.bytes > KEPT && kept.entries.len() > 1 {
            if let Some(oldest) = kept.entries.pop_front() {
                kept.bytes -= ENTRY + oldest.lines.len();
                kept.first += 1;
            }
        }
        let end = kept.first + kept.entries.len() as u64;
        drop(kept);
        self.end.send_replace(end);
    }

    /// The number of the next entry.
    pub(super) fn end(&self) -> u64 {
        let kept = self.lock();
        kept.first + kept.entries.len() as u64
    }

    /// Up to `most` entries from this number on.
    pub(super) fn read(&self, from: u64, most: usize) -> Read {
        let kept = self.lock();
        let Some(skip) = from.checked_sub(kept.first) else { return Read::Behind };
        let entries: Vec<Entry> = kept.entries.iter().skip(skip as usize).take(most).cloned().collect();
        let next = from + entries.len() as u64;
        Read::Entries(entries, next)
    }

    /// The sessions of the last entries. The list of sessions learns of a change a moment later.
    pub(super) fn sessions(&self) -> HashMap<SessionId, Arc<str>> {
        let kept = self.lock();
        let last = kept.entries.iter().rev().take(LAST);
        last.map(|entry| (entry.session.clone(), entry.directory.clone())).collect()
    }

    /// Follows the end.
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.end.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // No code that holds the lock panics between two related changes.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, KEPT, Progress, Read, Ring};
    use bytes::Bytes;
    use turnstream_model::cursor::Seq;
    use turnstream_model::id::SessionId;

    fn entry(bytes: usize) -> Entry {
        let lines = Bytes::from(vec![b'x'; bytes]);
        let progress = Progress::Reached { seq: Seq(1), is_busy: true, over: None };
        Entry { session: SessionId::from("s"), directory: "/".into(), progress, lines }
    }

    #[test]
    fn a_viewer_reads_on_until_what_it_needs_is_gone() {
        let ring = Ring::new();
        ring.push(entry(1));
        ring.push(entry(2));
        assert!(matches!(ring.read(0, 9), Read::Entries(entries, 2) if entries.len() == 2));
        assert!(matches!(ring.read(1, 9), Read::Entries(entries, 2) if entries[0].lines.len() == 2));
        assert!(matches!(ring.read(2, 9), Read::Entries(entries, 2) if entries.is_empty()));
        ring.push(entry(KEPT));
        assert!(matches!(ring.read(1, 9), Read::Behind));
        assert_eq!((ring.end(), ring.sessions().len()), (3, 1));
    }
}
