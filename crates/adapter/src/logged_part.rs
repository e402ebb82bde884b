//! The conversation of a session as the log has it, in a short form. An agent that loads a session may repeat
//! all of it, and such a repetition is recognised by its content.

use std::collections::HashMap;
use turnstream_model::event::{ItemKind, Role};
use turnstream_model::fold::{Item, Prompt, State};
use turnstream_model::id::TurnId;
use turnstream_model::stable_hash;

/// The most bytes of a text's beginning that are kept.
const START: usize = 64;

/// A prompt, a text or a tool call of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoggedPart {
    /// A text.
    Text(LoggedText),
    /// A tool call, by its native id.
    Tool(String),
}

/// A text of the log, without its middle and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedText {
    /// Whose it is.
    pub kind: LoggedKind,
    /// Its first bytes, at most 64.
    start: String,
    bytes: usize,
    hash: u128,
}

/// Whose text it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedKind {
    /// A prompt.
    Prompt,
    /// A message of the agent.
    Message,
    /// A thought of the agent.
    Thought,
}

// === impl LoggedPart ===

impl LoggedPart {
    /// Reads the parts from the fold of a session. Work of subagents is left out.
    pub fn of(state: &State) -> Vec<Self> {
        let mut prompts: HashMap<&TurnId, Vec<&Prompt>> = HashMap::new();
        for prompt in &state.prompts {
            prompt.turn.iter().for_each(|turn| prompts.entry(turn).or_default().push(prompt));
        }
        let mut items: HashMap<&TurnId, Vec<&Item>> = HashMap::new();
        for item in state.items.iter().filter(|item| item.parent.is_none()) {
            item.turn.iter().for_each(|turn| items.entry(turn).or_default().push(item));
        }
        let of_turn = |turn: &TurnId| {
            let prompts = prompts.get(turn).into_iter().flatten().map(|prompt| Self::of_prompt(prompt));
            let items = items.get(turn).into_iter().flatten().filter_map(|item| Self::of_item(item));
            prompts.chain(items).collect::<Vec<_>>()
        };
        state.turns.iter().flat_map(|turn| of_turn(&turn.turn)).collect()
    }

    fn of_prompt(prompt: &Prompt) -> Self {
        let texts: Vec<&str> = prompt.content.iter().filter_map(|block| block["text"].as_str()).collect();
        Self::Text(LoggedText::new(LoggedKind::Prompt, &texts.concat()))
    }

    fn of_item(item: &Item) -> Option<Self> {
        let kind = match item.kind {
            ItemKind::Message if item.role == Some(Role::Assistant) => LoggedKind::Message,
            ItemKind::Reasoning => LoggedKind::Thought,
            ItemKind::Tool => return item.native_id.clone().map(Self::Tool),
            ItemKind::Message | ItemKind::Plan | ItemKind::File | ItemKind::Compaction => return None,
        };
        Some(Self::Text(LoggedText::new(kind, item.text.as_deref().unwrap_or_default())))
    }
}

// === impl LoggedText ===

impl LoggedText {
    /// The short form of a text.
    pub fn new(kind: LoggedKind, text: &str) -> Self {
        let start = text[..text.floor_char_boundary(START)].to_owned();
        Self { kind, start, bytes: text.len(), hash: stable_hash(text.as_bytes()) }
    }

    /// Whether a text that begins like this may be it.
    pub fn may_begin_with(&self, text: &str) -> bool {
        !self.start.is_empty() && (text.starts_with(&self.start) || self.start.starts_with(text))
    }

    /// How a text that may be it compares with it.
    pub fn compare<'t>(&self, text: &'t str) -> Comparison<'t> {
        if text.len() < self.bytes {
            return Comparison::Shorter;
        }
        match text.split_at_checked(self.bytes) {
            Some((head, rest)) if stable_hash(head.as_bytes()) == self.hash => Comparison::Same { rest },
            Some(_) | None => Comparison::Other,
        }
    }
}

/// How a text compares with one of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison<'t> {
    /// It may still become the same.
    Shorter,
    /// It begins with the whole text, and goes on with this.
    Same {
        /// What follows.
        rest: &'t str,
    },
    /// It is another one.
    Other,
}
