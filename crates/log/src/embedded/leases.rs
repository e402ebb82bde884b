//! The owners of sessions. In memory: a directory is used by one process, and its owners end with it.

use crate::store::SessionRecord;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The sessions that have an owner, with the owner's epoch.
#[derive(Default)]
pub(super) struct Leases {
    by_key: Mutex<HashMap<i64, u64>>,
}

/// A claimed session that its caller has not received yet. If this is dropped, the session is free again.
pub(super) struct Lease {
    leases: Arc<Leases>,
    known: SessionRecord,
    kept: bool,
}

impl Leases {
    pub(super) fn is_held(&self, key: i64) -> bool {
        self.lock().contains_key(&key)
    }

    pub(super) fn hold(self: &Arc<Self>, known: SessionRecord) -> Lease {
        self.lock().insert(known.key, known.epoch);
        Lease { leases: self.clone(), known, kept: false }
    }

    /// Releases the session, unless a newer owner has it.
    pub(super) fn release(&self, key: i64, epoch: u64) {
        let mut by_key = self.lock();
        if by_key.get(&key) == Some(&epoch) {
            by_key.remove(&key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, u64>> {
        // No panic can happen during an insert or a removal.
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    /// The caller has received the session and will release it.
    pub(super) fn keep(mut self) -> SessionRecord {
        self.kept = true;
        self.known.clone()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.kept {
            self.leases.release(self.known.key, self.known.epoch);
        }
    }
}
