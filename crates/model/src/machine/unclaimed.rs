//! Text of items that were not introduced yet. After a reconnect, deltas can come before the message that
//! says what they are. Shown as the wrong kind, reasoning would leak into the answer, so they wait for
//! [`Need::Item`].

use crate::id::Key;
use crate::signal::{ItemSeen, Need, Signal};
use std::collections::HashMap;

/// Bytes that may wait in one session.
const MAX_BYTES: usize = 1 << 20;
/// Items that may wait.
const MAX_ITEMS: usize = 1_024;

#[derive(Default)]
struct Pending {
    signals: Vec<Signal>,
    /// Its position in the order of first signals.
    order: u64,
    /// It was introduced, and its turn has not begun.
    early: bool,
    /// Some of it did not fit, so nothing after that is kept.
    holed: bool,
}

/// The signals of an item from before its introduction.
#[derive(Default)]
pub(crate) struct Claimed {
    pub(crate) signals: Vec<Signal>,
    /// Some of it is missing.
    pub(crate) holed: bool,
}

/// The items that wait.
#[derive(Default)]
pub(crate) struct Unclaimed {
    pending: HashMap<Key, Pending>,
    bytes: usize,
    dropped: usize,
    named: u64,
    /// There were too many items to keep. Any item of this turn may lack its beginning.
    overflowed: bool,
}

impl Unclaimed {
    pub(crate) fn knows(&self, key: &Key) -> bool {
        self.pending.contains_key(key)
    }

    /// Keeps a signal about an unknown item, and asks for the item the first time.
    pub(crate) fn keep(&mut self, key: &Key, signal: Signal, needs: &mut Vec<Need>) {
        let bytes = text_bytes(&signal);
        if !self.knows(key) {
            if self.pending.len() == MAX_ITEMS {
                self.overflowed = true;
                self.dropped += bytes;
                return;
            }
            needs.push(Need::Item(key.clone()));
        }
        let fits = self.bytes + bytes <= MAX_BYTES;
        let pending = self.entry(key);
        if pending.holed || !fits {
            pending.holed = true;
            self.dropped += bytes;
        } else {
            pending.signals.push(signal);
            self.bytes += bytes;
        }
    }

    /// Keeps a user's message from before its turn. It is no evidence of work, so nothing is fetched for it.
    pub(crate) fn keep_early(&mut self, seen: ItemSeen) {
        if self.knows(&seen.key) || self.pending.len() == MAX_ITEMS {
            return;
        }
        let pending = self.entry(&seen.key.clone());
        pending.early = true;
        pending.signals.push(Signal::ItemSeen(seen));
    }

    /// Takes the signals of an item that is introduced now.
    pub(crate) fn claim(&mut self, key: &Key) -> Claimed {
        let Pending { signals, holed, .. } = self.pending.remove(key).unwrap_or_default();
        self.bytes -= signals.iter().map(text_bytes).sum::<usize>();
        Claimed { signals, holed: holed || self.overflowed }
    }

    /// Takes the user's messages that waited for a turn, each followed by its other signals.
    pub(crate) fn claim_early(&mut self) -> Vec<Signal> {
        let early = self.pending.iter().filter(|(_, pending)| pending.early);
        let mut keys: Vec<(u64, Key)> = early.map(|(key, pending)| (pending.order, key.clone())).collect();
        keys.sort();
        keys.iter().flat_map(|(_, key)| self.claim(key).signals).collect()
    }

    /// Drops everything and returns the numbers of items and bytes.
    pub(crate) fn give_up(&mut self) -> Option<(usize, usize)> {
        let items = self.pending.len();
        let bytes = self.bytes + self.dropped;
        *self = Self::default();
        (bytes > 0).then_some((items, bytes))
    }

    fn entry(&mut self, key: &Key) -> &mut Pending {
        self.named += 1;
        let order = self.named;
        self.pending.entry(key.clone()).or_insert_with(|| Pending { order, ..Pending::default() })
    }
}

fn text_bytes(signal: &Signal) -> usize {
    match signal {
        Signal::TextDelta { text, .. } | Signal::TextSnapshot { text, .. } => text.len(),
        // Nothing else is kept here that could be large.
        _ => 0,
    }
}
