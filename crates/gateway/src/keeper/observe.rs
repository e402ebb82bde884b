//! Observations of the agent become events. Approvals that the session's permissions decide are answered.

use super::commit::{Work, report_refused};
use super::connection::Connection;
use super::waits::{OpenAsk, OpenQuestion, option_for};
use super::{AppenderClosed, Keeper, moment};
use crate::redactor::Prompts;
use tokio::time::Instant;
use turnstream_adapter::{Command, Observed};
use turnstream_model::event::{
    ApprovalOutcome, Body, By, Draft, Effect, NoticeCode, Permissions, QuestionOutcome, Resolution, Status,
    Subject, TurnError,
};
use turnstream_model::id::{ApprovalId, QuestionId};
use turnstream_model::signal::Signal;

/// Most observations in one batch. Requests and deadlines are handled between two batches.
const AT_ONCE: usize = 512;

impl Keeper {
    /// Applies an observation and those that the link has buffered behind it.
    pub(super) async fn observed(&mut self, first: Observed) -> Result<(), AppenderClosed> {
        let mut work = Work::default();
        let mut next = Some(first);
        let mut applied = 0;
        while let Some(observed) = next {
            applied += 1;
            if let Observed::Signal(Signal::LinkLost(error)) = observed {
                self.commit(work).await?;
                return self.link_lost(error).await;
            }
            self.apply_observation(observed, &mut work);
            next = match &mut self.connection {
                Connection::Up(link, _) if applied < AT_ONCE => link.try_observe(),
                Connection::Up(..)
                | Connection::Down
                | Connection::WaitingForRoom(_)
                | Connection::Connecting(_) => None,
            };
        }
        self.commit(work).await
    }

    fn apply_observation(&mut self, observed: Observed, work: &mut Work) {
        match observed {
            Observed::Signal(signal) => self.signal(signal, work),
            Observed::Fate { native_id, fate } => {
                if let Some(recovery) = &mut self.recovery {
                    recovery.fates.insert(native_id, fate);
                }
            }
            Observed::CaughtUp => self.caught_up(work),
            Observed::Away(reason) => self.agent_away(reason),
            Observed::Back => self.agent_back(),
        }
    }

    fn signal(&mut self, signal: Signal, work: &mut Work) {
        let mut passed = std::mem::take(&mut self.passed);
        let prompts = Prompts::of(&self.session);
        self.redactor.pass(signal, &self.machine, prompts, Instant::now(), &mut passed);
        if passed.is_empty() {
            // Text that the redactor holds back is activity too.
            self.clocks.active();
        }
        for signal in passed.drain(..) {
            self.observe(signal, work);
        }
        self.passed = passed;
    }

    /// Passes all text that the redactor holds back: the turn is about to end without a signal of the agent.
    pub(super) fn flush_texts(&mut self, work: &mut Work) {
        let mut flushed = Vec::new();
        self.redactor.flush(&mut flushed);
        for signal in flushed {
            self.step(work, |machine, step| machine.observe(signal, step));
        }
    }

    /// Passes text that the redactor has held back for long enough.
    pub(super) fn release_texts(&mut self, work: &mut Work) {
        let mut released = Vec::new();
        self.redactor.release(Instant::now(), &mut released);
        for signal in released {
            self.step(work, |machine, step| machine.observe(signal, step));
        }
    }

    fn observe(&mut self, signal: Signal, work: &mut Work) {
        if let Signal::Ask { key, .. } | Signal::Question { key, .. } = &signal {
            if let Some(recovery) = &mut self.recovery {
                recovery.repeated(key);
            }
            // It was answered before, and the agent did not receive the answer.
            let answer = self.decided.get(key).cloned().map(|command| self.in_its_words(command));
            work.commands.extend(answer);
        }
        let before = work.drafts.len();
        self.step(work, |machine, step| machine.observe(signal, step));
        if work.drafts[before..].iter().any(Draft::is_activity) {
            self.clocks.active();
        }
        let asked: Vec<Wait> = work.drafts[before..].iter().filter_map(Wait::of).collect();
        for wait in asked {
            self.apply_rule(wait, work);
        }
    }

