//! What the server has stored, taken in after a gap, a restart, or when a piece has no whole. It is never older than the
//! events before the gap, and its texts are empty while they stream: only what is over is believed.

use super::thread::Author;
use super::{Found, Translator};
use crate::opencode::info::MessageInfo;
use crate::opencode::part::{Part, PartBody};
use crate::opencode::rest::StoredMessage;
use serde::Deserialize;

/// A message with its parts, as `GET /session/{id}/message` answers it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Stored {
    /// The message.
    pub info: MessageInfo,
    /// Its parts, in order.
    pub parts: Vec<Part>,
}

impl Stored {
    /// Reads a message; parts of a shape that this version does not know are left out, and a message of one is none.
    pub fn read(raw: StoredMessage) -> Option<Self> {
        let info = serde_json::from_value(raw.info).ok()?;
        let parts = raw.parts.into_iter().filter_map(|part| serde_json::from_value(part).ok()).collect();
        Some(Self { info, parts })
    }

    /// True for what a person wrote: opencode puts messages of its own between them.
    pub fn is_persons(&self) -> bool {
        let synthetic = |part: &Part| match &part.body {
            PartBody::Text(text) => text.synthetic,
            PartBody::Other(name) => name == "compaction",
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
    /// Takes in one message of one of the sessions.
    pub fn stored(&mut self, message: &Stored, found: &mut Found) {
        let session = message.info.session.clone();
        let child = (session != self.session()).then_some(session.as_str());
        if child.is_some_and(|child| !self.children.contains_key(child)) {
            return;
        }
        self.storing = true;
        let ends = message.info.is_over();
        // What ends it comes last: its parts may be all that tells of its call.
        let mut opening = message.info.clone();
        opening.time.completed = None;
        opening.error = None;
        self.message(if ends { &opening } else { &message.info }, child, found);
        for (place, part) in message.parts.iter().enumerate() {
            if is_left_behind(message, place) {
                // Its pieces may still come, when the stream is behind.
                let known = self.thread_mut(child).part(&part.id, &part.message);
                found.signals.extend(known.end_half());
                known.void = true;
                continue;
            }
            self.part(part, child, found);
        }
        if ends {
            self.message(&message.info, child, found);
        }
        self.storing = false;
    }

    /// Takes in the messages of this turn out of all messages of the session, in their order.
    pub fn stored_turn(&mut self, messages: &[Stored], found: &mut Found) {
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
            self.stored(stored, found);
        }
    }

    /// Remembers messages of before this conversation, so that what is taken back of them can be named.
    pub fn remember(&mut self, messages: &[Stored]) {
        let unknown = messages.iter().filter(|stored| !self.main.messages.contains_key(&stored.info.id));
        unknown.for_each(|stored| self.past.note_stored(stored));
    }

    /// Where the last turn begins, for a session of which nothing is known: at the last message that a person wrote.
    pub fn assume_last_turn(&mut self, messages: &[Stored]) {
        if self.first.is_none() {
            let last = messages.iter().rev().find(|stored| stored.is_persons());
            self.first = last.map(|stored| stored.info.id.clone());
        }
    }

    /// True when the stored messages show an answer to this prompt.
    pub fn is_answered(messages: &[Stored], prompt: &str) -> bool {
        messages.iter().any(|stored| stored.info.parent.as_deref() == Some(prompt))
    }

    /// A message is gone: so are its parts.
    pub fn forget(&mut self, message: &str, found: &mut Found) {
        self.message_removed(message, None, found);
    }

    /// A part is gone, although its message is not.
    pub fn forget_part(&mut self, part: &str, found: &mut Found) {
        self.part_removed(part, None, found);
    }

    /// The parts of the session that are known, each with its message.
    pub fn known_parts(&self) -> Vec<(String, String)> {
        let known = self.main.introduced_parts();
        known.map(|(part, message)| (message.to_owned(), part.to_owned())).collect()
    }

    /// The messages of turns that are long over, as far as they are remembered.
    pub fn past_messages(&self) -> Vec<String> {
        self.past.messages().map(str::to_owned).collect()
    }

    /// The messages of the session that are known with their author.
    pub fn known_messages(&self) -> Vec<String> {
        let known = self.main.messages.iter().filter(|(_, message)| message.author != Author::Unknown);
        known.map(|(id, _)| id.clone()).collect()
    }
}

/// A text that a repeated model call left behind: it stays empty for ever (captures j1, i2).
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
