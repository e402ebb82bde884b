//! What is known of one session of opencode: the main one, or that of a subagent.

use super::Translated;
use crate::event::Event;
use crate::info::MessageInfo;
use crate::part::Part;
use std::collections::HashMap;
use std::sync::Arc;
use turnstream_json::Seam;
use turnstream_model::event::Field;
use turnstream_model::id::Key;
use turnstream_model::signal::Signal;

/// The most events of a subagent that are held until its tool call is known.
const MOST_HELD: usize = 4_096;

/// One session of opencode.
pub(super) struct Thread {
    session: String,
    pub(super) place: ThreadPlace,
    pub(super) messages: HashMap<String, Message>,
    parts: HashMap<String, KnownPart>,
    /// The items of tool calls, by the model's id of the call.
    calls: HashMap<String, Key>,
    /// Its last status was idle, and the idle event that follows has not come yet.
    pub(super) idle_reported: bool,
    /// The turn in which it was last active.
    pub(super) turn: u64,
    /// More events came than could be held.
    pub(super) overflowed: bool,
}

/// The place of a session among the sessions of a turn.
pub(super) enum ThreadPlace {
    /// The main session.
    Root,
    /// A subagent whose tool call is not known yet, with its held events.
    Unlinked(Vec<Arc<Event>>),
    /// A subagent of this tool call.
    Below(Key),
}

/// What is known of a part.
pub(super) struct KnownPart {
    pub(super) key: Key,
    pub(super) message: String,
    /// The part itself was seen, not only deltas of it.
    pub(super) introduced: bool,
    /// It is complete.
    pub(super) over: bool,
    /// It is a text or reasoning of the model.
    pub(super) is_text: bool,
    /// Its model call was repeated before it was complete.
    pub(super) void: bool,
    /// Joins characters that were cut between two deltas.
    pub(super) seam: Seam,
    turn: u64,
}

impl KnownPart {
    /// U+FFFD for half a character at its end, if nothing more comes.
    pub(super) fn flush_half_character(&mut self) -> Option<Signal> {
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
    /// The model, in a turn before the prompt was sent. Ignored.
    EarlierTurn,
}

/// What is known of a message.
pub(super) struct Message {
    pub(super) author: Author,
    /// The message itself was seen; otherwise its author was derived from a part.
    pub(super) informed: bool,
    pub(super) summary: bool,
    pub(super) created: f64,
    /// How often its model call was repeated. A retry keeps the message (captures j1, i2).
    pub(super) repeats: u32,
    /// A retry was announced and has not started.
    pub(super) repeat_due: bool,
    /// Its first model call is known.
    pub(super) begun: bool,
    /// A step of it started and has not finished.
    pub(super) stepping: bool,
    /// Steps of it that an earlier link has reported.
    pub(super) seen_steps: u32,
    /// The part that started a step and is known only from a snapshot, which was ahead of the stream.
    pub(super) ahead: Option<String>,
    /// It is complete.
    pub(super) over: bool,
    /// opencode wrote it in the user's name, to report what a subagent has done.
    pub(super) reports_subagent: bool,
    /// Parts that are held until the author is known.
    pub(super) held: Vec<Part>,
    pub(super) turn: u64,
}

impl Message {
    /// The id of its model call. Each retry has its own.
    pub(super) fn call(&self, id: &str) -> Key {
        match self.repeats {
            0 => Key::from(id),
            repeats => Key::from(format!("{id}#{}", repeats + 1)),
        }
    }
}

impl Thread {
    pub(super) fn new(session: &str, place: ThreadPlace, turn: u64) -> Self {
        Self {
            session: session.to_owned(),
            place,
            messages: HashMap::new(),
            parts: HashMap::new(),
            calls: HashMap::new(),
            idle_reported: false,
            turn,
            overflowed: false,
        }
    }

    pub(super) fn session(&self) -> &str {
        &self.session
    }

    /// The tool call of a subagent.
    pub(super) fn parent(&self) -> Option<Key> {
        match &self.place {
            ThreadPlace::Below(key) => Some(key.clone()),
            ThreadPlace::Root | ThreadPlace::Unlinked(_) => None,
        }
    }

    /// Holds an event of a subagent whose tool call is not known yet. Returns false if it is known. Too
    /// many events are dropped: a snapshot is requested when the call is known.
    pub(super) fn hold(&mut self, event: &Arc<Event>) -> bool {
        match &mut self.place {
            ThreadPlace::Unlinked(held) => {
                if held.len() < MOST_HELD {
                    held.push(Arc::clone(event));
                } else {
                    self.overflowed = true;
                }
                true
            }
            ThreadPlace::Root | ThreadPlace::Below(_) => false,
        }
    }

    /// True for a message of a turn before the prompt was sent.
    pub(super) fn is_past(&self, message: &str) -> bool {
        self.messages.get(message).is_some_and(|message| message.author == Author::EarlierTurn)
    }

    /// A part, if it is known.
    pub(super) fn known(&self, part: &str) -> Option<&KnownPart> {
        self.parts.get(part)
    }

    /// Like [`Thread::known`], mutable.
    pub(super) fn known_mut(&mut self, part: &str) -> Option<&mut KnownPart> {
        self.parts.get_mut(part)
    }

