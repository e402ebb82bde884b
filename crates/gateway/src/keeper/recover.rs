//! Recovery: an open turn and sent prompts of an earlier owner are completed with what the agent still has of
//! them, or end `lost`. The results are ordinary events, so a crash during a recovery is recovered from too.

use super::after_durable::OnceDurable;
use super::commit::{Work, report_refused};
use super::{AppenderClosed, Keeper};
use std::collections::{HashMap, HashSet};
use tokio::time::Instant;
use turnstream_adapter::{Command, Fate, OpenWork};
use turnstream_model::event::{ApprovalOutcome, ErrorClass, QuestionOutcome, TurnError};
use turnstream_model::fold::State;
use turnstream_model::id::{Key, PromptId};
use turnstream_model::signal::{Ending, Signal};

/// A recovery that is under way.
pub(super) struct Recovery {
    asks: HashSet<Key>,
    questions: HashSet<Key>,
    pub(super) fates: HashMap<String, Fate>,
    /// It is not looked at while the session waits for room for its link.
    pub(super) deadline: Instant,
}

impl Recovery {
    /// The agent asked this again, so it still waits for an answer.
    pub(super) fn repeated(&mut self, key: &Key) {
        self.asks.remove(key);
        self.questions.remove(key);
    }
}

impl Keeper {
    /// Resumes a session that another owner had.
    pub(super) async fn resume(&mut self, state: &State) -> Result<(), AppenderClosed> {
        let open_work = OpenWork::of(state);
        if open_work.is_empty() {
            // Nothing is open, but the last status in the log may be another than `idle`.
            let mut work = Work::default();
            self.end_recovery(&mut work);
            work.effects.push(OnceDurable::Show(Box::new(self.session.clone())));
            return self.commit(work).await;
        }
        self.recover(open_work).await
    }

    /// The agent's names of prompts that were sent and have no turn.
    pub(super) fn sent_names(&self) -> Vec<String> {
        self.machine.sent_prompts().into_iter().filter_map(|(_, native_id)| native_id).collect()
    }

    /// After a lost link: asks the agent once about prompts that were sent and have no turn.
    pub(super) async fn ask_about_prompts(&mut self) -> Result<(), AppenderClosed> {
        let prompts = self.sent_names();
        if prompts.is_empty() {
            return Ok(());
        }
        self.recover(OpenWork { prompts, ..OpenWork::default() }).await
    }

    async fn recover(&mut self, open_work: OpenWork) -> Result<(), AppenderClosed> {
        self.clocks.forget_stop_of_prompt();
        // Before the commit, so that requests which arrive during it see a recovery.
        self.recovery = Some(Recovery {
            asks: open_work.asks.iter().cloned().collect(),
            questions: open_work.questions.iter().cloned().collect(),
            fates: HashMap::new(),
            deadline: Instant::now() + self.shared.settings.recovery,
        });
        let mut work = Work::default();
        self.step(&mut work, |machine, step| machine.begin_recovery(step));
        self.commit(work).await?;
        turnstream_failpoint::reach("keeper.recovering");
        Box::pin(self.connect(Some(open_work))).await
    }

    /// The agent has reported all it knows: the recovery is complete.
    pub(super) fn caught_up(&mut self, work: &mut Work) {
        let Some(Recovery { asks, questions, mut fates, deadline: _ }) = self.recovery.take() else { return };
        for key in asks {
            let closed = Signal::AskClosed { key, outcome: ApprovalOutcome::Lost };
            self.step(work, |machine, step| machine.observe(closed, step));
        }
        for key in questions {
            let closed = Signal::QuestionClosed { key, outcome: QuestionOutcome::Lost, answers: None };
            self.step(work, |machine, step| machine.observe(closed, step));
        }
        // Before any prompt: the cancel is for the recovered turn, not for a later one.
        if self.machine.is_cancelling() {
            work.commands.push(Command::Cancel);
        }
        let cancelling = self.machine.cancelling_prompts();
        // Also for a prompt that the agent never had: its request may still be on the way.
        work.commands.extend(self.cancelling_names().into_iter().map(Command::CancelPrompt));
        let sent = self.machine.sent_prompts();
        self.resends.keep(|prompt| sent.iter().any(|(other, _)| other == prompt));
        for (prompt, native_id) in sent {
            let fate = native_id.as_ref().and_then(|name| fates.remove(name)).unwrap_or(Fate::Unknown);
            let is_unwanted = cancelling.iter().any(|(cancelling, _)| *cancelling == prompt);
            match (fate, native_id) {
                (Fate::NeverSeen, _) if is_unwanted => {
                    self.step(work, |machine, step| machine.stop_unstarted(&prompt, step));
                }
                (Fate::NeverSeen, Some(native_id)) if self.resends.send_again(&prompt) => {
                    let content = self.contents.of(&prompt);
                    work.commands.push(Command::Prompt { native_id, content });
                    self.clocks.sent(self.shared.settings.start);
                }
                // It fails.
                (Fate::NeverSeen, Some(_)) => {}
                // Its turn is still to come, or the deadline for it passes.
                (Fate::Taken, _) => self.clocks.sent(self.shared.settings.start),
                (Fate::NeverSeen, None) | (Fate::Unknown, _) => self.clocks.unknown.push(prompt),
            }
        }
        self.clocks.active();
        self.end_recovery(work);
        tracing::debug!("the session is recovered");
        turnstream_failpoint::reach("keeper.caught_up");
    }

    pub(super) fn end_recovery(&mut self, work: &mut Work) {
        self.recovery = None;
        self.step(work, |machine, step| machine.end_recovery(step));
    }

    /// Ends prompts of which the agent cannot tell whether they ran, and prompts that were given up, as soon
    /// as no turn is open.
    pub(super) async fn settle_unknown(&mut self) -> Result<(), AppenderClosed> {
        let is_nothing_left = self.clocks.unknown.is_empty() && self.resends.given_up.is_empty();
        if is_nothing_left || self.machine.open_turn().is_some() {
            return Ok(());
        }
        let mut work = Work::default();
        for prompt in std::mem::take(&mut self.resends.given_up) {
            let ending = Ending::failed(self.resends.error());
            let failed = self.step(&mut work, |machine, step| machine.end_prompt(&prompt, ending, step));
            report_refused(failed, "fail a prompt that the agent never took");
        }
        for prompt in std::mem::take(&mut self.clocks.unknown) {
            self.lose_prompt(&prompt, &mut work);
        }
        self.commit(work).await
    }

    fn lose_prompt(&mut self, prompt: &PromptId, work: &mut Work) {
        let message = "the prompt was sent, and the agent cannot say whether it ran";
        let ending = Ending::lost(TurnError::new(ErrorClass::AgentExited, message));
        let ended = self.step(work, |machine, step| machine.end_prompt(prompt, ending, step));
        if ended.is_err() {
            tracing::debug!(%prompt, "a prompt had its turn after all");
        }
    }
}
