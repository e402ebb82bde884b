//! A conversation with its own turn machine and without a log: the client library is built on it. Like
//! [`Conversation`] it does no I/O.

use super::conversation::{Answer, Call, Conversation};
use super::event::Event as AgentEvent;
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use turnstream_adapter::{Command, Fate, Observed, OpenWork};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{
    ApprovalOutcome, Body, By, Draft, ErrorClass, Event, NoticeCode, Permissions, QuestionOutcome,
    Resolution, TurnError,
};
use turnstream_model::fold::{PromptStage, State};
use turnstream_model::id::{ApprovalId, Counters, Key, QuestionId, SessionId, TurnId};
use turnstream_model::machine::{Cancel, Machine, Refusal, Step};
use turnstream_model::signal::{Ending, Signal};
use turnstream_model::time::Time;

/// A conversation that turns signals into events by itself.
pub struct StandaloneConversation {
    machine: Machine,
    conversation: Conversation,
    permissions: Permissions,
    ids: Counters,
    seq: u64,
    events: VecDeque<Event>,
    /// The prompt was cancelled before it had a turn.
    cancelled: bool,
    /// The answers that were given in this turn.
    answered: HashMap<Key, Command>,
    recovery: Option<Recovery>,
}

/// What is known so far of the open work.
struct Recovery {
    asks: HashSet<Key>,
    questions: HashSet<Key>,
    /// The contents of prompts without a turn, by the ids they were sent under.
    contents: HashMap<String, Vec<Value>>,
    fates: HashMap<String, Fate>,
}

impl StandaloneConversation {
    /// A conversation in this session and directory, with this rule for permissions.
    pub fn new(
        conversation: Conversation,
        session: &str,
        cwd: &str,
        permissions: Permissions,
        now: Time,
    ) -> Self {
        let mut standalone = Self {
            machine: Machine::new(),
            conversation,
            permissions,
            ids: Counters::default(),
            seq: 0,
            events: VecDeque::new(),
            cancelled: false,
            answered: HashMap::new(),
            recovery: None,
        };
        let (session, cwd) = (SessionId::from(session), cwd.to_owned());
        let created = standalone
            .step(now, |machine, step| machine.create(session, "opencode".to_owned(), cwd, None, None, step));
        debug_assert!(created.is_ok(), "the session is new");
        standalone
    }

    /// Resumes a conversation at the end of this fold, for callers that store its events. The server is
    /// asked about open work as soon as the stream is open. Send no prompt before that is settled.
    pub fn resume(
        state: &State,
        mut conversation: Conversation,
        permissions: Permissions,
        now: Time,
    ) -> Self {
        let left = OpenWork::of(state);
        let sent = state.queue.iter().filter(|prompt| prompt.state == PromptStage::Sent);
        let contents = sent.filter_map(|prompt| Some((prompt.native_id.clone()?, prompt.content.clone())));
        let recovery = Recovery {
            asks: left.asks.iter().cloned().collect(),
            questions: left.questions.iter().cloned().collect(),
            contents: contents.collect(),
            fates: HashMap::new(),
        };
        conversation.continue_session();
        let is_open = !left.is_empty();
        if is_open {
            conversation.recover(left);
        }
        let mut standalone = Self {
            machine: Machine::resume(state),
            conversation,
            permissions,
            ids: state.counters,
            seq: state.seq.0,
            events: VecDeque::new(),
            cancelled: false,
            answered: HashMap::new(),
            recovery: is_open.then_some(recovery),
        };
        standalone.step(now, |machine, step| match is_open {
            true => machine.begin_recovery(step),
            false => machine.end_recovery(step),
        });
        standalone
    }

    /// The next event of the conversation.
    pub fn take_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next call to make.
    pub fn next_call(&mut self) -> Option<Call> {
        self.conversation.next_call()
    }

    /// The open turn.
    pub fn open_turn(&self) -> Option<&TurnId> {
        self.machine.open_turn()
    }

    /// True while a prompt runs or is about to.
    pub fn is_busy(&self) -> bool {
        self.machine.open_turn().is_some() || !self.machine.sent_prompts().is_empty()
    }

    /// When [`StandaloneConversation::tick`] has something to do.
    pub fn deadline(&self) -> Option<Time> {
        [self.machine.deadline(), self.conversation.deadline()].into_iter().flatten().min()
    }

    // === what a person does ===

    /// Sends a prompt under this id.
    pub fn prompt(&mut self, native_id: String, content: Vec<Value>, now: Time) -> Result<(), Refusal> {
        self.cancelled = false;
        self.answered.clear();
        let name = native_id.clone();
        let kept = content.clone();
        self.step(now, |machine, step| {
            let accepted = machine.accept(None, kept, step)?;
            machine.send(&accepted.prompt, Some(name), step)
        })?;
        self.conversation.command(Command::Prompt { native_id, content }, now);
        self.apply_observed(now);
        Ok(())
    }

