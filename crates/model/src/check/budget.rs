//! Budgets: a session that has reached a cap gets no prompt until its caps are set again.

use super::Law;
use super::lifecycle::{Found, Lifecycle, text};
use super::shape::{BY, Id, MAY, MUST, Object, Shape, Word};
use serde_json::{Map, Value};

const CAPS: &[&str] = &["steps", "time", "tokens", "cost"];

pub(super) const SHAPES: &[Shape] = &[
    ("budget.set", &[("prompt", Id, MAY), ("budget", Object, MUST), ("by", Word(BY), MUST)]),
    (
        "budget.reached",
        &[
            ("scope", Word(&["turn", "session"]), MUST),
            ("cap", Word(CAPS), MUST),
            ("used", Object, MUST),
            ("caps", Object, MUST),
        ],
    ),
    ("budget.used", &[("last", Object, MUST), ("used", Object, MUST), ("caps", Object, MUST)]),
];

impl Lifecycle {
    pub(super) fn budget(&mut self, r#type: &str, event: &Map<String, Value>, found: &mut Found) {
        match r#type {
            "budget.set" if text(event, "prompt").is_none() => self.capped = None,
            "budget.reached" => self.cap_reached(event, found),
            _ => {}
        }
    }

    fn cap_reached(&mut self, event: &Map<String, Value>, found: &mut Found) {
        let (Some(scope), Some(cap)) = (text(event, "scope"), text(event, "cap")) else { return };
        if !is_reached(event, cap) {
            found.push((Law::Budget, format!("the {scope} has not used what its cap on {cap} allows")));
        }
        if scope == "turn" {
            if text(event, "turn").is_none() {
                found.push((
                    Law::Budget,
                    format!("the cap on {cap} of a turn is reached, and no turn is named"),
                ));
            }
        } else if let Some(before) = self.capped.replace(cap.to_owned()) {
            found.push((Law::Budget, format!("the session reached its cap on {cap} after that on {before}")));
        }
    }

    /// A prompt is accepted or sent.
    pub(super) fn prompt_within_budget(&self, r#type: &str, prompt: &str, found: &mut Found) {
        if let Some(cap) =
            self.capped.as_deref().filter(|_| matches!(r#type, "prompt.accepted" | "prompt.sent"))
        {
            let message = format!("{type} of prompt {prompt}, and the session has reached its cap on {cap}");
            found.push((Law::Budget, message));
        }
    }
}

/// Whether the event's own numbers say that the cap is reached.
fn is_reached(event: &Map<String, Value>, cap: &str) -> bool {
    let number = |member: &str| event.get(member)?.get(cap)?.as_f64();
    number("caps").is_some_and(|limit| number("used").is_some_and(|used| used >= limit))
}
