//! What is known of one opencode session: the one we talk to, or a subagent's below it.

use super::Found;
use crate::opencode::event::Event;
use crate::opencode::info::MessageInfo;
use crate::opencode::part::Part;
use std::collections::HashMap;
use std::sync::Arc;
use turnstream_json::Seam;
use turnstream_model::event::Field;
use turnstream_model::id::Key;
use turnstream_model::signal::Signal;

/// Events of a subagent that may wait until the call it works for is known.
const HELD: usize = 4_096;

/// One session of opencode.
pub(super) struct Thread {
    session: String,
    pub(super) place: Place,
    pub(super) messages: HashMap<String, Message>,
    parts: HashMap<String, Known>,
    /// Calls by the model's name of them.
    calls: HashMap<String, Key>,
    /// Its last status was idle, and the event that always follows it has not come yet.
    pub(super) idle_said: bool,
    /// The turn in which it was last heard of.
    pub(super) turn: u64,
    /// More came than could wait for its call.
    pub(super) overflowed: bool,
}

/// Whose work it is.
pub(super) enum Place {
    /// The session we talk to.
    Root,
    /// A subagent's, and for which call is not known yet.
    Unlinked(Vec<Arc<Event>>),
    /// A subagent's, that works for this call.
    Below(Key),
}

/// What is known of a part.
pub(super) struct Known {
    pub(super) key: Key,
    pub(super) message: String,
    /// It was introduced; else only pieces of it came.
    pub(super) introduced: bool,
    /// Nothing will be added to it.
    pub(super) over: bool,
    /// It is a text of the model, or pieces of one.
    pub(super) is_text: bool,
    /// Its model call was repeated before it was over.
    pub(super) void: bool,
    /// Where its pieces meet.
    pub(super) seam: Seam,
    turn: u64,
}

impl Known {
    /// What stands for the half of a character that its last piece ended with, if nothing more comes.
    pub(super) fn end_half(&mut self) -> Option<Signal> {
        let lost = self.seam.end().filter(|_| !self.void && !self.over)?;
        Some(Signal::TextDelta { key: self.key.clone(), field: Field::Text, text: lost.to_string() })
    }
}

/// Who wrote a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Author {
    Unknown,
    User,
    Assistant,
    /// The model, in a turn before this conversation began: nobody here cares.
    Past,
}

/// What is known of a message.
pub(super) struct Message {
    pub(super) author: Author,
    /// It said itself what it is; else that was taken from a part of it.
    pub(super) informed: bool,
    pub(super) summary: bool,
    pub(super) created: f64,
    /// How often its model call was repeated: a repeat keeps the message (captures j1, i2).
    pub(super) repeats: u32,
    /// A repeat was announced and has not begun.
    pub(super) repeat_due: bool,
    /// Its first model call is known.
    pub(super) begun: bool,
    /// A step of it began and has not finished.
    pub(super) stepping: bool,
    /// Steps of it that another owner has seen begin.
    pub(super) seen_steps: u32,
    /// The part that began a step and is known from the server's store only: its stream is behind it.
    pub(super) ahead: Option<String>,
    /// Nothing will be added to it.
    pub(super) over: bool,
    /// Parts that came before it was known who wrote them.
    pub(super) held: Vec<Part>,
    pub(super) turn: u64,
}

impl Message {
    /// The name of its model call, each repeat with its own.
    pub(super) fn call(&self, id: &str) -> Key {
        match self.repeats {
            0 => Key::from(id),
            repeats => Key::from(format!("{id}#{}", repeats + 1)),
        }
    }
}

impl Thread {
    pub(super) fn new(session: &str, place: Place, turn: u64) -> Self {
        Self {
            session: session.to_owned(),
            place,
            messages: HashMap::new(),
            parts: HashMap::new(),
            calls: HashMap::new(),
            idle_said: false,
            turn,
            overflowed: false,
        }
    }

    pub(super) fn session(&self) -> &str {
        &self.session
    }

