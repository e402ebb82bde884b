//! Stored messages, read after a gap, after a restart, or when a part is missing. They are never older than
//! the events before the gap. The text of a part is empty while it streams, so only complete texts are
//! used.

use super::thread::Author;
use super::{Translated, Translator};
use crate::info::MessageInfo;
use crate::part::{Part, PartBody};
use crate::rest::StoredMessage;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The type of a part that asks for a compaction.
pub(super) const COMPACTION: &str = "compaction";

/// A message with its parts, as `GET /session/{id}/message` answers it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Stored {
    /// The message.
    pub info: MessageInfo,
    /// Its parts, in order.
    pub parts: Vec<Part>,
}

impl Stored {
    /// Reads a message. Parts that cannot be read are left out; `None` if the message itself cannot be read.
    pub fn read(raw: StoredMessage) -> Option<Self> {
        let info = readable(raw.info)?;
        let parts = raw.parts.into_iter().filter_map(readable).collect();
        Some(Self { info, parts })
    }

    /// True for a message of a person: opencode also writes user messages of its own.
    pub fn is_persons(&self) -> bool {
        let synthetic = |part: &Part| match &part.body {
            PartBody::Text(text) => text.synthetic,
            PartBody::Other(name) => name == COMPACTION,
            PartBody::Reasoning(_)
            | PartBody::Tool(_)
            | PartBody::StepStart
            | PartBody::StepFinish { .. }
            | PartBody::File { .. } => false,
        };
        !self.info.is_assistant() && !self.parts.iter().any(synthetic)
    }
}

impl Translator {
    /// Translates one stored message of the session or of a subagent.
    pub fn stored(&mut self, message: &Stored, out: &mut Translated) {
        let session = message.info.session.clone();
        let child = (session != self.session()).then_some(session.as_str());
        if child.is_some_and(|child| !self.children.contains_key(child)) {
            return;
        }
        self.reading_stored = true;
        let ends = message.info.is_over();
        // Its end comes last: the parts may be the only sign of its model call.
        let mut opening = message.info.clone();
        opening.time.completed = None;
        opening.error = None;
        self.message(if ends { &opening } else { &message.info }, child, out);
        for (place, part) in message.parts.iter().enumerate() {
            if is_left_behind(message, place) {
                // If the stream is behind, deltas of it may still come.
                let known = self.thread_mut(child).part(&part.id, &part.message);
                out.signals.extend(known.flush_half_character());
                known.void = true;
                continue;
            }
            self.part(part, child, out);
        }
        if ends {
            self.message(&message.info, child, out);
        }
        self.reading_stored = false;
    }

    /// Translates the messages of this turn, out of all messages of the session in their order.
    pub fn stored_turn(&mut self, messages: &[Stored], out: &mut Translated) {
        if let Some(compaction) = self.requested_compaction(messages) {
            self.compaction_stored(&compaction);
        }
        let is_first = |stored: &&Stored| self.first.as_deref() == Some(stored.info.id.as_str());
        let known = |stored: &&Stored| self.main.messages.contains_key(&stored.info.id);
        let Some(first) = messages
            .iter()
            .position(|stored| is_first(&stored))
            .or_else(|| messages.iter().position(|stored| known(&stored)))
        else {
            return;
        };
        for stored in &messages[first..] {
            self.stored(stored, out);
        }
    }

    /// The stored message of the compaction that was requested, by the order of ids.
    fn requested_compaction(&self, messages: &[Stored]) -> Option<String> {
        let own = self.own.as_ref().filter(|own| own.compaction == Some(None))?;
        let asks = |part: &Part| part.body == PartBody::Other(COMPACTION.to_owned());
        let is_it = |stored: &&Stored| stored.info.id > own.prompt && stored.parts.iter().any(asks);
        messages.iter().find(is_it).map(|stored| stored.info.id.clone())
    }

    /// Notes messages of earlier turns, so that a later removal can name their parts.
    pub fn remember(&mut self, messages: &[Stored]) {
        let unknown = messages.iter().filter(|stored| !self.main.messages.contains_key(&stored.info.id));
        unknown.for_each(|stored| self.past.note_stored(stored));
    }

    /// Assumes that the turn starts at the last message of a person, if its start is not known.
    pub fn assume_last_turn(&mut self, messages: &[Stored]) {
        if self.first.is_none() {
            let last = messages.iter().rev().find(|stored| stored.is_persons());
            self.first = last.map(|stored| stored.info.id.clone());
        }
    }

    /// True if a stored message answers this prompt.
    pub fn is_answered(messages: &[Stored], prompt: &str) -> bool {
        messages.iter().any(|stored| stored.info.parent.as_deref() == Some(prompt))
    }

    /// A message was removed, with its parts.
    pub fn forget(&mut self, message: &str, out: &mut Translated) {
        self.message_removed(message, None, out);
    }

    /// A part was removed from its message.
    pub fn forget_part(&mut self, part: &str, out: &mut Translated) {
        self.part_removed(part, None, out);
    }

    /// The known parts of the session, each with its message.
    pub fn known_parts(&self) -> Vec<(String, String)> {
        let known = self.main.introduced_parts();
        known.map(|(part, message)| (message.to_owned(), part.to_owned())).collect()
    }

    /// The known messages of earlier turns.
    pub fn past_messages(&self) -> Vec<String> {
        self.past.messages().map(str::to_owned).collect()
    }

    /// The messages of the session whose author is known.
    pub fn known_messages(&self) -> Vec<String> {
        let known = self.main.messages.iter().filter(|(_, message)| message.author != Author::Unknown);
        known.map(|(id, _)| id.clone()).collect()
    }
}

/// True for a text or call that a repeated model call left behind: it stays empty for ever (captures j1, i2).
fn is_left_behind(message: &Stored, place: usize) -> bool {
    let is_empty = match &message.parts[place].body {
        PartBody::Text(text) | PartBody::Reasoning(text) => text.text.is_empty() && !text.over,
        PartBody::Tool(call) => call.state.status == "pending",
        PartBody::StepStart | PartBody::StepFinish { .. } | PartBody::File { .. } | PartBody::Other(_) => {
            false
        }
    };
    let is_repeated = message.parts[place..].iter().any(|part| part.body == PartBody::StepStart);
    is_empty && message.info.is_assistant() && (is_repeated || message.info.is_over())
}

/// Reads stored JSON. The log line has no text of it.
pub(crate) fn readable<T: DeserializeOwned>(value: Value) -> Option<T> {
    let read = serde_json::from_value(value);
    read.inspect_err(
        |error| tracing::debug!(category = ?error.classify(), "unreadable stored value of opencode"),
    )
    .ok()
}
