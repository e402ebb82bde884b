//! An agent that cannot be reached for now: prompts wait for it, for as long as they wait for a link.

use super::{Gone, Keeper};
use tokio::time::Instant;
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::id::PromptId;

/// Until when a prompt waits for the agent, whatever becomes of the links meanwhile.
pub(super) struct Reach {
    prompt: PromptId,
    pub(super) until: Instant,
}

impl Keeper {
    /// The agent cannot be reached. What was sent before has the time it takes to come back, and then that to
    /// begin.
    pub(super) fn agent_away(&mut self, reason: String) {
        self.away = Some(reason);
        let settings = &self.shared.settings;
        self.clocks.start_again(settings.connect + settings.start);
    }

    /// It can be reached again.
    pub(super) fn agent_back(&mut self) {
        self.away = None;
        self.clocks.start_again(self.shared.settings.start);
    }

    /// Until when this prompt waits for the agent. It begins to wait now, if it does not already.
    pub(super) fn wait_for_agent(&mut self, prompt: &PromptId) -> Instant {
        let until = match self.clocks.reach.take().filter(|reach| reach.prompt == *prompt) {
            Some(reach) => reach.until,
            None => Instant::now() + self.shared.settings.connect,
        };
        self.clocks.reach = Some(Reach { prompt: prompt.clone(), until });
        until
    }

    /// Until when the next prompt waits for an agent that is away. A link that is being made has its own
    /// limit.
    pub(super) fn away_deadline(&self) -> Option<Instant> {
        let waits = self.away.is_some() && self.recovery.is_none() && self.machine.next_prompt().is_some();
        self.clocks.reach.as_ref().filter(|_| waits).map(|reach| reach.until)
    }

    /// The agent did not come back in time for the prompt that waits for it.
    pub(super) async fn not_reached(&mut self) -> Result<(), Gone> {
        let after = self.shared.settings.connect;
        let reason = self.away.clone().unwrap_or_default();
        let message = format!("the agent could not be reached within {after:?}: {reason}");
        self.not_made(TurnError::new(ErrorClass::Unreachable, message)).await
    }
}
