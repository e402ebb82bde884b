//! Checkpoints of hubs that ended. A client whose connection broke usually comes back soon, and can
//! continue there.

use super::encoder::Checkpoints;
use super::hub::Key;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most sessions whose checkpoints are kept. Readers of other sessions get the conversation again.
const REMEMBERED: usize = 64;

/// The saved checkpoints, the newest last.
#[derive(Default)]
pub(crate) struct SavedCheckpoints(Mutex<VecDeque<(Key, Checkpoints)>>);

impl SavedCheckpoints {
    /// Saves the checkpoints of a hub that ends.
    pub(crate) fn save(&self, key: &Key, checkpoints: Checkpoints) {
        if checkpoints.is_empty() {
            return;
        }
        let mut all = self.lock();
        all.retain(|(other, _)| other != key);
        all.push_back((key.clone(), checkpoints));
        if all.len() > REMEMBERED {
            all.pop_front();
        }
    }

    /// Removes and returns the checkpoints for a new hub.
    pub(crate) fn claim(&self, key: &Key) -> Checkpoints {
        let mut all = self.lock();
        let at = all.iter().position(|(other, _)| other == key);
        at.and_then(|at| all.remove(at)).map(|(_, checkpoints)| checkpoints).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Key, Checkpoints)>> {
        // The list is valid also after a panic of its holder.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
