//! Commands of people and of the keeper. Each is either done, with its events, or refused with a reason.

use super::pending_end::PendingEnd;
use super::unattended::EndedBy;
use super::waits::NotOpen;
use super::{Machine, PromptState, SentContext, Step};
use crate::event::{
    ApprovalOutcome, Aside, Body, By, Cap, Draft, ErrorClass, Origin, QuestionOutcome, Released, Resolution,
    ResumeAs, SessionPatch, TurnError,
};
use crate::id::{ApprovalId, IdKind, Key, PromptId, QuestionId, SessionId, TurnId};
use crate::signal::{Ending, Need};
use serde_json::{Map, Value};

/// A prompt that is in the queue now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its id.
    pub prompt: PromptId,
    /// How many prompts are before it.
    pub position: usize,
}

/// What a cancel names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cancel {
    /// The open turn, or else the sent prompts.
    #[default]
    Any,
    /// This turn, if it is open.
    Turn(TurnId),
    /// This prompt, if it was sent and has no turn yet.
    Prompt(PromptId),
}

/// What a cancel ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cancelled {
    /// The open turn.
    pub turn: Option<TurnId>,
    /// Prompts that were sent. Their turns end cancelled.
    pub prompts: Vec<PromptId>,
    /// The failed turn that the session waited to continue, or was about to. It is not continued.
    pub parked: Option<TurnId>,
}

/// What a new session takes over from another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inheritance {
    /// The other session.
    pub from: SessionId,
    /// Its agent.
    pub agent: String,
    /// Its working directory.
    pub cwd: String,
    /// Its finished items, as the first prompt of the new session carries them.
    pub text: String,
    /// How many entries the text has.
    pub entries: u32,
    /// How many of the oldest entries did not fit.
    pub left_out: u32,
}

/// The reason why a command was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The session was created before.
    #[error("the session exists already")]
    SessionExists,
    /// The session has ended.
    #[error("the session has ended")]
    SessionEnded,
    /// The session has used up its budget.
    #[error("the session has used {used} of {limit}, and takes no prompt until this cap is raised")]
    Capped {
        /// The cap.
        cap: Cap,
        /// What was used of it, in words.
        used: String,
        /// What may be used, in words.
        limit: String,
    },
    /// The prompt does not wait any more.
    #[error("prompt {prompt} is not waiting: it {}", has(*state))]
    NotWaiting {
        /// The prompt.
        prompt: PromptId,
        /// How far it has come; `None` when it has its outcome, or never was.
        state: Option<PromptState>,
    },
    /// The prompt was not sent, or has its outcome.
    #[error("prompt {prompt} is not at the agent: it {}", has(*state))]
    NotSent {
        /// The prompt.
        prompt: PromptId,
        /// How far it has come; `None` when it has its outcome, or never was.
        state: Option<PromptState>,
    },
    /// The session waits to continue a turn, and sends nothing.
    #[error("the session waits to continue a turn")]
    Parked,
    /// The session does not wait to continue a turn.
    #[error("the session does not wait to continue a turn")]
    NotParked,
    /// Nothing runs that could be cancelled.
    #[error("no turn is open, and no prompt was sent that has no turn yet")]
    NothingRuns,
    /// That turn is not the open one.
    #[error("turn {} is not open; {}", name(asked.as_ref()), now(open.as_ref()))]
    TurnNotOpen {
        /// The turn that was named.
        asked: Option<TurnId>,
        /// The turn that is open.
        open: Option<TurnId>,
    },
    /// Somebody answered before.
    #[error("approval {approval} was settled already: {outcome}")]
    ApprovalSettled {
        /// The approval.
        approval: ApprovalId,
        /// The outcome of the first answer.
        outcome: ApprovalOutcome,
    },
    /// No such approval.
    #[error("there is no approval {0} waiting in this session")]
    UnknownApproval(ApprovalId),
    /// Somebody answered before.
    #[error("question {question} was settled already: {outcome}")]
    QuestionSettled {
        /// The question.
        question: QuestionId,
        /// What won.
        outcome: QuestionOutcome,
    },
    /// No such question.
    #[error("there is no question {0} waiting in this session")]
    UnknownQuestion(QuestionId),
}

