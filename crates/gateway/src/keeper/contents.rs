//! The content of prompts without an outcome, and how much of it may wait.

use crate::error::RequestError;
use crate::settings::Limits;
use serde_json::Value;
use std::collections::HashMap;
use turnstream_model::event::Weigh;
use turnstream_model::fold::State;
use turnstream_model::id::PromptId;

/// The prompts of a session that wait for their turn.
#[derive(Default)]
pub(super) struct Contents {
    by_prompt: HashMap<PromptId, Vec<Value>>,
    /// The size of all of them.
    bytes: usize,
}

impl Contents {
    pub(super) fn resume(state: &State) -> Self {
        let mut contents = Self::default();
        for prompt in &state.queue {
            contents.insert(prompt.prompt.clone(), prompt.content.clone());
        }
        contents
    }

    /// Refuses a prompt for which the queue has no room.
    pub(super) fn check_room(&self, content: &[Value], limits: &Limits) -> Result<(), RequestError> {
        let (bytes, waiting, most) = (weight(content), self.bytes, limits.queued_bytes);
        if self.by_prompt.len() >= limits.queued_prompts {
            Err(RequestError::QueueFull { most: limits.queued_prompts })
        } else if waiting.saturating_add(bytes) > most {
            Err(RequestError::QueueTooLarge { bytes, waiting, most })
        } else {
            Ok(())
        }
    }

    pub(super) fn insert(&mut self, prompt: PromptId, content: Vec<Value>) {
        self.bytes += weight(&content);
        if let Some(before) = self.by_prompt.insert(prompt, content) {
            self.bytes -= weight(&before);
        }
    }

    pub(super) fn remove(&mut self, prompt: &PromptId) {
        if let Some(content) = self.by_prompt.remove(prompt) {
            self.bytes -= weight(&content);
        }
    }

    /// The content to send.
    pub(super) fn of(&self, prompt: &PromptId) -> Vec<Value> {
        self.by_prompt.get(prompt).cloned().unwrap_or_default()
    }
}

/// About how many bytes the log needs for it.
fn weight(content: &[Value]) -> usize {
    content.iter().map(Weigh::weight).sum()
}