    /// The call it works for.
    pub(super) fn parent(&self) -> Option<Key> {
        match &self.place {
            Place::Below(key) => Some(key.clone()),
            Place::Root | Place::Unlinked(_) => None,
        }
    }

    /// Keeps an event of a subagent whose call is not known yet. False when it is known. What is too much is left out, and
    /// the server has it when the call is known.
    pub(super) fn hold(&mut self, event: &Arc<Event>) -> bool {
        match &mut self.place {
            Place::Unlinked(held) => {
                if held.len() < HELD {
                    held.push(Arc::clone(event));
                } else {
                    self.overflowed = true;
                }
                true
            }
            Place::Root | Place::Below(_) => false,
        }
    }

    /// True for a message of a turn before this conversation.
    pub(super) fn is_past(&self, message: &str) -> bool {
        self.messages.get(message).is_some_and(|message| message.author == Author::Past)
    }

    /// What is known of a part, if anything is.
    pub(super) fn known(&self, part: &str) -> Option<&Known> {
        self.parts.get(part)
    }

    /// The same, to change it.
    pub(super) fn known_mut(&mut self, part: &str) -> Option<&mut Known> {
        self.parts.get_mut(part)
    }

    /// Texts whose last piece ended in the middle of a character, and to which nothing comes any more: what stands for
    /// its other half.
    pub(super) fn end_halves(&mut self, found: &mut Found) {
        let holds = |known: &&mut Known| known.seam.is_holding();
        let mut parts: Vec<&mut Known> = self.parts.values_mut().filter(holds).collect();
        parts.sort_by(|one, other| one.key.as_str().cmp(other.key.as_str()));
        found.signals.extend(parts.into_iter().filter_map(Known::end_half));
    }

    /// The texts that are open are void: no half of theirs is waited for.
    pub(super) fn forget_halves(&mut self) {
        self.parts.values_mut().for_each(|known| known.seam = Seam::default());
    }

    /// What is known of a part; from now on at least its name. Part ids of two sessions may be the same, so those of
    /// subagents carry theirs.
    pub(super) fn part(&mut self, part: &str, message: &str) -> &mut Known {
        // Twice the look-up only for a part that is new.
        if !self.parts.contains_key(part) {
            let key = match self.place {
                Place::Root => Key::from(part),
                Place::Unlinked(_) | Place::Below(_) => Key::from(format!("{}/{part}", self.session)),
            };
            let known = Known {
                key,
                message: message.to_owned(),
                introduced: false,
                over: false,
                is_text: true,
                void: false,
                seam: Seam::default(),
                turn: self.turn,
            };
            self.parts.insert(part.to_owned(), known);
        }
        self.parts.entry(part.to_owned()).or_insert_with(|| unreachable!("it was inserted above"))
    }

    /// A model call is repeated: the texts of it that are not over are void, also those of which only pieces came.
    pub(super) fn void_texts(&mut self, message: &str, found: &mut Found) {
        let open =
            |known: &&mut Known| known.message == message && known.is_text && !known.over && !known.void;
        for known in self.parts.values_mut().filter(open) {
            known.void = true;
            if !known.introduced {
                found.signals.push(Signal::ItemRemoved(known.key.clone()));
            }
        }
    }

    pub(super) fn forget_part(&mut self, part: &str) -> Option<Known> {
        self.parts.remove(part)
    }

    /// Parts that were seen whole or begin, and not only pieces of them, each with its message.
    pub(super) fn introduced_parts(&self) -> impl Iterator<Item = (&str, &str)> {
        let introduced = self.parts.iter().filter(|(_, known)| known.introduced && !known.void);
        introduced.map(|(part, known)| (part.as_str(), known.message.as_str()))
    }

