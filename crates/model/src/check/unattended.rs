//! Unattended runs: a session that is parked sends nothing, and a failed turn is continued once at most.

use super::Law;
use super::lifecycle::{Found, Lifecycle, text};
use super::prompt::Prompt;
use super::shape::{BY, CLASSES, Count, Id, MAY, MUST, Object, Shape, Word};
use serde_json::{Map, Value};

const BECAUSE: &[&str] = &["limit", "failure"];

const OUTCOMES: &[&str] = &["due", "woken", "prompt", "cancelled", "budget", "rules"];

/// The members of a continuation, which three events have.
macro_rules! continuation {
    ($($own:expr),* $(,)?) => {
        &[
            $($own,)*
            ("of", Id, MUST),
            ("because", Word(BECAUSE), MUST),
            ("reason", Word(CLASSES), MUST),
            ("failures", Count, MAY),
            ("limits", Count, MAY),
            ("since", Count, MAY),
        ]
    };
}

pub(super) const SHAPES: &[Shape] = &[
    ("unattended.set", &[("unattended", Object, MUST), ("by", Word(BY), MUST)]),
    ("unattended.parked", continuation![("until", Count, MUST)]),
    ("unattended.released", &[("of", Id, MUST), ("outcome", Word(OUTCOMES), MUST), ("by", Word(BY), MUST)]),
    ("prompt.continues", continuation![("prompt", Id, MUST)]),
    ("turn.continues", continuation![("turn", Id, MUST)]),
];

impl Lifecycle {
    pub(super) fn unattended(&mut self, r#type: &str, event: &Map<String, Value>, found: &mut Found) {
        let Some(of) = text(event, "of") else { return };
        match r#type {
            "unattended.parked" => self.parked(of, found),
            "unattended.released" => {
                if self.parked.take().as_deref() != Some(of) {
                    let message =
                        format!("unattended.released of turn {of}, which the session did not wait for");
                    self.never(Law::Continuation, message, found);
                }
                self.released = Some(of.to_owned());
            }
            _ => {}
        }
    }

    fn parked(&mut self, of: &str, found: &mut Found) {
        let problem = match (self.turns.get(of), &self.open_turn) {
            (_, Some(open)) => Some(format!("unattended.parked while turn {open} is open")),
            (Some(turn), None) if !turn.failed => {
                Some(format!("unattended.parked after turn {of}, which has not failed"))
            }
            (Some(turn), None) if turn.cancelling => {
                Some(format!("unattended.parked after turn {of}, which was cancelled"))
            }
            (Some(_), None) => None,
            (None, None) => {
                let message = format!("unattended.parked after turn {of}, which never started");
                return self.never(Law::Continuation, message, found);
            }
        };
        found.extend(problem.map(|problem| (Law::Continuation, problem)));
        if let Some(before) = self.parked.replace(of.to_owned()) {
            found.push((Law::Continuation, format!("unattended.parked while it waits for turn {before}")));
        }
    }

    /// A prompt of the gateway follows the end of the wait, once for each turn.
    pub(super) fn prompt_continues(&mut self, prompt: &str, event: &Map<String, Value>, found: &mut Found) {
        let Some(of) = text(event, "of") else { return };
        if self.prompts.get(prompt) != Some(&Prompt::Waiting) {
            self.never(
                Law::Continuation,
                format!("prompt.continues of prompt {prompt}, which does not wait"),
                found,
            );
        }
        if self.released.take().as_deref() != Some(of) {
            let message = format!("prompt {prompt} continues turn {of}, and no wait for it has ended");
            self.never(Law::Continuation, message, found);
        }
        if !self.continued.insert(of.to_owned()) {
            found.push((Law::Continuation, format!("prompt {prompt} continues turn {of} again")));
        }
    }

    /// A session that is parked sends nothing.
    pub(super) fn not_while_parked(&self, r#type: &str, prompt: &str, found: &mut Found) {
        if let Some(of) = self.parked.as_deref().filter(|_| r#type == "prompt.sent") {
            let message = format!("prompt.sent of prompt {prompt} while the session waits to continue {of}");
            found.push((Law::Continuation, message));
        }
    }
}
