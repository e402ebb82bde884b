//! For the tests of conversations without I/O: one on a desk, with its turn machine. What goes in, the log,
//! and the lines for the agent.

mod captures;
mod playback;

pub(crate) use captures::Judge;
pub(crate) use playback::{Capture, Driver, Fault};

use serde_json::{Map, Value, json};
use turnstream_adapter::{Command, Fate, Observed, OpenWork};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{
    ApprovalOutcome, Body, By, Draft, ErrorClass, Event, Outcome, QuestionOutcome, Resolution, StopReason,
    TurnError,
};
use turnstream_model::fold::{Fold, State};
use turnstream_model::id::{ApprovalId, Counters, QuestionId, SessionId};
use turnstream_model::machine::{Cancel, Machine, Step};
use turnstream_model::signal::Ending;
use turnstream_model::time::Time;
use turnstream_testkit::lawful::{Tail, assert_lawful};

const START: u64 = 1_794_770_000_000;

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Completed(StopReason),
    Cancelled,
    Failed(ErrorClass, Option<u16>),
    Lost,
    Open,
}

/// A conversation with an agent.
pub(crate) trait Talks {
    /// Handles a command of the keeper.
    fn command(&mut self, command: Command, now: Time);
    /// Handles one line of the agent.
    fn line(&mut self, line: &[u8], now: Time);
    /// The next observation for the keeper.
    fn next_observed(&mut self) -> Option<Observed>;
    /// The next line for the agent.
    fn next_line(&mut self) -> Option<String>;
    /// The agent is gone.
    fn exited(&mut self, error: TurnError);
}

/// Implements [`Talks`] by the methods of the same names.
macro_rules! talks {
    ($conversation:ty) => {
        impl crate::desk::Talks for $conversation {
            fn command(&mut self, command: turnstream_adapter::Command, now: turnstream_model::time::Time) {
                self.command(command, now);
            }

            fn line(&mut self, line: &[u8], now: turnstream_model::time::Time) {
                self.line(line, now);
            }

            fn next_observed(&mut self) -> Option<turnstream_adapter::Observed> {
                self.next_observed()
            }

            fn next_line(&mut self) -> Option<String> {
                self.next_line()
            }

            fn exited(&mut self, error: turnstream_model::event::TurnError) {
                self.exited(error);
            }
        }
    };
}

pub(crate) use talks;

/// A conversation with everything around it.
pub(crate) struct Desk<C> {
    pub(crate) conversation: C,
    /// Makes the conversation with the next process.
    make: fn() -> C,
    machine: Machine,
    ids: Counters,
    pub(crate) now: u64,
    pub(crate) log: Vec<Event>,
    /// The lines for the agent.
    pub(crate) written: Vec<Value>,
}

impl<C: Talks> Desk<C> {
    /// A new session with this agent.
    pub(crate) fn with(agent: &str, make: fn() -> C) -> Self {
        let mut desk = Self {
            conversation: make(),
            make,
            machine: Machine::new(),
            ids: Counters::default(),
            now: START,
            log: Vec::new(),
            written: Vec::new(),
        };
        let session = SessionId::from("s1");
        let (agent, cwd) = (agent.to_owned(), "/workspace".to_owned());
        desk.step(|machine, step| machine.create(session, agent, cwd, None, None, step)).unwrap();
        desk.drain();
        desk
    }