    /// The parts of a message.
    pub(super) fn parts_of<'a>(&'a self, message: &'a str) -> impl Iterator<Item = (&'a String, &'a Known)> {
        self.parts.iter().filter(move |(_, known)| known.message == message)
    }

    /// True when a part of a message of this turn that is over is not: what ended it was not heard.
    pub(super) fn has_unended(&self) -> bool {
        let is_over = |message: &str| {
            self.messages.get(message).is_some_and(|message| message.over && message.turn == self.turn)
        };
        let unended = |known: &&Known| known.introduced && !known.over && !known.void;
        self.parts.values().filter(unended).any(|known| is_over(&known.message))
    }

    /// Messages of which pieces came, and never what they are pieces of.
    pub(super) fn unintroduced(&self) -> impl Iterator<Item = &str> {
        let parts = self
            .parts
            .values()
            .filter(|known| !known.introduced && !known.void)
            .map(|known| known.message.as_str());
        let waiting = self.messages.iter().filter(|(_, message)| !message.held.is_empty());
        parts.chain(waiting.map(|(id, _)| id.as_str()))
    }

    /// Which message this is a part of.
    pub(super) fn message_of(&self, key: &Key) -> Option<&str> {
        self.parts.values().find(|known| known.key == *key).map(|known| known.message.as_str())
    }

    /// True when nothing will be added to this part.
    pub(super) fn is_over(&self, key: &Key) -> bool {
        self.parts.values().any(|known| known.key == *key && known.over)
    }

    pub(super) fn note_call(&mut self, call: &str, key: &Key) {
        if self.calls.get(call) != Some(key) {
            self.calls.insert(call.to_owned(), key.clone());
        }
    }

    /// The item of a call.
    pub(super) fn call(&self, call: &str) -> Option<Key> {
        self.calls.get(call).cloned()
    }

    /// What is known of a message; from now on at least its name.
    pub(super) fn message(&mut self, id: &str) -> &mut Message {
        let turn = self.turn;
        self.messages.entry(id.to_owned()).or_insert_with(|| Message {
            author: Author::Unknown,
            informed: false,
            summary: false,
            created: 0.0,
            repeats: 0,
            repeat_due: false,
            begun: false,
            stepping: false,
            seen_steps: 0,
            ahead: None,
            over: false,
            held: Vec::new(),
            turn,
        })
    }

    /// Notes what a message says of itself.
    pub(super) fn note(&mut self, info: &MessageInfo) -> &mut Message {
        let message = self.message(&info.id);
        if message.author == Author::Past {
            return message;
        }
        message.author = if info.is_assistant() { Author::Assistant } else { Author::User };
        message.informed = true;
        message.summary = info.is_summary();
        message.created = info.time.created;
        message.over |= info.is_over();
        message
    }

    /// The model's message of this turn that is not over. There is one at most: a session answers one call after the other,
    /// and one that a newer one follows was left by a server that was killed (capture u3). Names ascend with time.
    pub(super) fn open_answers(&self) -> impl Iterator<Item = &str> {
        let is_answer = |message: &Message| message.author == Author::Assistant && message.turn == self.turn;
        let answers = self.messages.iter().filter(move |(_, message)| is_answer(message));
        let last = answers.max_by(|(one, _), (other, _)| one.cmp(other));
        last.filter(|(_, message)| !message.over).map(|(id, _)| id.as_str()).into_iter()
    }

    /// Nothing more comes of what is open: a server that was killed never ends its messages (capture u).
    pub(super) fn give_up_answers(&mut self) {
        self.messages.values_mut().for_each(|message| message.over = true);
    }

    /// A turn began: what is older than the one before is forgotten. Returns the messages of that, with their parts.
    pub(super) fn begin_turn(&mut self, turn: u64) -> Vec<(String, Vec<String>)> {
        self.turn = turn;
        let old = self.messages.iter().filter(|(_, message)| message.turn + 1 < turn);
        let forgotten = old
            .map(|(id, _)| (id.clone(), self.parts_of(id).map(|(part, _)| part.clone()).collect()))
            .collect();
        self.messages.retain(|_, message| message.turn + 1 >= turn);
        self.parts.retain(|_, known| known.turn + 1 >= turn);
        let parts = &self.parts;
        self.calls.retain(|_, key| parts.values().any(|known| known.key == *key));
        forgotten
    }
}
