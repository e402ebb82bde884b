//! Where readers of sessions that nobody follows at the moment can go on: a client whose connection broke comes back soon.

use super::encoder::Checkpoints;
use super::hub::Key;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Sessions that are remembered. One that was forgotten is shown to its readers anew.
const REMEMBERED: usize = 64;

/// Checkpoints of hubs that ended, the newest last.
#[derive(Default)]
pub(crate) struct SavedCheckpoints(Mutex<VecDeque<(Key, Checkpoints)>>);

impl SavedCheckpoints {
    /// Remembers those of a hub that ends.
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

    /// Hands over those of a hub that begins.
    pub(crate) fn claim(&self, key: &Key) -> Checkpoints {
        let mut all = self.lock();
        let at = all.iter().position(|(other, _)| other == key);
        at.and_then(|at| all.remove(at)).map(|(_, checkpoints)| checkpoints).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Key, Checkpoints)>> {
        // A list of whole entries: a panic cannot leave a change of it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
