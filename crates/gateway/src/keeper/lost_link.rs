//! What follows when no link can be made, when the link is lost, and when the agent is stopped by force.

use super::commit::{Work, report_refused};
use super::{AppenderClosed, Keeper};
use turnstream_adapter::Command;
use turnstream_model::event::TurnError;
use turnstream_model::signal::{Ending, Signal};

impl Keeper {
    /// No link can be made: the prompt that waits for it fails. In a recovery, the open turn is lost.
    pub(super) async fn connect_failed(&mut self, error: TurnError) -> Result<(), AppenderClosed> {
        tracing::warn!(class = error.class.as_str(), "the agent cannot be connected");
        // As for a lost agent: the message may quote what the agent said.
        let shown = self.shared.settings.redaction.redact(&error.message);
        tracing::debug!(error = %shown, "why the agent cannot be connected");
        let mut work = Work::default();
        if self.recovery.is_some() {
            self.lose_all(&format!("the agent cannot be connected: {}", error.message), &mut work);
        } else if let Some(prompt) = self.machine.next_prompt() {
            let failed = self.step(&mut work, |machine, step| {
                machine.send(&prompt, None, step)?;
                machine.end_prompt(&prompt, Ending::failed(error), step)
            });
            report_refused(failed, "fail the next prompt");
            // The next prompt has its own deadline.
            self.clocks.agent_wait = None;
        }
        self.commit(work).await
    }

    /// The link is lost. The machine ends the open turn. The agent is asked once about prompts that were sent
    /// and not taken.
    pub(super) async fn link_lost(&mut self, error: TurnError) -> Result<(), AppenderClosed> {
        self.log_lost_agent(&error);
        self.resends.lost(&error);
        self.close_link();
        let mut work = Work::default();
        if self.recovery.is_some() {
            self.lose_all(&format!("the agent was lost during the recovery: {}", error.message), &mut work);
            return self.commit(work).await;
        }
        self.flush_texts(&mut work);
        self.step(&mut work, |machine, step| machine.observe(Signal::LinkLost(error), step));
        self.commit(work).await?;
        self.ask_about_prompts().await
    }

    /// The message may quote what the agent said, so it is only in the line for debugging.
    fn log_lost_agent(&self, error: &TurnError) {
        let class = error.class.as_str();
        match self.machine.open_turn() {
            Some(turn) => tracing::warn!(%turn, class, "the agent was lost in a turn"),
            None if self.recovery.is_some() || !self.machine.sent_prompts().is_empty() => {
                tracing::warn!(class, "the agent was lost with a prompt");
            }
            None => tracing::info!(class, "the agent has ended"),
        }
        let shown = self.shared.settings.redaction.redact(&error.message);
        tracing::debug!(error = %shown, "why the agent was lost");
    }

    /// Ends the open turn and stops its agent, so that nothing of the turn comes later.
    pub(super) async fn end_by_force(&mut self, ending: Ending) -> Result<(), AppenderClosed> {
        let turn = self.machine.open_turn().map(|turn| turn.as_str());
        tracing::warn!(turn, "the agent is stopped by force");
        // An agent that outlives its link must stop too: its turn may not overlap the next one.
        if !self.machine.is_cancelling() {
            self.connection.tell(Command::Cancel).await;
        }
        self.close_link();
        let mut work = Work::default();
        self.flush_texts(&mut work);
        if let Some(turn) = self.machine.open_turn().cloned() {
            let ended = self.step(&mut work, |machine, step| machine.end_open_turn(&turn, ending, step));
            report_refused(ended, "end the open turn");
        }
        if self.recovery.is_some() {
            self.lose_all("the agent was stopped during the recovery", &mut work);
        }
        self.commit(work).await?;
        self.ask_about_prompts().await
    }
}
