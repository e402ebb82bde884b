//! Text of items that nobody has introduced yet. After a reconnect deltas come before the message that says what
//! they are; shown as the wrong kind, reasoning would leak into the answer, so they wait for [`Need::Item`].

use crate::event::Field;
use crate::id::Key;
use crate::signal::{Finality, ItemSeen, Need, Signal};

/// Bytes that may wait in one session.
const MAX_BYTES: usize = 1 << 20;

struct Pending {
    key: Key,
    signals: Vec<Signal>,
}

/// What waits, in the order in which its items were first named.
#[derive(Default)]
pub(crate) struct Unclaimed {
    pending: Vec<Pending>,
    bytes: usize,
    /// Bytes that did not fit.
    dropped: usize,
}

impl Unclaimed {
    pub(crate) fn knows(&self, key: &Key) -> bool {
        self.pending.iter().any(|pending| pending.key == *key)
    }

    /// Keeps a signal about an unknown item, and asks for the item the first time.
    pub(crate) fn keep(&mut self, key: &Key, signal: Signal, needs: &mut Vec<Need>) {
        let bytes = text_bytes(&signal);
        if self.bytes + bytes > MAX_BYTES {
            self.dropped += bytes;
            return;
        }
        self.bytes += bytes;
        if let Some(pending) = self.pending.iter_mut().find(|pending| pending.key == *key) {
            pending.signals.push(signal);
        } else {
            self.pending.push(Pending { key: key.clone(), signals: vec![signal] });
            needs.push(Need::Item(key.clone()));
        }
    }

    /// Keeps a user's message that shows before its turn has begun: it is no evidence of work, so it asks nothing.
    pub(crate) fn keep_early(&mut self, seen: ItemSeen) {
        let key = seen.key.clone();
        if !self.knows(&key) {
            self.pending.push(Pending { key, signals: vec![Signal::ItemSeen(seen)] });
        }
    }

    /// What was said of an item before it was introduced.
    pub(crate) fn claim(&mut self, key: &Key) -> Vec<Signal> {
        let Some(index) = self.pending.iter().position(|pending| pending.key == *key) else {
            return Vec::new();
        };
        let signals = self.pending.remove(index).signals;
        self.bytes -= signals.iter().map(text_bytes).sum::<usize>();
        signals
    }

    /// The user's messages that waited for a turn to begin, each followed by what was said of it.
    pub(crate) fn claim_early(&mut self) -> Vec<Signal> {
        let is_early = |pending: &Pending| matches!(pending.signals.first(), Some(Signal::ItemSeen(_)));
        let keys: Vec<Key> = self
            .pending
            .iter()
            .filter(|pending| is_early(pending))
            .map(|pending| pending.key.clone())
            .collect();
        keys.iter().flat_map(|key| self.claim(key)).collect()
    }

    /// Forgets all and tells what was forgotten: items, bytes.
    pub(crate) fn give_up(&mut self) -> Option<(usize, usize)> {
        let items = self.pending.len();
        let bytes = self.bytes + self.dropped;
        *self = Self::default();
        (bytes > 0).then_some((items, bytes))
    }
}

fn text_bytes(signal: &Signal) -> usize {
    match signal {
        Signal::TextDelta { text, .. } | Signal::TextSnapshot { text, .. } => text.len(),
        _ => 0,
    }
}

/// A delta as a signal again, for keeping.
pub(crate) fn delta(key: &Key, field: Field, text: String) -> Signal {
    Signal::TextDelta { key: key.clone(), field, text }
}

/// A snapshot as a signal again, for keeping.
pub(crate) fn snapshot(key: &Key, field: Field, text: String, finality: Finality) -> Signal {
    Signal::TextSnapshot { key: key.clone(), field, text, finality }
}