fn has(state: Option<PromptState>) -> &'static str {
    match state {
        Some(PromptState::Waiting) => "still waits in the queue",
        Some(PromptState::Sent) => "was sent to the agent",
        None => "has its outcome already, or never was in this session",
    }
}

fn name(turn: Option<&TurnId>) -> &str {
    turn.map_or("(any)", TurnId::as_str)
}

fn now(turn: Option<&TurnId>) -> String {
    turn.map_or_else(|| "no turn is open".to_owned(), |turn| format!("the open turn is {turn}"))
}

impl Machine {
    /// The first event of a session; once.
    pub fn create(
        &mut self,
        session: SessionId,
        agent: String,
        cwd: String,
        title: Option<String>,
        key: Option<String>,
        step: &mut Step<'_>,
    ) -> Result<(), Refusal> {
        if std::mem::replace(&mut self.created, true) {
            return Err(Refusal::SessionExists);
        }
        self.session.title.clone_from(&title);
        step.drafts.push(Draft::new(Body::SessionCreated { session, agent, cwd, title, key }));
        Ok(())
    }

    /// Puts a prompt into the queue.
    pub fn accept(
        &mut self,
        key: Option<String>,
        content: Vec<Value>,
        step: &mut Step<'_>,
    ) -> Result<Accepted, Refusal> {
        self.refuse_if_ended()?;
        self.refuse_if_capped()?;
        // The client goes on by itself.
        self.release(Released::Prompt, By::Client, step);
        let prompt = PromptId::from(step.ids.fresh(IdKind::Prompt));
        let position = self.prompts.accept(prompt.clone(), key, content, step.drafts);
        Ok(Accepted { prompt, position })
    }

    /// Marks a prompt as sent. The draft must be durable before the bytes leave for the agent (L12).
    pub fn send(
        &mut self,
        prompt: &PromptId,
        native_id: Option<String>,
        step: &mut Step<'_>,
    ) -> Result<(), Refusal> {
        self.send_with(prompt, native_id, SentContext::Included, step)
    }

    /// Like [`Machine::send`], and says whether the context that waits for a prompt goes with this one.
    pub fn send_with(
        &mut self,
        prompt: &PromptId,
        native_id: Option<String>,
        context: SentContext,
        step: &mut Step<'_>,
    ) -> Result<(), Refusal> {
        self.refuse_if_ended()?;
        self.refuse_if_capped()?;
        if self.parked.is_some() {
            return Err(Refusal::Parked);
        }
        if self.prompts.send(prompt, native_id, context, step.drafts) {
            self.show_status(step);
            Ok(())
        } else {
            Err(Refusal::NotWaiting { prompt: prompt.clone(), state: self.prompts.state(prompt) })
        }
    }

    /// Takes a prompt out of the queue while it waits.
    pub fn withdraw(&mut self, prompt: &PromptId, step: &mut Step<'_>) -> Result<(), Refusal> {
        if self.prompts.withdraw(prompt, step.drafts) {
            self.show_status(step);
            Ok(())
        } else {
            Err(Refusal::NotWaiting { prompt: prompt.clone(), state: self.prompts.state(prompt) })
        }
    }

    /// The agent accepted a prompt and never began. The prompt gets a turn that failed.
    pub fn never_started(&mut self, prompt: &PromptId, step: &mut Step<'_>) -> Result<(), Refusal> {
        let state = self.prompts.state(prompt);
        if state != Some(PromptState::Sent) {
            return Err(Refusal::NotSent { prompt: prompt.clone(), state });
        }
        if let Some(open) = self.open_turn() {
            return Err(Refusal::TurnNotOpen { asked: None, open: Some(open.clone()) });
        }
        let message = match self.stray_error.take() {
            Some(error) => format!("the agent took the prompt and never began: {}", error.message),
            None => "the agent took the prompt and never began".to_owned(),
        };
        self.fail_unstarted(prompt.clone(), TurnError::new(ErrorClass::NotStarted, message), step);
        Ok(())
    }