    /// Stops the turn. Its end must still be observed.
    pub fn cancel(&mut self, now: Time) {
        self.cancelled = true;
        self.step(now, |_, _| ());
        self.conversation.command(Command::Cancel, now);
        self.apply_observed(now);
    }

    /// Stops the turn, which fails with this error.
    pub fn stop_for(&mut self, error: TurnError, now: Time) {
        self.conversation.stop_for(error, now);
        self.apply_observed(now);
    }

    /// The turn is over: rejects its open permissions and questions.
    pub fn close(&mut self) {
        self.conversation.stopped();
    }

    /// Answers a permission.
    pub fn approve(
        &mut self,
        approval: &ApprovalId,
        outcome: ApprovalOutcome,
        by: By,
        now: Time,
    ) -> Result<(), Refusal> {
        let key = self.machine.ask_key(approval).cloned();
        self.step(now, |machine, step| machine.resolve(approval, Resolution::new(outcome, by), step))?;
        if let Some(key) = key {
            let answer = Command::Approve { key: key.clone(), outcome, option: None, message: None };
            self.send_answer(key, answer, now);
        }
        self.apply_observed(now);
        Ok(())
    }

    /// Answers a question, or declines it.
    pub fn answer_question(
        &mut self,
        question: &QuestionId,
        answers: Option<Map<String, Value>>,
        now: Time,
    ) -> Result<(), Refusal> {
        let key = self.machine.question_key(question).cloned();
        let outcome = match answers {
            Some(_) => QuestionOutcome::Answered,
            None => QuestionOutcome::Rejected,
        };
        let given = answers.clone();
        self.step(now, |machine, step| machine.answer(question, outcome, given, None, step))?;
        if let Some(key) = key {
            self.send_answer(key.clone(), Command::Answer { key, outcome, answers }, now);
        }
        self.apply_observed(now);
        Ok(())
    }

    /// Sends an answer to the server. It is sent again if the server asks again: an answer may get lost.
    fn send_answer(&mut self, key: Key, answer: Command, now: Time) {
        self.answered.insert(key, answer.clone());
        self.conversation.command(answer, now);
    }

    /// Ends the turn without an answer of the server.
    pub fn end(&mut self, ending: Ending, now: Time) {
        match self.machine.open_turn().cloned() {
            Some(turn) => {
                let ended = self.step(now, |machine, step| machine.end_open_turn(&turn, ending, step));
                debug_assert!(ended.is_ok(), "the open turn is open");
            }
            None => {
                for (prompt, _) in self.machine.sent_prompts() {
                    let ending = ending.clone();
                    let ended = self.step(now, |machine, step| machine.end_prompt(&prompt, ending, step));
                    debug_assert!(ended.is_ok(), "a sent prompt without an open turn can be ended");
                }
            }
        }
    }

    // === what the server does ===

    /// The stream is open, perhaps after a gap.
    pub fn connected(&mut self, gap: Option<String>, now: Time) {
        self.conversation.connected(gap, now);
        self.apply_observed(now);
    }

    /// The stream is lost and is being reconnected.
    pub fn lost(&mut self, reason: &str, now: Time) {
        self.conversation.lost(reason, now);
        self.apply_observed(now);
    }

    /// The stream is closed for good.
    pub fn closed(&mut self, reason: TurnError, now: Time) {
        self.conversation.closed(reason);
        self.apply_observed(now);
    }

    /// Handles an event of the stream.
    pub fn event(&mut self, event: &Arc<AgentEvent>, now: Time) {
        self.conversation.event(event, now);
        self.apply_observed(now);
    }

    /// Handles the answer to a call.
    pub fn answer(&mut self, answer: Answer, now: Time) {
        self.conversation.answer(answer, now);
        self.apply_observed(now);
    }

    /// Handles everything whose time has come.
    pub fn tick(&mut self, now: Time) {
        self.conversation.tick(now);
        self.step(now, |machine, step| machine.tick(step));
        self.apply_observed(now);
    }

    /// Feeds observations to the turn machine.
    fn apply_observed(&mut self, now: Time) {
        while let Some(observed) = self.conversation.next_observed() {
            match observed {
                Observed::Signal(signal) => self.observe(signal, now),
                Observed::Fate { native_id, fate } => {
                    if let Some(recovery) = &mut self.recovery {
                        recovery.fates.insert(native_id, fate);
                    }
                }
                Observed::CaughtUp => self.caught_up(now),
                // The conversation itself holds prompts back.
                Observed::Away(_) | Observed::Back => {}
            }
        }
    }

