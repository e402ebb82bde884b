//! A prompt that waits until the turn before it has stopped.
//!
//! opencode has one abort for a whole session, and adds a prompt that arrives during a turn to that turn.

use super::{Conversation, UNANSWERED};
use serde_json::Value;
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::signal::Signal;
use turnstream_model::time::Time;

/// A prompt that was not sent yet.
pub(super) struct WaitingPrompt {
    native_id: String,
    content: Vec<Value>,
    /// Until when it waits: for the request of the prompt before, and for the snapshot that decides about it.
    until: Time,
}

impl WaitingPrompt {
    /// When it has waited too long.
    pub(super) fn until(&self) -> Time {
        self.until
    }
}

impl Conversation {
    /// Sends a prompt as soon as no turn is being stopped.
    pub(super) fn send(&mut self, native_id: String, content: Vec<Value>) {
        let until = self.now.plus_millis(2 * UNANSWERED.as_millis() as u64);
        self.waiting_prompt = Some(WaitingPrompt { native_id, content, until });
        self.send_waiting_prompt();
    }

    /// True while a prompt waits. What is observed meanwhile is not its work.
    pub(super) fn has_waiting_prompt(&self) -> bool {
        self.waiting_prompt.is_some()
    }

    /// Sends the waiting prompt if no turn is being stopped.
    pub(super) fn send_waiting_prompt(&mut self) {
        if self.is_stopping() {
            return;
        }
        if let Some(WaitingPrompt { native_id, content, .. }) = self.waiting_prompt.take() {
            self.send_now(native_id, content);
        }
    }

    pub(super) fn tick_waiting_prompt(&mut self, now: Time) {
        if self.waiting_prompt.as_ref().is_some_and(|waiting| now >= waiting.until) {
            let message = "opencode did not say whether the cancelled prompt before this one was stopped";
            self.refuse_waiting_prompt(TurnError::new(ErrorClass::Timeout, message));
        }
    }

    /// True if this prompt is the waiting one.
    pub(super) fn is_waiting_prompt(&self, prompt: &str) -> bool {
        self.waiting_prompt.as_ref().is_some_and(|waiting| waiting.native_id == prompt)
    }

    /// Refuses the waiting prompt. Returns whether there was one.
    pub(super) fn refuse_waiting_prompt(&mut self, error: TurnError) -> bool {
        let refused = self.waiting_prompt.take();
        let was_there = refused.is_some();
        if let Some(WaitingPrompt { native_id, .. }) = refused {
            self.report(Signal::PromptRefused { native_id, error });
        }
        was_there
    }
}