    /// Gives a sent prompt a turn that ends at once: the agent cannot be reached, or nobody can find out
    /// whether the prompt ran.
    pub fn end_prompt(
        &mut self,
        prompt: &PromptId,
        ending: Ending,
        step: &mut Step<'_>,
    ) -> Result<(), Refusal> {
        let state = self.prompts.state(prompt);
        if state != Some(PromptState::Sent) {
            return Err(Refusal::NotSent { prompt: prompt.clone(), state });
        }
        if let Some(open) = self.open_turn() {
            return Err(Refusal::TurnNotOpen { asked: None, open: Some(open.clone()) });
        }
        self.start_turn(Origin::Prompt, vec![prompt.clone()], None, step);
        self.end_turn(ending, EndedBy::Keeper, step);
        Ok(())
    }

    /// The next prompt to send, if no turn is open, no sent prompt waits for its turn, and the session has
    /// not reached a cap and is not parked.
    pub fn next_prompt(&self) -> Option<PromptId> {
        let free = self.turn.is_none() && !self.prompts.any_sent() && !self.recovering && !self.ended;
        let free = free && !self.is_capped() && self.parked.is_none();
        free.then(|| self.prompts.first_waiting()).flatten()
    }

    /// How many prompts are before this one; `None` when it has its outcome.
    pub fn position(&self, prompt: &PromptId) -> Option<usize> {
        self.prompts.position(prompt)
    }

    /// Prompts that were sent and have no turn yet, with the native ids they were sent with.
    pub fn sent_prompts(&self) -> Vec<(PromptId, Option<String>)> {
        self.prompts.sent_with_names()
    }

    /// The agent's id of an open approval.
    pub fn ask_key(&self, approval: &ApprovalId) -> Option<&Key> {
        self.waits.ask_key(approval)
    }

    /// The agent's id of an open question.
    pub fn question_key(&self, question: &QuestionId) -> Option<&Key> {
        self.waits.question_key(question)
    }

    /// The turn of an open approval; none for background work.
    pub fn turn_of_ask(&self, approval: &ApprovalId) -> Option<&TurnId> {
        self.waits.ask_turn(approval)
    }

    /// The turn of an open question; none for background work.
    pub fn turn_of_question(&self, question: &QuestionId) -> Option<&TurnId> {
        self.waits.question_turn(question)
    }

    /// True when nothing is open: no turn, prompt, approval, question, recovery or wait for a continuation.
    pub fn is_quiet(&self) -> bool {
        self.turn.is_none()
            && self.prompts.is_empty()
            && !self.waits.any_open()
            && !self.recovering
            && self.parked.is_none()
    }

    /// True when nothing is open but prompts that wait until a cap is raised.
    pub fn is_resting(&self) -> bool {
        let waits_for_cap = self.is_capped() && !self.prompts.any_sent();
        self.is_quiet()
            || (waits_for_cap && self.turn.is_none() && !self.waits.any_open() && !self.recovering)
    }

    /// True when the agent waits for a person.
    pub fn is_waiting(&self) -> bool {
        self.waits.any_open()
    }

    /// True once the session has ended.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Cancels a turn or sent prompts. The log has one event, however often a cancel is requested. The end
    /// still has to be observed.
    pub fn cancel(&mut self, what: &Cancel, by: By, step: &mut Step<'_>) -> Result<Cancelled, Refusal> {
        let cancelled = self.cancellable(what)?;
        if let Some(turn) = self.turn.as_mut().filter(|_| cancelled.turn.is_some()) {
            turn.cancel(by, step.drafts);
        }
        for prompt in &cancelled.prompts {
            self.prompts.cancel(prompt, by, step.drafts);
        }
        if cancelled.parked.is_some() {
            match self.prompts.waiting_continuation().map(|(prompt, _)| prompt.clone()) {
                Some(prompt) => _ = self.prompts.withdraw(&prompt, step.drafts),
                None => self.release(Released::Cancelled, by, step),
            }
            self.show_status(step);
        }
        Ok(cancelled)
    }

