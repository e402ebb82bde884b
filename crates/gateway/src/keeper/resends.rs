//! Prompts that are sent again because the agent was lost before it took them. That must end: an agent that
//! is lost with every prompt, for example on a full disk, would be connected again for ever.

use std::collections::HashMap;
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::id::PromptId;

/// How often a prompt is sent again.
const MOST: u32 = 2;

/// How often prompts were sent again.
#[derive(Default)]
pub(super) struct Resends {
    counts: HashMap<PromptId, u32>,
    /// Why the agent was lost the last time.
    last_loss: Option<TurnError>,
    /// Prompts that are not sent again. They fail as soon as no turn is open.
    pub(super) given_up: Vec<PromptId>,
}

impl Resends {
    /// The agent was lost.
    pub(super) fn lost(&mut self, error: &TurnError) {
        self.last_loss = Some(error.clone());
    }

    /// Counts a prompt that the agent has never seen. False, and it is given up, if it was sent too often.
    pub(super) fn send_again(&mut self, prompt: &PromptId) -> bool {
        let count = self.counts.entry(prompt.clone()).or_default();
        *count += 1;
        let may_be_sent = *count <= MOST;
        if !may_be_sent {
            self.counts.remove(prompt);
            self.given_up.push(prompt.clone());
        }
        may_be_sent
    }

    /// Only these prompts still wait for a turn.
    pub(super) fn keep(&mut self, is_sent: impl Fn(&PromptId) -> bool) {
        self.counts.retain(|prompt, _| is_sent(prompt));
    }

    /// The error of a prompt that was given up.
    pub(super) fn error(&self) -> TurnError {
        let times = MOST + 1;
        match &self.last_loss {
            Some(last) => {
                let message = format!("the agent was lost {times} times before it took the prompt");
                TurnError { message: format!("{message}: {}", last.message), ..last.clone() }
            }
            None => {
                let message = format!("the prompt was sent {times} times, and the agent never took it");
                TurnError::new(ErrorClass::AgentExited, message)
            }
        }
    }
}
