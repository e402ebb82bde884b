//! Turns (L1, L2): each starts once, ends once, and is closed when it ends.

use super::Law;
use super::attempt::Attempt;
use super::lifecycle::{Found, Life, Lifecycle, text, texts};
use super::prompt::Prompt;
use super::shape::{BY, Flag, Id, Ids, MAY, MUST, Object, Shape, Word};
use super::usage::UsageSums;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashSet};

pub(super) const SHAPES: &[Shape] = &[
    (
        "turn.started",
        &[("turn", Id, MUST), ("origin", Word(&["prompt", "agent", "foreign"]), MUST), ("prompts", Ids, MAY)],
    ),
    ("turn.cancelling", &[("turn", Id, MUST), ("by", Word(BY), MUST)]),
    (
        "turn.ended",
        &[
            ("turn", Id, MUST),
            ("outcome", Word(&["completed", "cancelled", "failed", "lost"]), MUST),
            (
                "stop_reason",
                Word(&["end_turn", "max_tokens", "max_turn_requests", "refusal", "rejected"]),
                MAY,
            ),
            ("usage", Object, MAY),
            ("cost", Object, MAY),
            ("summed", Flag, MAY),
            ("error", Object, MAY),
        ],
    ),
];

/// A turn that was started.
#[derive(Default)]
pub(super) struct Turn {
    pub(super) ended: bool,
    /// It ended with the outcome `failed`.
    pub(super) failed: bool,
    /// Somebody wants it to end.
    pub(super) cancelling: bool,
    /// Its prompts that were to stop before they had a turn.
    pub(super) unwanted: Vec<String>,
    /// Items, approvals and questions that were started in it.
    pub(super) items: Vec<String>,
    pub(super) asks: Vec<String>,
    /// Promised by `turn.started`, not yet confirmed by `prompt.taken`.
    pub(super) promised: HashSet<String>,
    pub(super) attempts: BTreeMap<String, Attempt>,
    /// Repeats that were named by `by` and have not started.
    pub(super) awaited: HashSet<String>,
    /// A call that repeats a step, and has not superseded the one before it.
    pub(super) repeat: Option<String>,
    pub(super) steps: u64,
    pub(super) usage: UsageSums,
}

