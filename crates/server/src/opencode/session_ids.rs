//! Our sessions by the letters of their ids at opencode, so that a request looks at one session and not at
//! all of them. The ids are computed: nothing of this is stored.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use turnstream_dialects::opencode::{Names, letters_of};
use turnstream_gateway::{Gateway, SessionWatcher};
use turnstream_model::id::SessionId;

/// The sessions by their letters. It is brought up to date by whoever asks.
pub(crate) struct SessionIds(Mutex<Known>);

struct Known {
    watcher: SessionWatcher,
    /// Two sessions may have the same letters.
    by_letters: HashMap<String, Vec<SessionId>>,
}

impl SessionIds {
    pub(crate) fn new(gateway: &Gateway) -> Self {
        Self(Mutex::new(Known { watcher: gateway.watch(), by_letters: HashMap::new() }))
    }

    /// The sessions that an id of opencode may name. An id of ours names itself.
    pub(super) fn candidates(&self, gateway: &Gateway, id: &str) -> Vec<SessionId> {
        // The map is valid also after a panic of its holder.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.catch_up(gateway);
        let named = letters_of(id).and_then(|letters| known.by_letters.get(letters)).cloned();
        named.into_iter().flatten().chain([SessionId::from(id)]).collect()
    }
}

impl Known {
    /// Reads what has changed since the last time.
    fn catch_up(&mut self, gateway: &Gateway) {
        for entry in self.watcher.changed() {
            let letters = Names::new(entry.id.as_str(), entry.session.created.unwrap_or_default());
            let sessions = self.by_letters.entry(letters.letters().to_owned()).or_default();
            let is_gone = gateway.state_of(&entry.id).is_none();
            sessions.retain(|known| *known != entry.id);
            if !is_gone {
                sessions.push(entry.id);
            } else if sessions.is_empty() {
                self.by_letters.remove(letters.letters());
            }
        }
    }
}
