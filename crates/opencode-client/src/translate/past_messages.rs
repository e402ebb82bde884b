//! Messages of earlier turns with their parts. A removal names only the message (capture s7), and the log
//! knows only parts.

use super::snapshot::Stored;
use std::collections::{HashMap, VecDeque};

/// The most messages that are kept.
const KEPT: usize = 2_000;

/// The newest messages of earlier turns.
#[derive(Default)]
pub(super) struct PastMessages {
    parts: HashMap<String, Vec<String>>,
    order: VecDeque<String>,
}

impl PastMessages {
    /// Adds a message.
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

    /// Adds a stored message.
    pub(super) fn note_stored(&mut self, stored: &Stored) {
        self.note(&stored.info.id, stored.parts.iter().map(|part| part.id.clone()).collect());
    }

    /// The ids of the messages.
    pub(super) fn messages(&self) -> impl Iterator<Item = &str> {
        self.parts.keys().map(String::as_str)
    }

    /// Removes a message and returns its parts.
    pub(super) fn remove(&mut self, message: &str) -> Vec<String> {
        let parts = self.parts.remove(message);
        if parts.is_some() {
            self.order.retain(|known| known != message);
        }
        parts.unwrap_or_default()
    }
}