    /// Ends all open texts: half a character at the end of one becomes U+FFFD.
    pub(super) fn flush_half_characters(&mut self, out: &mut Translated) {
        let holds = |known: &&mut KnownPart| known.seam.is_holding();
        let mut parts: Vec<&mut KnownPart> = self.parts.values_mut().filter(holds).collect();
        parts.sort_by(|one, other| one.key.as_str().cmp(other.key.as_str()));
        out.signals.extend(parts.into_iter().filter_map(KnownPart::flush_half_character));
    }

    /// Drops half characters: the open texts are void.
    pub(super) fn drop_half_characters(&mut self) {
        self.parts.values_mut().for_each(|known| known.seam = Seam::default());
    }

    /// The entry of a part, which is created if it is new. Part ids of two sessions may be the same, so the
    /// keys of subagents contain their session.
    pub(super) fn part(&mut self, part: &str, message: &str) -> &mut KnownPart {
        let (place, session, turn) = (&self.place, &self.session, self.turn);
        self.parts.entry(part.to_owned()).or_insert_with(|| KnownPart {
            key: match place {
                ThreadPlace::Root => Key::from(part),
                ThreadPlace::Unlinked(_) | ThreadPlace::Below(_) => Key::from(format!("{session}/{part}")),
            },
            message: message.to_owned(),
            introduced: false,
            over: false,
            is_text: true,
            void: false,
            seam: Seam::default(),
            turn,
        })
    }

    /// A model call is repeated: its incomplete texts are void, also those of which only deltas came.
    pub(super) fn void_texts(&mut self, message: &str, out: &mut Translated) {
        let open =
            |known: &&mut KnownPart| known.message == message && known.is_text && !known.over && !known.void;
        for known in self.parts.values_mut().filter(open) {
            known.void = true;
            if !known.introduced {
                out.signals.push(Signal::ItemRemoved(known.key.clone()));
            }
        }
    }

    pub(super) fn forget_part(&mut self, part: &str) -> Option<KnownPart> {
        self.parts.remove(part)
    }

    /// Parts that were seen themselves, not only as deltas, each with its message.
    pub(super) fn introduced_parts(&self) -> impl Iterator<Item = (&str, &str)> {
        let introduced = self.parts.iter().filter(|(_, known)| known.introduced && !known.void);
        introduced.map(|(part, known)| (part.as_str(), known.message.as_str()))
    }

    /// The parts of a message.
    pub(super) fn parts_of<'a>(
        &'a self,
        message: &'a str,
    ) -> impl Iterator<Item = (&'a String, &'a KnownPart)> {
        self.parts.iter().filter(move |(_, known)| known.message == message)
    }

    /// True if a complete message of this turn has an incomplete part: the end of the part was missed.
    pub(super) fn has_unended(&self) -> bool {
        let is_over = |message: &str| {
            self.messages.get(message).is_some_and(|message| message.over && message.turn == self.turn)
        };
        let unended = |known: &&KnownPart| known.introduced && !known.over && !known.void;
        self.parts.values().filter(unended).any(|known| is_over(&known.message))
    }

    /// Messages of which deltas or parts came without the part or the message itself.
    pub(super) fn unintroduced(&self) -> impl Iterator<Item = &str> {
        let parts = self
            .parts
            .values()
            .filter(|known| !known.introduced && !known.void)
            .map(|known| known.message.as_str());
        let waiting = self.messages.iter().filter(|(_, message)| !message.held.is_empty());
        parts.chain(waiting.map(|(id, _)| id.as_str()))
    }

    /// The message of an item.
    pub(super) fn message_of(&self, key: &Key) -> Option<&str> {
        self.parts.values().find(|known| known.key == *key).map(|known| known.message.as_str())
    }

    /// True if this item is complete.
    pub(super) fn is_over(&self, key: &Key) -> bool {
        self.parts.values().any(|known| known.key == *key && known.over)
    }

    pub(super) fn note_call(&mut self, call: &str, key: &Key) {
        if self.calls.get(call) != Some(key) {
            self.calls.insert(call.to_owned(), key.clone());
        }
    }

    /// The item of a tool call.
    pub(super) fn call(&self, call: &str) -> Option<Key> {
        self.calls.get(call).cloned()
    }

    /// The entry of a message, which is created if it is new.
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
            reports_subagent: false,
            held: Vec::new(),
            turn,
        })
    }

    /// Notes the properties of a message.
    pub(super) fn note(&mut self, info: &MessageInfo) -> &mut Message {
        let message = self.message(&info.id);
        if message.author == Author::EarlierTurn {
            return message;
        }
        message.author = if info.is_assistant() { Author::Assistant } else { Author::User };
        message.informed = true;
        message.summary = info.is_summary();
        message.created = info.time.created;
        message.over |= info.is_over();
        message
    }

    /// The incomplete answer of this turn. There is at most one: a session makes one model call after the
    /// other. An older incomplete one was left by a killed server (capture u3). Ids ascend with time.
    pub(super) fn open_answers(&self) -> impl Iterator<Item = &str> {
        let is_answer = |message: &Message| message.author == Author::Assistant && message.turn == self.turn;
        let answers = self.messages.iter().filter(move |(_, message)| is_answer(message));
        let last = answers.max_by(|(one, _), (other, _)| one.cmp(other));
        last.filter(|(_, message)| !message.over).map(|(id, _)| id.as_str()).into_iter()
    }

    /// Marks all messages as complete: a killed server never completes its messages (capture u).
    pub(super) fn give_up_answers(&mut self) {
        self.messages.values_mut().for_each(|message| message.over = true);
    }

    /// A turn starts: drops what is older than the turn before. Returns the dropped messages, with their
    /// parts.
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
