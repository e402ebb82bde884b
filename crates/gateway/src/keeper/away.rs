//! An agent that cannot be reached at the moment. Prompts wait for it as long as they wait for a link.

use super::{AppenderClosed, Keeper};
use tokio::time::Instant;
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::id::PromptId;

/// Until when a prompt waits for the agent, however many links are made and lost in between.
pub(super) struct AgentWait {
    prompt: PromptId,
    pub(super) until: Instant,
}

impl Keeper {
    /// The agent cannot be reached. The reason may quote what the agent said, so it is only in the line for
    /// debugging. A prompt that was sent before gets the time to reconnect on top of its
    /// time to start.
    pub(super) fn agent_away(&mut self, reason: String) {
        tracing::warn!("the agent cannot be reached");
        let shown = self.shared.settings.redaction.redact(&reason);
        tracing::debug!(error = %shown, "why the agent cannot be reached");
        self.away = Some(reason);
        let settings = &self.shared.settings;
        self.clocks.start_again(settings.connect + settings.start);
    }

    /// The agent can be reached again.
    pub(super) fn agent_back(&mut self) {
        if self.away.take().is_some() {
            tracing::info!("the agent can be reached again");
        }
        self.clocks.start_again(self.shared.settings.start);
    }

    /// Until when this prompt waits for the agent. The wait begins with the first call.
    pub(super) fn wait_for_agent(&mut self, prompt: &PromptId) -> Instant {
        let until = match self.clocks.agent_wait.take().filter(|agent_wait| agent_wait.prompt == *prompt) {
            Some(agent_wait) => agent_wait.until,
            None => Instant::now() + self.shared.settings.connect,
        };
        self.clocks.agent_wait = Some(AgentWait { prompt: prompt.clone(), until });
        until
    }

    /// Until when the next prompt waits for an agent that is away. A link that is being made has a deadline
    /// of its own.
    pub(super) fn away_deadline(&self) -> Option<Instant> {
        let waits = self.away.is_some() && self.recovery.is_none() && self.machine.next_prompt().is_some();
        self.clocks.agent_wait.as_ref().filter(|_| waits).map(|agent_wait| agent_wait.until)
    }

    /// The agent did not come back in time for the prompt that waits for it.
    pub(super) async fn not_reached(&mut self) -> Result<(), AppenderClosed> {
        let after = self.shared.settings.connect;
        let reason = self.away.clone().unwrap_or_default();
        let message = format!("the agent could not be reached within {after:?}: {reason}");
        self.connect_failed(TurnError::new(ErrorClass::Unreachable, message)).await
    }
}
