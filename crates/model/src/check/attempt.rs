//! Model calls: each starts once, ends or is superseded once, and one is open at a time.

use super::Law;
use super::lifecycle::{Found, Life, Lifecycle, text, texts};
use super::shape::{Count, Id, Ids, MAY, MUST, Object, Shape, Text};
use serde_json::{Map, Value};

pub(super) const SHAPES: &[Shape] = &[
    (
        "attempt.started",
        &[("turn", Id, MUST), ("attempt", Id, MUST), ("step", Count, MUST), ("model", Text, MAY)],
    ),
    (
        "attempt.ended",
        &[
            ("turn", Id, MUST),
            ("attempt", Id, MUST),
            ("finish", Text, MAY),
            ("usage", Object, MAY),
            ("cost", Object, MAY),
        ],
    ),
    (
        "attempt.superseded",
        &[("turn", Id, MUST), ("attempt", Id, MUST), ("by", Id, MUST), ("items", Ids, MUST)],
    ),
];

/// A model call that was started.
pub(super) struct Attempt {
    pub(super) step: u64,
    pub(super) life: Life,
}

impl Lifecycle {
    pub(super) fn attempt(&mut self, r#type: &str, event: &Map<String, Value>, found: &mut Found) {
        match r#type {
            "attempt.started" => self.attempt_started(event, found),
            "attempt.ended" => self.attempt_ended(event, found),
            "attempt.superseded" => self.superseded(event, found),
            _ => {}
        }
    }

    fn attempt_started(&mut self, event: &Map<String, Value>, found: &mut Found) {
        let (Some(id), Some(step)) = (text(event, "attempt"), event.get("step").and_then(Value::as_u64))
        else {
            return;
        };
        if !self.attempts.insert(id.to_owned()) {
            found.push((Law::Attempt, format!("attempt {id} started twice")));
        }
        let Some(turn) = text(event, "turn").and_then(|turn| self.turns.get_mut(turn)) else { return };
        if let Some(unsettled) = turn.repeat.take() {
            found.push((Law::Attempt, format!("attempt {unsettled} repeats a step and superseded nothing")));
        }
        let was_named = turn.awaited.remove(id);
        let repeats = step == turn.steps && step > 0;
        if repeats && !was_named {
            turn.repeat = Some(id.to_owned());
        } else if !repeats && Some(step) != turn.steps.checked_add(1) {
            found.push((Law::Attempt, format!("attempt {id} is step {step} after step {}", turn.steps)));
        }
        turn.steps = turn.steps.max(step);
        turn.attempts.insert(id.to_owned(), Attempt { step, life: Life::Open });
    }

    fn attempt_ended(&mut self, event: &Map<String, Value>, found: &mut Found) {
        let (Some(id), Some(turn)) =
            (text(event, "attempt"), text(event, "turn").and_then(|turn| self.turns.get_mut(turn)))
        else {
            return;
        };
        turn.usage.add(event);
        match turn.attempts.get_mut(id) {
            Some(attempt) if attempt.life == Life::Open => attempt.life = Life::Ended,
            _ => found.push((Law::Attempt, format!("attempt {id} ended and is not open in its turn"))),
        }
    }

    /// A repeat may be named just before or just after the call it supersedes is closed.
    fn superseded(&mut self, event: &Map<String, Value>, found: &mut Found) {
        let (Some(id), Some(by)) = (text(event, "attempt"), text(event, "by")) else { return };
        let Some(turn) = text(event, "turn").and_then(|turn| self.turns.get_mut(turn)) else { return };
        if id == by {
            found.push((Law::Superseding, format!("attempt {id} supersedes itself")));
        }
        let old = match turn.attempts.get_mut(id) {
            Some(old) if old.life == Life::Void => {
                found.push((Law::Superseding, format!("attempt {id} is superseded twice")));
                Some(old.step)
            }
            Some(old) => {
                old.life = Life::Void;
                Some(old.step)
            }
            None => {
                found.push((
                    Law::Superseding,
                    format!("attempt {id} is superseded and never started in its turn"),
                ));
                None
            }
        };
        match turn.attempts.get(by) {
            Some(new) if old.is_some_and(|old| old != new.step) => {
                found.push((Law::Superseding, format!("attempt {by} supersedes {id} of another step")));
            }
            Some(_) => {}
            None => {
                turn.awaited.insert(by.to_owned());
            }
        }
        if turn.repeat.as_deref() == Some(by) {
            turn.repeat = None;
        }
        for item in texts(event, "items") {
            match self.items.get_mut(item) {
                Some(known) if known.attempt.as_deref() != Some(id) => {
                    found.push((
                        Law::Superseding,
                        format!("item {item} is voided with attempt {id}, not its own"),
                    ));
                }
                Some(known) if known.life == Life::Void => {
                    found.push((Law::Superseding, format!("item {item} is voided twice")));
                }
                Some(known) => known.life = Life::Void,
                None => {
                    let message = format!("item {item} is voided and never started");
                    self.never(Law::Superseding, message, found);
                }
            }
        }
    }

    /// Only a repeated call may start while the call before it is open, and it must supersede that one at
    /// once.
    pub(super) fn one_attempt_at_a_time(&self, r#type: &str, turn: Option<&str>, found: &mut Found) {
        let Some(turn) = turn.and_then(|turn| self.turns.get(turn)).filter(|_| r#type != "attempt.started")
        else {
            return;
        };
        if let Some(repeat) = &turn.repeat {
            found.push((
                Law::Attempt,
                format!("{type} before attempt {repeat} superseded the call it repeats"),
            ));
        }
        let open = turn.attempts.iter().filter(|(_, attempt)| attempt.life == Life::Open);
        let names: Vec<&str> = open.map(|(id, _)| id.as_str()).collect();
        if names.len() > 1 {
            found.push((Law::Attempt, format!("attempts {} are open at once", names.join(", "))));
        }
    }
}
