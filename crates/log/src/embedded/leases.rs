//! Who has which session. In memory: the directory has one process, and with it all of its owners are gone.

use crate::store::Known;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The sessions that have an owner, with its epoch.
#[derive(Default)]
pub(super) struct Leases {
    by_key: Mutex<HashMap<i64, u64>>,
}

/// A session that was taken for somebody who has not heard of it yet. Dropped unheard, it is free again.
pub(super) struct Lease {
    leases: Arc<Leases>,
    known: Known,
    kept: bool,
}

impl Leases {
    pub(super) fn is_held(&self, key: i64) -> bool {
        self.lock().contains_key(&key)
    }

    pub(super) fn hold(self: &Arc<Self>, known: Known) -> Lease {
        self.lock().insert(known.key, known.epoch);
        Lease { leases: self.clone(), known, kept: false }
    }

    /// The owner of that epoch is gone. If a newer one has the session, nothing changes.
    pub(super) fn release(&self, key: i64, epoch: u64) {
        let mut by_key = self.lock();
        if by_key.get(&key) == Some(&epoch) {
            by_key.remove(&key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, u64>> {
        // An insert or a removal cannot panic half-way.
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    /// Whoever asked has it, and gives it back.
    pub(super) fn keep(mut self) -> Known {
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
