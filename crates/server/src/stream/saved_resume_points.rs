//! ResumePoints of hubs that ended. A client whose connection broke usually comes back soon, and can
//! continue there.

use super::encoder::ResumePoints;
use super::hub::Key;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most sessions whose resume points are kept. Readers of other sessions get the conversation again.
const REMEMBERED: usize = 64;

/// The saved resume points, the newest last.
#[derive(Default)]
pub(crate) struct SavedResumePoints(Mutex<VecDeque<(Key, ResumePoints)>>);

impl SavedResumePoints {
    /// Saves the resume points of a hub that ends.
    pub(crate) fn save(&self, key: &Key, resume_points: ResumePoints) {
        if resume_points.is_empty() {
            return;
        }
        let mut all = self.lock();
        all.retain(|(other, _)| other != key);
        all.push_back((key.clone(), resume_points));
        if all.len() > REMEMBERED {
            all.pop_front();
        }
    }

    /// Removes and returns the resume points for a new hub.
    pub(crate) fn claim(&self, key: &Key) -> ResumePoints {
        let mut all = self.lock();
        let at = all.iter().position(|(other, _)| other == key);
        at.and_then(|at| all.remove(at)).map(|(_, resume_points)| resume_points).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Key, ResumePoints)>> {
        // The list is valid also after a panic of its holder.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