    fn step<T>(&mut self, act: impl FnOnce(&mut Machine, &mut Step<'_>) -> T) -> T {
        let (mut drafts, mut needs): (Vec<Draft>, Vec<_>) = (Vec::new(), Vec::new());
        let now = Time(self.now);
        let mut step = Step { now, ids: &mut self.ids, drafts: &mut drafts, needs: &mut needs };
        let result = act(&mut self.machine, &mut step);
        for draft in drafts {
            let seq = Seq(self.log.len() as u64 + 1);
            self.log.push(draft.at(seq, now));
        }
        for need in needs {
            self.conversation.command(Command::Fetch(need), now);
        }
        result
    }

    /// Feeds the machine, and collects the lines for the agent.
    pub(crate) fn drain(&mut self) {
        while let Some(observed) = self.conversation.next_observed() {
            let Observed::Signal(signal) = observed else { panic!("not a signal: {observed:?}") };
            self.step(|machine, step| machine.observe(signal, step));
        }
        while let Some(line) = self.conversation.next_line() {
            assert!(!line.contains('\n'), "one line: {line}");
            self.written.push(serde_json::from_str(&line).unwrap());
        }
    }

    pub(crate) fn command(&mut self, command: Command) {
        self.conversation.command(command, Time(self.now));
        self.drain();
    }

    pub(crate) fn line(&mut self, line: &str) {
        self.conversation.line(line.as_bytes(), Time(self.now));
        self.drain();
    }

    pub(crate) fn lines(&mut self, lines: &[Value]) {
        lines.iter().for_each(|line| self.line(&line.to_string()));
    }

    pub(crate) fn prompt(&mut self, native_id: &str, content: Vec<Value>) {
        let (name, kept) = (native_id.to_owned(), content.clone());
        self.step(|machine, step| {
            let accepted = machine.accept(None, kept, step).unwrap();
            machine.send(&accepted.prompt, Some(name), step).unwrap();
        });
        self.command(Command::Prompt { native_id: native_id.to_owned(), content });
    }

    pub(crate) fn say(&mut self, native_id: &str, text: &str) {
        self.prompt(native_id, vec![json!({"type": "text", "text": text})]);
    }

    pub(crate) fn cancel(&mut self) {
        if let Some(turn) = self.machine.open_turn().cloned() {
            self.step(|machine, step| machine.cancel(&Cancel::Turn(turn), By::Client, step)).unwrap();
        }
        self.command(Command::Cancel);
    }

    pub(crate) fn cancel_prompt(&mut self, native_id: &str) {
        let sent = self.machine.sent_prompts();
        if let Some((prompt, _)) = sent.into_iter().find(|(_, name)| name.as_deref() == Some(native_id)) {
            self.step(|machine, step| machine.cancel(&Cancel::Prompt(prompt), By::Client, step)).unwrap();
        }
        self.command(Command::CancelPrompt(native_id.to_owned()));
    }

    /// Answers a permission. The agent hears also what is too late.
    pub(crate) fn approve(&mut self, key: &str, outcome: ApprovalOutcome, option: Option<&str>) {
        if let Some(approval) = self.approval(key) {
            let resolution = Resolution::new(outcome, By::Client);
            // Refused if it was settled meanwhile.
            let _ = self.step(|machine, step| machine.resolve(&approval, resolution, step));
        }
        let option = option.map(str::to_owned);
        self.command(Command::Approve { key: key.into(), outcome, option, message: None });
    }

    pub(crate) fn answer(&mut self, key: &str, answers: Option<Map<String, Value>>) {
        let outcome = match answers {
            Some(_) => QuestionOutcome::Answered,
            None => QuestionOutcome::Rejected,
        };
        if let Some(question) = self.question(key) {
            let given = answers.clone();
            let _ = self.step(|machine, step| machine.answer(&question, outcome, given, None, step));
        }
        self.command(Command::Answer { key: key.into(), outcome, answers });
    }

    fn approval(&self, key: &str) -> Option<ApprovalId> {
        self.log.iter().find_map(|event| match &event.draft.body {
            Body::ApprovalRequested { approval, native_id, .. } if native_id.as_deref() == Some(key) => {
                Some(approval.clone())
            }
            _ => None,
        })
    }

    /// The question with this key.
    pub(crate) fn question(&self, key: &str) -> Option<QuestionId> {
        self.log.iter().find_map(|event| match &event.draft.body {
            Body::QuestionAsked { question, native_id, .. } if native_id.as_deref() == Some(key) => {
                Some(question.clone())
            }
            _ => None,
        })
    }

    /// The process ends. Prompts without a turn are lost, as the keeper decides when nobody can tell.
    pub(crate) fn exit(&mut self) {
        self.pass(0);
        let error = TurnError::new(ErrorClass::AgentExited, "the agent's process ended");
        self.conversation.exited(error.clone());
        self.drain();
        for (prompt, _) in self.step(|machine, _| machine.sent_prompts()) {
            let ending = Ending::lost(error.clone());
            self.step(|machine, step| machine.end_prompt(&prompt, ending, step)).unwrap();
        }
    }

    /// A new gateway takes over after the old one was killed. Its conversation begins with the open work.
    /// Returns the fates of the prompts that had no turn, once all was reported.
    pub(crate) fn recover(&mut self, begin: impl FnOnce(&mut Self, OpenWork) -> Vec<Observed>) -> Vec<Fate> {
        let state = self.state();
        self.machine = Machine::resume(&state);
        self.ids = state.counters;
        self.restart();
        self.step(|machine, step| machine.begin_recovery(step));
        let (mut fates, mut caught_up) = (Vec::new(), false);
        for observed in begin(self, OpenWork::of(&state)) {
            assert!(!caught_up, "it comes last");
            match observed {
                Observed::Signal(signal) => self.step(|machine, step| machine.observe(signal, step)),
                Observed::Fate { fate, .. } => fates.push(fate),
                Observed::CaughtUp => caught_up = true,
                Observed::Away(_) | Observed::Back => panic!("not expected: {observed:?}"),
            }
        }
        assert!(caught_up);
        self.step(|machine, step| machine.end_recovery(step));
        self.drain();
        fates
    }

    pub(crate) fn restart(&mut self) {
        self.conversation = (self.make)();
        self.drain();
    }

    /// Time passes; the machine acts on its deadlines.
    pub(crate) fn pass(&mut self, millis: u64) {
        let end = self.now + millis;
        while let Some(due) = self.step(|machine, _| machine.deadline()).filter(|due| due.0 <= end) {
            self.now = self.now.max(due.0);
            self.step(|machine, step| machine.tick(step));
            self.drain();
        }
        self.now = end;
    }

    pub(crate) fn state(&self) -> State {
        Fold::of(&self.log).state().clone()
    }

    pub(crate) fn ends(&self) -> Vec<End> {
        let end = |turn: &turnstream_model::fold::Turn| match turn.outcome {
            Some(Outcome::Completed) => End::Completed(turn.stop_reason.unwrap()),
            Some(Outcome::Cancelled) => End::Cancelled,
            Some(Outcome::Failed) => {
                let error = turn.error.as_ref().unwrap();
                End::Failed(error.class, error.status)
            }
            Some(Outcome::Lost) => End::Lost,
            None => End::Open,
        };
        self.state().turns.iter().map(end).collect()
    }

    #[track_caller]
    pub(crate) fn assert_lawful(&self, tail: Tail) {
        let lines: Vec<String> = self.log.iter().map(Event::to_json).collect();
        assert_lawful(lines.iter().map(String::as_str), tail);
    }
}