    /// What a cancel would end: what it names, or nothing. Queued prompts of people are never cancelled.
    /// The turn that the session waits to continue can be named too, until its continuation is sent.
    pub fn cancellable(&self, what: &Cancel) -> Result<Cancelled, Refusal> {
        let open = self.open_turn();
        let released = || self.prompts.waiting_continuation().map(|(_, continuation)| continuation);
        let continuation = self.parked.as_ref().map(|parked| &parked.continuation).or_else(released);
        let parked = continuation.map(|continuation| &continuation.of);
        match what {
            Cancel::Any => {
                let (turn, parked) = (open.cloned(), parked.cloned());
                let running = Cancelled { turn, prompts: self.prompts.sent(), parked };
                if running == Cancelled::default() { Err(Refusal::NothingRuns) } else { Ok(running) }
            }
            Cancel::Turn(turn) if open == Some(turn) => {
                Ok(Cancelled { turn: Some(turn.clone()), ..Cancelled::default() })
            }
            Cancel::Turn(turn) if parked == Some(turn) => {
                Ok(Cancelled { parked: Some(turn.clone()), ..Cancelled::default() })
            }
            Cancel::Turn(turn) => {
                Err(Refusal::TurnNotOpen { asked: Some(turn.clone()), open: open.cloned() })
            }
            Cancel::Prompt(prompt) => {
                let state = self.prompts.state(prompt);
                // The cancel was repeated after the prompt got its turn.
                let turn = self.turn.as_ref().filter(|turn| turn.is_unwanted_for(prompt));
                if state != Some(PromptState::Sent) && turn.is_none() {
                    return Err(Refusal::NotSent { prompt: prompt.clone(), state });
                }
                let turn = turn.map(|turn| turn.id().clone());
                Ok(Cancelled { turn, prompts: vec![prompt.clone()], parked: None })
            }
        }
    }

    /// A cancelled prompt never began. It gets a cancelled turn, now or when no other turn is open.
    pub fn stop_unstarted(&mut self, prompt: &PromptId, step: &mut Step<'_>) {
        if self.prompts.cancelling().any(|(cancelling, _)| cancelling == prompt) {
            let error = TurnError::new(ErrorClass::Cancelled, "the prompt was cancelled before it began");
            self.refuse_prompt(prompt.clone(), error, step);
        }
    }

    /// Sent prompts that were cancelled, with the native ids they were sent with.
    pub fn cancelling_prompts(&self) -> Vec<(PromptId, Option<String>)> {
        let cancelling = self.prompts.cancelling();
        cancelling.map(|(prompt, name)| (prompt.clone(), name.map(str::to_owned))).collect()
    }