    /// Answers an approval or a question if the session's permissions decide it.
    fn apply_rule(&mut self, wait: Wait, work: &mut Work) {
        let outcome = match self.session.permissions.unwrap_or(Permissions::Ask) {
            Permissions::Ask => return,
            Permissions::Allow => ApprovalOutcome::AllowOnce,
            Permissions::Deny => ApprovalOutcome::Reject,
        };
        match wait {
            Wait::Approval(approval, what) => {
                // With `allow` most agents should not ask at all. A notice shows that one is configured
                // otherwise.
                let is_expected =
                    self.agent.as_ref().is_some_and(|agent| agent.leaves_permissions_to_gateway());
                if outcome == ApprovalOutcome::AllowOnce && !is_expected {
                    let message =
                        format!("the agent asked for a permission, and the rule `allow` gave it: {what}");
                    let (code, detail) = (NoticeCode::UnexpectedPermission, None);
                    let notice = Signal::Notice { code, message, detail };
                    self.step(work, |machine, step| machine.observe(notice, step));
                }
                self.decide(&approval, Resolution::new(outcome, By::Policy), work);
            }
            // A rule cannot answer a question, but it can reject it.
            Wait::Question(question) => {
                if outcome == ApprovalOutcome::Reject {
                    self.reject_question(&question, QuestionOutcome::Rejected, work);
                }
            }
        }
    }

    /// Decides an approval without a client. The agent is told when the decision is durable.
    pub(super) fn decide(&mut self, approval: &ApprovalId, mut resolution: Resolution, work: &mut Work) {
        let outcome = resolution.outcome;
        let options = self.waits.asks.get(approval).map(|ask| ask.options.as_slice()).unwrap_or_default();
        resolution.option = option_for(options, outcome);
        let (option, message) = (resolution.option.clone(), resolution.message.clone());
        let key = self.machine.ask_key(approval).cloned();
        let settled = self.step(work, |machine, step| machine.resolve(approval, resolution, step));
        if let (Ok(()), Some(key)) = (settled, key) {
            let outcome = match outcome {
                ApprovalOutcome::AllowOnce | ApprovalOutcome::AllowAlways => outcome,
                ApprovalOutcome::Reject
                | ApprovalOutcome::Cancelled
                | ApprovalOutcome::Expired
                | ApprovalOutcome::Lost => ApprovalOutcome::Reject,
            };
            self.tell_decision(Command::Approve { key, outcome, option, message }, work);
        }
    }

    /// Rejects a question without a client. The agent is told when that is durable.
    pub(super) fn reject_question(
        &mut self,
        question: &QuestionId,
        outcome: QuestionOutcome,
        work: &mut Work,
    ) {
        let key = self.machine.question_key(question).cloned();
        let settled = self.step(work, |machine, step| machine.answer(question, outcome, None, None, step));
        if let (Ok(()), Some(key)) = (settled, key) {
            let command = Command::Answer { key, outcome: QuestionOutcome::Rejected, answers: None };
            self.tell_decision(command, work);
        }
    }

    /// An answer from the log has the redacted labels of choices. The agent has just asked again, so its own
    /// labels are known.
    fn in_its_words(&self, command: Command) -> Command {
        match command {
            Command::Answer { key, outcome, answers: Some(answers) } => {
                let told = self.redactor.labels().as_offered(&key, &[], &answers);
                Command::Answer { key, outcome, answers: Some(told.unwrap_or(answers)) }
            }
            command @ (Command::Answer { answers: None, .. }
            | Command::Approve { .. }
            | Command::Prompt { .. }
            | Command::Cancel
            | Command::CancelPrompt(_)
            | Command::Change { .. }
            | Command::Fetch(_)) => command,
        }
    }

    /// Sends a decision to the agent when it is durable, and again whenever the agent asks again.
    pub(super) fn tell_decision(&mut self, command: Command, work: &mut Work) {
        if let Command::Approve { key, .. } | Command::Answer { key, .. } = &command {
            self.decided.insert(key.clone(), command.clone());
        }
        work.commands.push(command);
    }

