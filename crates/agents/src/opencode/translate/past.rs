//! Messages of turns that are long over, by the names of their parts: when one is taken back, opencode names the message
//! alone (capture s7), and a log knows only its parts.

use super::snapshot::Stored;
use std::collections::{HashMap, VecDeque};

/// How many messages are remembered.
const KEPT: usize = 2_000;

/// The newest of them.
#[derive(Default)]
pub(super) struct Past {
    parts: HashMap<String, Vec<String>>,
    order: VecDeque<String>,
}

impl Past {
    /// Remembers a message.
    pub(super) fn note(&mut self, message: &str, parts: Vec<String>) {
        if self.parts.insert(message.to_owned(), parts).is_none() {
            self.order.push_back(message.to_owned());
        }
        if self.order.len() > KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.parts.remove(&oldest);
        }
    }

    /// Remembers a message that the server has.
    pub(super) fn note_stored(&mut self, stored: &Stored) {
        self.note(&stored.info.id, stored.parts.iter().map(|part| part.id.clone()).collect());
    }

    /// The messages that are remembered.
    pub(super) fn messages(&self) -> impl Iterator<Item = &str> {
        self.parts.keys().map(String::as_str)
    }

    /// The parts of a message that is taken back.
    pub(super) fn take(&mut self, message: &str) -> Vec<String> {
        let parts = self.parts.remove(message);
        if parts.is_some() {
            self.order.retain(|known| known != message);
        }
        parts.unwrap_or_default()
    }
}
