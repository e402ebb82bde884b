//! Approvals and questions: the agent waits for a person, and each is settled once.

use super::Law;
use super::lifecycle::{Found, Lifecycle, text};
use super::shape::{BY, Id, MAY, MUST, Object, Objects, Shape, Text, Word};
use serde_json::{Map, Value};

pub(super) const SHAPES: &[Shape] = &[
    ("approval.requested", &[("approval", Id, MUST), ("tool", Object, MAY), ("options", Objects, MAY)]),
    (
        "approval.resolved",
        &[
            ("approval", Id, MUST),
            (
                "outcome",
                Word(&["allow_once", "allow_always", "reject", "cancelled", "expired", "lost"]),
                MUST,
            ),
            ("by", Word(BY), MUST),
            ("option", Text, MAY),
            ("message", Text, MAY),
            ("key", Text, MAY),
        ],
    ),
    ("question.asked", &[("question", Id, MUST), ("questions", Objects, MUST)]),
    (
        "question.answered",
        &[
            ("question", Id, MUST),
            ("outcome", Word(&["answered", "rejected", "cancelled", "expired", "lost"]), MUST),
            ("answers", Object, MAY),
            ("key", Text, MAY),
        ],
    ),
];

/// An approval or a question.
pub(super) struct Ask {
    pub(super) turn: Option<String>,
    pub(super) settled: bool,
}

impl Lifecycle {
    pub(super) fn ask(&mut self, r#type: &str, event: &Map<String, Value>, found: &mut Found) {
        match r#type {
            "approval.requested" => self.asked("approval", event, found),
            "approval.resolved" => self.settled("approval", event, found),
            "question.asked" => self.asked("question", event, found),
            "question.answered" => self.settled("question", event, found),
            _ => {}
        }
    }

    fn asked(&mut self, kind: &str, event: &Map<String, Value>, found: &mut Found) {
        let Some(id) = text(event, kind) else { return };
        if let Some(item) = text(event, "item").filter(|item| !self.items.contains_key(*item)) {
            self.never(Law::Wait, format!("{kind} {id} names item {item}, which never started"), found);
        }
        let ask = Ask { turn: text(event, "turn").map(str::to_owned), settled: false };
        let name = format!("{kind} {id}");
        if let Some(turn) = text(event, "turn").and_then(|turn| self.turns.get_mut(turn)) {
            turn.asks.push(name.clone());
        }
        if self.asks.insert(name, ask).is_some() {
            found.push((Law::Wait, format!("{kind} {id} was asked twice")));
        }
    }

    fn settled(&mut self, kind: &str, event: &Map<String, Value>, found: &mut Found) {
        let Some(id) = text(event, kind) else { return };
        let Some(ask) = self.asks.get_mut(&format!("{kind} {id}")) else {
            self.never(Law::Wait, format!("{kind} {id} was settled and never asked"), found);
            let turn = text(event, "turn").map(str::to_owned);
            self.asks.insert(format!("{kind} {id}"), Ask { turn, settled: true });
            return;
        };
        if std::mem::replace(&mut ask.settled, true) {
            found.push((Law::Wait, format!("{kind} {id} was settled twice")));
        }
        if ask.turn.as_deref() != text(event, "turn") {
            found.push((Law::Wait, format!("{kind} {id} was settled in another turn than it was asked in")));
        }
    }
}