    /// True when the open turn was cancelled and has not ended.
    pub fn is_cancelling(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.report.cancelling)
    }

    /// Ends a turn without a report of the agent: a deadline passed, or its owner is gone. Does nothing if
    /// another turn is open.
    pub fn end_open_turn(
        &mut self,
        turn: &TurnId,
        ending: Ending,
        step: &mut Step<'_>,
    ) -> Result<(), Refusal> {
        if self.open_turn() != Some(turn) {
            let open = self.open_turn().cloned();
            return Err(Refusal::TurnNotOpen { asked: Some(turn.clone()), open });
        }
        self.end_turn(ending, EndedBy::Keeper, step);
        Ok(())
    }

    /// Settles an approval. The first answer wins.
    pub fn resolve(
        &mut self,
        approval: &ApprovalId,
        resolution: Resolution,
        step: &mut Step<'_>,
    ) -> Result<(), Refusal> {
        let outcome = resolution.outcome;
        match self.waits.resolve(approval, resolution, step.drafts) {
            Ok(turn) => {
                self.note_rejection(turn.as_ref(), outcome == ApprovalOutcome::Reject);
                self.show_status(step);
                Ok(())
            }
            Err(NotOpen::Settled(outcome)) => {
                Err(Refusal::ApprovalSettled { approval: approval.clone(), outcome })
            }
            Err(NotOpen::Unknown) => Err(Refusal::UnknownApproval(approval.clone())),
        }
    }

    /// Settles a question. The first answer wins.
    pub fn answer(
        &mut self,
        question: &QuestionId,
        outcome: QuestionOutcome,
        answers: Option<Map<String, Value>>,
        key: Option<String>,
        step: &mut Step<'_>,
    ) -> Result<(), Refusal> {
        match self.waits.answer(question, outcome, answers, key, step.drafts) {
            Ok(turn) => {
                self.note_rejection(turn.as_ref(), outcome == QuestionOutcome::Rejected);
                self.show_status(step);
                Ok(())
            }
            Err(NotOpen::Settled(outcome)) => {
                Err(Refusal::QuestionSettled { question: question.clone(), outcome })
            }
            Err(NotOpen::Unknown) => Err(Refusal::UnknownQuestion(question.clone())),
        }
    }

    /// Changes title, model or mode.
    pub fn change(&mut self, patch: SessionPatch, step: &mut Step<'_>) -> Result<(), Refusal> {
        self.refuse_if_ended()?;
        self.session_changed(patch, step);
        Ok(())
    }

    /// The agent has forgotten the session, and a client chose how it goes on. Its next link makes a new
    /// session of the agent.
    pub fn resume_session(&mut self, r#as: ResumeAs, step: &mut Step<'_>) -> Result<(), Refusal> {
        self.refuse_if_ended()?;
        if let Some(open) = self.open_turn() {
            return Err(Refusal::TurnNotOpen { asked: None, open: Some(open.clone()) });
        }
        let forgot = self.session.native_id.take();
        step.drafts.push(Draft::new(Body::SessionResumed { r#as, forgot }));
        Ok(())
    }

    /// Another session goes on from this one's finished items. Said once for each session.
    pub fn hand_over(&mut self, to: SessionId, agent: String, step: &mut Step<'_>) -> Result<(), Refusal> {
        self.refuse_if_ended()?;
        step.drafts.push(Draft::new(Aside::SessionHandedOver { to, agent }.into()));
        Ok(())
    }

    /// The session goes on from the finished items of another one.
    pub fn inherit(&mut self, inheritance: Inheritance, step: &mut Step<'_>) {
        let Inheritance { from, agent, cwd, text, entries, left_out } = inheritance;
        let body = Aside::SessionInherited { from, agent, cwd, text, entries, left_out };
        step.drafts.push(Draft::new(body.into()));
    }

    /// A new owner starts to settle what the last one left open.
    pub fn begin_recovery(&mut self, step: &mut Step<'_>) {
        self.recovering = !self.ended;
        // A status probe will show whether the turn is still running.
        if self.turn.is_some() {
            self.pending_end = Some(PendingEnd::asking(step.now));
        }
        self.show_status(step);
    }

    /// The open turn has been silent for long. Its end may have been missed, so the agent's status is probed.
    pub fn doubt(&mut self, step: &mut Step<'_>) {
        if let Some(turn) = &self.turn {
            self.pending_end = Some(PendingEnd::asking(step.now));
            step.needs.push(Need::StatusProbe(turn.id().clone()));
        }
    }

    /// What the last owner left open is settled or resumed.
    pub fn end_recovery(&mut self, step: &mut Step<'_>) {
        self.recovering = false;
        self.show_status(step);
    }

    /// Ends the session. An open turn ends cancelled. Sent prompts that never began get a turn.
    pub fn end_session(&mut self, reason: String, step: &mut Step<'_>) -> Result<(), Refusal> {
        self.refuse_if_ended()?;
        self.release(Released::Cancelled, By::Gateway, step);
        self.end_turn(Ending::cancelled(), EndedBy::Keeper, step);
        for prompt in self.prompts.sent() {
            self.never_started(&prompt, step)?;
        }
        self.prompts.withdraw_all(step.drafts);
        self.close_background(step);
        self.recovering = false;
        self.show_status(step);
        self.ended = true;
        step.drafts.push(Draft::new(Body::SessionEnded { reason }));
        Ok(())
    }

    pub(super) fn refuse_if_ended(&self) -> Result<(), Refusal> {
        if self.ended { Err(Refusal::SessionEnded) } else { Ok(()) }
    }
}