impl Lifecycle {
    pub(super) fn turn(&mut self, r#type: &str, event: &Map<String, Value>, found: &mut Found) {
        let turn = text(event, "turn");
        match r#type {
            "turn.started" => self.turn_started(event, found),
            "turn.cancelling" => self.turn_cancelling(turn, found),
            "turn.ended" => self.turn_ended(turn, event, found),
            _ => {}
        }
    }

    /// Nothing that belongs to a turn comes before its start or follows its end.
    pub(super) fn turn_is_open(&self, r#type: &str, event: &Map<String, Value>, found: &mut Found) {
        let Some(turn) = text(event, "turn") else { return };
        if matches!(r#type, "turn.started" | "turn.ended") {
            return;
        }
        match self.turns.get(turn) {
            None => {
                let message = format!("{type} names turn {turn}, which never started");
                self.never(Law::EvidenceBeforeIdle, message, found);
            }
            Some(known) if known.ended => {
                let belongs = ["prompt.", "turn.", "attempt.", "item.", "approval.", "question."];
                let is_allowed =
                    r#type == "item.revised" || !belongs.iter().any(|family| r#type.starts_with(family));
                if !is_allowed {
                    found.push((Law::OneEnd, format!("{type} after the end of turn {turn}")));
                }
            }
            Some(_) => {}
        }
    }

    fn turn_started(&mut self, event: &Map<String, Value>, found: &mut Found) {
        let Some(id) = text(event, "turn") else { return };
        if let Some(open) = &self.open_turn {
            found.push((Law::OneEnd, format!("turn {id} started while turn {open} was open")));
        }
        if self.turns.contains_key(id) {
            found.push((Law::OneEnd, format!("turn {id} started twice")));
        }
        let prompts = texts(event, "prompts");
        if (text(event, "origin") == Some("prompt")) == prompts.is_empty() {
            found.push((Law::Prompt, format!("turn {id} has an origin that its prompts do not fit")));
        }
        let mut turn = Turn::default();
        for prompt in prompts {
            match self.prompts.get(prompt) {
                Some(Prompt::Sent | Prompt::Cancelling) => {
                    turn.promised.insert(prompt.to_owned());
                }
                Some(Prompt::Taken) => {}
                None if self.trimmed => {}
                _ => found.push((
                    Law::EvidenceBeforeIdle,
                    format!("turn {id} started for prompt {prompt}, which was not sent"),
                )),
            }
        }
        self.turns.insert(id.to_owned(), turn);
        self.open_turn = Some(id.to_owned());
    }

    /// There is one event, however often a cancel is requested.
    fn turn_cancelling(&mut self, id: Option<&str>, found: &mut Found) {
        if let Some(turn) = id.and_then(|id| self.turns.get_mut(id))
            && std::mem::replace(&mut turn.cancelling, true)
        {
            found.push((Law::OneEnd, format!("turn.cancelling of turn {} twice", id.unwrap_or_default())));
        }
    }

    fn turn_ended(&mut self, id: Option<&str>, event: &Map<String, Value>, found: &mut Found) {
        let Some(id) = id else { return };
        let Some(turn) = self.turns.get_mut(id) else {
            self.never(Law::EvidenceBeforeIdle, format!("turn {id} ended and never started"), found);
            self.turns.insert(id.to_owned(), Turn { ended: true, ..Turn::default() });
            return;
        };
        if turn.ended {
            found.push((Law::OneEnd, format!("turn {id} ended twice")));
        }
        turn.ended = true;
        turn.failed = text(event, "outcome") == Some("failed");
        for shortfall in turn.usage.shortfalls(event) {
            found.push((Law::Usage, format!("turn {id} {shortfall}")));
        }
        for prompt in turn.unwanted.iter().filter(|_| text(event, "outcome") != Some("cancelled")) {
            let message = format!("turn {id} took prompt {prompt}, which was to stop, and is not cancelled");
            found.push((Law::Prompt, message));
        }
        let attempts = turn.attempts.iter().filter(|(_, attempt)| attempt.life == Life::Open);
        let mut open: Vec<String> = attempts.map(|(id, _)| format!("attempt {id}")).collect();
        open.extend(turn.promised.iter().map(|prompt| format!("prompt {prompt}")));
        open.extend(turn.awaited.iter().map(|attempt| format!("repeat {attempt}")));
        let is_open = |item: &&String| self.items.get(*item).is_some_and(|item| item.life == Life::Open);
        open.extend(turn.items.iter().filter(is_open).map(|item| format!("item {item}")));
        let is_unsettled = |ask: &&String| self.asks.get(*ask).is_some_and(|ask| !ask.settled);
        open.extend(turn.asks.iter().filter(is_unsettled).cloned());
        for what in open {
            found.push((Law::OneEnd, format!("turn {id} ended with {what} open")));
        }
        if self.open_turn.as_deref() == Some(id) {
            self.open_turn = None;
        }
    }
}

/// Which members go with which outcome of a turn.
pub(super) fn check_ending(event: &Map<String, Value>, problems: &mut Vec<String>) {
    let has = |member: &str| event.get(member).is_some_and(|value| !value.is_null());
    let completed = event.get("outcome").and_then(Value::as_str) == Some("completed");
    if completed != has("stop_reason") {
        problems.push("member \"stop_reason\" goes with outcome completed, and only with it".to_owned());
    }
    if completed && has("error") {
        problems.push("member \"error\" does not go with outcome completed".to_owned());
    }
    if event.get("outcome").and_then(Value::as_str) == Some("failed") && !has("error") {
        problems.push("member \"error\" is missing, and the outcome is failed".to_owned());
    }
}