    /// The server has answered about all open work.
    fn caught_up(&mut self, now: Time) {
        let Some(Recovery { asks, questions, mut contents, mut fates }) = self.recovery.take() else {
            return;
        };
        let (asked, answers) = (ApprovalOutcome::Lost, None);
        let asks = asks.into_iter().map(|key| Signal::AskClosed { key, outcome: asked });
        let outcome = QuestionOutcome::Lost;
        let questions = questions.into_iter().map(|key| Signal::QuestionClosed {
            key,
            outcome,
            answers: answers.clone(),
        });
        for closed in asks.chain(questions) {
            self.step(now, |machine, step| machine.observe(closed, step));
        }
        let cancelling = self.machine.cancelling_prompts();
        for (prompt, native_id) in self.machine.sent_prompts() {
            let is_unwanted = cancelling.iter().any(|(cancelling, _)| *cancelling == prompt);
            let fate = native_id.as_ref().and_then(|name| fates.remove(name)).unwrap_or(Fate::Unknown);
            match (fate, native_id) {
                (Fate::NeverSeen, _) if is_unwanted => {
                    self.step(now, |machine, step| machine.stop_unstarted(&prompt, step));
                }
                (Fate::Taken, Some(native_id)) if is_unwanted => {
                    self.conversation.command(Command::CancelPrompt(native_id), now);
                }
                (Fate::NeverSeen, Some(native_id)) => {
                    let content = contents.remove(&native_id).unwrap_or_default();
                    self.conversation.command(Command::Prompt { native_id, content }, now);
                }
                // Its work follows as signals.
                (Fate::Taken, _) => {}
                (Fate::NeverSeen, None) | (Fate::Unknown, _) => {
                    let message = "the prompt was sent, and opencode cannot say whether it ran";
                    let ending = Ending::lost(TurnError::new(ErrorClass::TransportLost, message));
                    // Refused if the prompt got its turn in the meantime.
                    log_refusal(self.step(now, |machine, step| machine.end_prompt(&prompt, ending, step)));
                }
            }
        }
        self.step(now, |machine, step| machine.end_recovery(step));
    }

    fn observe(&mut self, signal: Signal, now: Time) {
        if let (Signal::Ask { key, .. } | Signal::Question { key, .. }, Some(recovery)) =
            (&signal, &mut self.recovery)
        {
            recovery.asks.remove(key);
            recovery.questions.remove(key);
        }
        if let Signal::Ask { key, .. } | Signal::Question { key, .. } = &signal
            && let Some(answer) = self.answered.get(key)
        {
            self.conversation.command(answer.clone(), now);
        }
        let before = self.events.len();
        let lost = match &signal {
            Signal::LinkLost(error) => Some(Ending::lost(error.clone())),
            _ => None,
        };
        self.step(now, |machine, step| machine.observe(signal, step));
        if let Some(ending) = lost {
            // It can no longer be found out whether a prompt without a turn ran.
            self.end(ending, now);
        }
        let asked: Vec<Body> =
            self.events.range(before..).map(|event| event.draft.body.clone()).filter(is_ask).collect();
        for ask in asked {
            self.apply_rule(ask, now);
        }
    }

    fn apply_rule(&mut self, ask: Body, now: Time) {
        let outcome = match self.permissions {
            Permissions::Ask => return,
            Permissions::Allow => ApprovalOutcome::AllowOnce,
            Permissions::Deny => ApprovalOutcome::Reject,
        };
        if let Body::ApprovalRequested { approval, tool, .. } = ask {
            if outcome == ApprovalOutcome::AllowOnce {
                let title = tool.and_then(|tool| tool.title).unwrap_or_default();
                let message = format!("opencode asked for a permission and was allowed by rule: {title}");
                let notice = Signal::Notice { code: NoticeCode::UnexpectedPermission, message, detail: None };
                self.step(now, |machine, step| machine.observe(notice, step));
            }
            // Refused if it was settled by the same signal.
            log_refusal(self.approve(&approval, outcome, By::Policy, now));
        } else if let Body::QuestionAsked { question, .. } = ask {
            // Only a person can answer a question: a rule declines it.
            log_refusal(self.answer_question(&question, None, now));
        }
    }

    fn step<T>(&mut self, now: Time, act: impl FnOnce(&mut Machine, &mut Step<'_>) -> T) -> T {
        let (mut drafts, mut needs): (Vec<Draft>, Vec<_>) = (Vec::new(), Vec::new());
        let mut step = Step { now, ids: &mut self.ids, drafts: &mut drafts, needs: &mut needs };
        let result = act(&mut self.machine, &mut step);
        if self.cancelled {
            self.cancelled = self.machine.cancel(&Cancel::Any, By::Client, &mut step).is_err();
        }
        for draft in drafts {
            self.seq += 1;
            self.events.push_back(draft.at(Seq(self.seq), now));
        }
        for need in needs {
            self.conversation.command(Command::Fetch(need), now);
        }
        result
    }
}

fn is_ask(body: &Body) -> bool {
    matches!(body, Body::ApprovalRequested { .. } | Body::QuestionAsked { .. })
}

/// A refusal here means that something was settled in the meantime.
fn log_refusal<T>(result: Result<T, Refusal>) {
    if let Err(refusal) = result {
        tracing::debug!(reason = %refusal, "already settled");
    }
}
