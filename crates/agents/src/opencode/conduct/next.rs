//! The prompt that waits for another one to be stopped. opencode has one abort for a whole session, and puts a prompt
//! that comes while another runs into the same turn.

use super::{Conductor, UNANSWERED};
use serde_json::Value;
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::signal::Signal;
use turnstream_model::time::Time;

/// A prompt that was not sent yet.
pub(super) struct Next {
    native_id: String,
    content: Vec<Value>,
    /// How long it waits: for the request of the one before, and for what the server then says of it.
    until: Time,
}

impl Next {
    /// When it has waited for too long.
    pub(super) fn until(&self) -> Time {
        self.until
    }
}

impl Conductor {
    /// Sends a prompt, as soon as nothing is being stopped.
    pub(super) fn send(&mut self, native_id: String, content: Vec<Value>) {
        let until = self.now.plus_millis(2 * UNANSWERED.as_millis() as u64);
        self.next = Some(Next { native_id, content, until });
        self.send_next();
    }

    /// True while a prompt waits for another one to be stopped: what is seen is not its work.
    pub(super) fn has_next(&self) -> bool {
        self.next.is_some()
    }

    /// A prompt that waited leaves, if nothing is being stopped any more.
    pub(super) fn send_next(&mut self) {
        if self.is_stopping() {
            return;
        }
        if let Some(Next { native_id, content, .. }) = self.next.take() {
            self.send_now(native_id, content);
        }
    }

    pub(super) fn tick_next(&mut self, now: Time) {
        if self.next.as_ref().is_some_and(|next| now >= next.until) {
            let message = "opencode did not say whether the cancelled prompt before this one was stopped";
            self.refuse_next(TurnError::new(ErrorClass::Timeout, message));
        }
    }

    /// True when this prompt still waits for another one to be stopped.
    pub(super) fn is_next(&self, prompt: &str) -> bool {
        self.next.as_ref().is_some_and(|next| next.native_id == prompt)
    }

    /// The prompt that waits is not sent any more; true when there was one.
    pub(super) fn refuse_next(&mut self, error: TurnError) -> bool {
        let refused = self.next.take();
        let was_there = refused.is_some();
        if let Some(Next { native_id, .. }) = refused {
            self.say(Signal::PromptRefused { native_id, error });
        }
        was_there
    }
}
