//! Claude Code's conversation on a desk.

use super::super::{Conversation, ConversationSettings};
use crate::claude::transcript::{ProcessEnd, Transcript};
use crate::desk::talks;
use turnstream_adapter::Fate;

pub(super) use crate::desk::End;

pub(super) type Desk = crate::desk::Desk<Conversation>;

talks!(Conversation);

impl Desk {
    pub(super) fn new() -> Self {
        Self::with("claude", || {
            let native_id = "a8b7c6d5-0000-4000-8000-000000000000".to_owned();
            Conversation::new(ConversationSettings { native_id })
        })
    }

    /// A new gateway reads the agent's transcript.
    pub(super) fn recover_from(&mut self, transcript: &Transcript<'_>, end: ProcessEnd) -> Vec<Fate> {
        self.recover(|_, open_work| transcript.recover(&open_work, end))
    }
}
