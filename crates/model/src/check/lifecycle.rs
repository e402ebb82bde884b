//! What the checker knows of a log: what started, what ended, and what belongs to what. The rules are in a
//! file for each family of events.

use super::Law;
use super::ask::Ask;
use super::item::Item;
use super::prompt::Prompt;
use super::turn::Turn;
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// Laws that an event breaks.
pub(super) type Found = Vec<(Law, String)>;

/// Where an item or a model call stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Open,
    Ended,
    /// Removed, or superseded.
    Void,
}

/// What a log has said so far.
#[derive(Default)]
pub(super) struct Lifecycle {
    /// The log's beginning is not kept: what it does not know may have started there.
    pub(super) trimmed: bool,
    pub(super) created: bool,
    pub(super) ended: bool,
    /// It goes on from another session.
    pub(super) inherited: bool,
    pub(super) turns: HashMap<String, Turn>,
    pub(super) open_turn: Option<String>,
    pub(super) items: HashMap<String, Item>,
    pub(super) attempts: HashSet<String>,
    pub(super) asks: HashMap<String, Ask>,
    pub(super) prompts: HashMap<String, Prompt>,
    /// The cap that the session has reached, until its caps are set again.
    pub(super) capped: Option<String>,
    /// The turn that the session waits to continue.
    pub(super) parked: Option<String>,
    /// The turn for which a wait has ended, until its prompt comes.
    pub(super) released: Option<String>,
    /// The turns that were continued.
    pub(super) continued: HashSet<String>,
    /// The status was `busy` for a prompt that was sent and has no turn. Earlier versions never said so.
    pub(super) busy_for_prompt: bool,
}

/// A member that is a string. A missing one was reported by the shape check.
pub(super) fn text<'a>(event: &'a Map<String, Value>, member: &str) -> Option<&'a str> {
    event.get(member)?.as_str()
}

pub(super) fn texts<'a>(event: &'a Map<String, Value>, member: &str) -> Vec<&'a str> {
    let list = event.get(member).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

pub(super) fn flag(event: &Map<String, Value>, member: &str) -> bool {
    event.get(member).and_then(Value::as_bool).unwrap_or(false)
}

impl Lifecycle {
    /// A log that begins later than 1.
    pub(super) fn set_trimmed(&mut self) {
        self.trimmed = true;
    }

    /// Reports something that never started, unless it may have started before the beginning of a trimmed
    /// log.
    pub(super) fn never(&self, law: Law, message: String, found: &mut Found) {
        if !self.trimmed {
            found.push((law, message));
        }
    }

    pub(super) fn turns(&self) -> usize {
        self.turns.len()
    }

    pub(super) fn event(&mut self, r#type: &str, event: &Map<String, Value>, first: bool, found: &mut Found) {
        self.session(r#type, event, first, found);
        self.turn_is_open(r#type, event, found);
        match r#type.split('.').next().unwrap_or_default() {
            "prompt" => self.prompt(r#type, event, found),
            "turn" => self.turn(r#type, event, found),
            "attempt" => self.attempt(r#type, event, found),
            "item" => self.item(r#type, event, found),
            "budget" => self.budget(r#type, event, found),
            "unattended" => self.unattended(r#type, event, found),
            "approval" | "question" => self.ask(r#type, event, found),
            _ => {}
        }
        self.one_attempt_at_a_time(r#type, text(event, "turn"), found);
    }

    pub(super) fn end_of_log(&self, found: &mut Found) {
        if let Some(turn) = &self.open_turn {
            found.push((Law::OneEnd, format!("turn {turn} never ended")));
        }
    }
}
