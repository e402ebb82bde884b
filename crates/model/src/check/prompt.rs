//! Prompts: each is accepted once and has one outcome.

use super::Law;
use super::lifecycle::{Found, Lifecycle, text};
use super::shape::{BY, Flag, Id, MAY, MUST, Objects, Shape, Text, Word};
use serde_json::{Map, Value};

pub(super) const SHAPES: &[Shape] = &[
    ("prompt.accepted", &[("prompt", Id, MUST), ("key", Text, MAY), ("content", Objects, MUST)]),
    ("prompt.sent", &[("prompt", Id, MUST), ("native_id", Text, MAY), ("bare", Flag, MAY)]),
    ("prompt.taken", &[("prompt", Id, MUST), ("turn", Id, MUST)]),
    ("prompt.withdrawn", &[("prompt", Id, MUST)]),
    ("prompt.cancelling", &[("prompt", Id, MUST), ("by", Word(BY), MUST)]),
];

/// How far a prompt has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Prompt {
    Waiting,
    Sent,
    /// Sent, and to stop.
    Cancelling,
    Taken,
    Withdrawn,
}

impl Lifecycle {
    pub(super) fn prompt(&mut self, r#type: &str, event: &Map<String, Value>, found: &mut Found) {
        let Some(prompt) = text(event, "prompt") else { return };
        self.prompt_within_budget(r#type, prompt, found);
        self.not_while_parked(r#type, prompt, found);
        if r#type == "prompt.continues" {
            return self.prompt_continues(prompt, event, found);
        }
        let old = self.prompts.get(prompt).copied();
        let (fits, new) = match r#type {
            "prompt.accepted" => (old.is_none(), Prompt::Waiting),
            "prompt.sent" => (old == Some(Prompt::Waiting), Prompt::Sent),
            "prompt.cancelling" => (old == Some(Prompt::Sent), Prompt::Cancelling),
            "prompt.taken" => (matches!(old, Some(Prompt::Sent | Prompt::Cancelling)), Prompt::Taken),
            "prompt.withdrawn" => (old == Some(Prompt::Waiting), Prompt::Withdrawn),
            _ => return,
        };
        if !fits {
            let before = old.map_or("unknown".to_owned(), |old| format!("{old:?}").to_lowercase());
            let message = format!("{type} of prompt {prompt}, which is {before}");
            match old {
                Some(_) => found.push((Law::Prompt, message)),
                None => self.never(Law::Prompt, message, found),
            }
        }
        self.prompts.insert(prompt.to_owned(), new);
        if let (Prompt::Taken, Some(turn)) =
            (new, text(event, "turn").and_then(|turn| self.turns.get_mut(turn)))
        {
            turn.promised.remove(prompt);
            if old == Some(Prompt::Cancelling) {
                turn.unwanted.push(prompt.to_owned());
            }
        }
        if new == Prompt::Taken {
            self.busy_for_prompt = false;
        }
    }
}