    /// Updates the keeper's own state from the events of a step.
    pub(super) fn track(&mut self, before: usize, work: &Work) {
        for draft in &work.drafts[before..] {
            let Some((subject, effect)) = draft.about() else { continue };
            match subject {
                Subject::Approval(approval) => self.note_approval(approval, &draft.body),
                Subject::Question(question) => self.note_question(question, &draft.body),
                Subject::Prompt(prompt) if effect == Effect::Ends => {
                    self.contents.remove(prompt);
                    if self.machine.cancelling_prompts().is_empty() {
                        self.clocks.prompt_settled(self.machine.is_cancelling());
                    }
                }
                Subject::Turn(_) if effect == Effect::Begins => {
                    self.clocks.active();
                    self.redactor.turn_started();
                }
                Subject::Turn(_) if effect == Effect::Ends => {
                    self.decided.clear();
                    self.redactor.keep_only(|key| self.machine.is_open(key));
                    self.clocks.turn_ended(self.shared.settings.start);
                }
                Subject::Session => {
                    if let Body::SessionStatus(status) = &draft.body {
                        self.clocks.retry = match status {
                            Status::Retrying { until, .. } => until.map(moment),
                            Status::Idle | Status::Busy | Status::Waiting | Status::Recovering => None,
                        };
                    }
                }
                Subject::Prompt(_)
                | Subject::Turn(_)
                | Subject::Attempt(_)
                | Subject::Item(_)
                | Subject::Notice => {}
            }
        }
    }

    fn note_approval(&mut self, approval: &ApprovalId, body: &Body) {
        if let Body::ApprovalRequested { options, .. } = body {
            let ask = OpenAsk { options: options.clone(), since: self.outage.asked_at() };
            self.waits.asks.insert(approval.clone(), ask);
        } else if let Body::ApprovalResolved { resolution, .. } = body {
            self.waits.asks.remove(approval);
            if let Some(key) = &resolution.key {
                self.waits.ask_keys.insert(approval.clone(), key.clone());
            }
        }
    }

    fn note_question(&mut self, question: &QuestionId, body: &Body) {
        if let Body::QuestionAsked { questions, .. } = body {
            let asked = OpenQuestion { questions: questions.clone(), since: self.outage.asked_at() };
            self.waits.questions.insert(question.clone(), asked);
        } else if let Body::QuestionAnswered { key, .. } = body {
            self.waits.questions.remove(question);
            if let Some(key) = key {
                self.waits.question_keys.insert(question.clone(), key.clone());
            }
        }
    }

    /// Ends the open turn and all sent prompts as `lost`.
    pub(super) fn lose_all(&mut self, problem: &str, work: &mut Work) {
        let error = TurnError::new(turnstream_model::event::ErrorClass::AgentExited, problem);
        self.flush_texts(work);
        self.step(work, |machine, step| machine.observe(Signal::LinkLost(error.clone()), step));
        for (prompt, _) in self.machine.sent_prompts() {
            let ending = turnstream_model::signal::Ending::lost(error.clone());
            let ended = self.step(work, |machine, step| machine.end_prompt(&prompt, ending, step));
            report_refused(ended, "end a sent prompt without an open turn");
        }
        self.end_recovery(work);
    }
}

/// Something that waits for a person.
enum Wait {
    /// The approval, and the tool it is for.
    Approval(ApprovalId, String),
    Question(QuestionId),
}

impl Wait {
    fn of(draft: &Draft) -> Option<Self> {
        if let Body::ApprovalRequested { approval, tool, .. } = &draft.body {
            let tool = tool.as_deref();
            let what = tool.and_then(|tool| tool.title.clone().or_else(|| tool.name.clone()));
            Some(Self::Approval(approval.clone(), what.unwrap_or_else(|| approval.to_string())))
        } else if let Body::QuestionAsked { question, .. } = &draft.body {
            Some(Self::Question(question.clone()))
        } else {
            None
        }
    }
}
