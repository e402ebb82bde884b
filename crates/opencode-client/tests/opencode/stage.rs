//! Where a capture is played: one conversation, the server as it was at that moment, and the time.

use crate::playback::{End, Played};
use crate::server::Server;
use crate::transcript::transcript;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use turnstream_model::check::{Checker, Tail};
use turnstream_model::event::{Event, ItemKind, Outcome, Permissions, Role};
use turnstream_model::fold::Fold;
use turnstream_model::time::Time;
use turnstream_opencode_client::conversation::{Answer, Budget, Call, Conversation, Pace, PromptAnswer};
use turnstream_opencode_client::event::Event as AgentEvent;
use turnstream_opencode_client::standalone::StandaloneConversation;

/// When it begins.
pub(crate) const START: u64 = 1_794_770_000_000;
/// How long a conversation may go on after the last event.
const PATIENCE: u64 = 10 * 60 * 1_000;

/// The conversation, its server, and what came of it so far.
pub(crate) struct Stage {
    pub(crate) standalone: StandaloneConversation,
    pub(crate) server: Server,
    pub(crate) session: String,
    pub(crate) now: u64,
    pub(crate) log: Vec<Event>,
    pub(crate) aborts: i64,
    /// Prompts that were sent as ours, and not by another client while a turn ran.
    pub(crate) ours: BTreeSet<String>,
    /// How much later than in the capture everything happens, because its driver would have had to wait.
    pub(crate) late: u64,
    /// Nobody owns the conversation.
    pub(crate) dead: bool,
    /// The capture has something that cannot have happened with this fault.
    pub(crate) unplayable: bool,
    /// How long the server takes to answer a question, and the answers that are on their way.
    pub(crate) rest: u64,
    pub(crate) pending: Vec<(u64, Answer)>,
}

impl Stage {
    pub(crate) fn deliver(&mut self, event: &Arc<AgentEvent>) {
        self.standalone.event(event, Time(self.now));
        self.turn_over();
    }

    /// A prompt of the capture; it is ours if it can be sent now, and else of another client.
    pub(crate) fn prompt(&mut self, message: &str, text: &str) {
        if self.standalone.is_busy() {
            return;
        }
        let content = vec![json!({ "type": "text", "text": text })];
        self.ours.insert(message.to_owned());
        self.standalone.prompt(message.to_owned(), content, Time(self.now)).unwrap();
        self.turn_over();
    }

    /// Another owner, who knows the log and nothing else.
    pub(crate) fn take_up(&mut self) {
        self.dead = false;
        self.pending.clear();
        let fold = Fold::of(&self.log);
        let budget = Budget { steps: None, ..Budget::default() };
        let conversation = Conversation::new(&self.session, Pace::default(), budget, Time(self.now));
        self.standalone =
            StandaloneConversation::resume(fold.state(), conversation, Permissions::Ask, Time(self.now));
        self.standalone.connected(None, Time(self.now));
        self.turn_over();
    }

    /// Prompts are sent one at a time.
    pub(crate) fn wait_for_end(&mut self) {
        let began = self.now;
        for _ in 0..1_000 {
            let arrives = self.pending.iter().map(|(at, _)| *at).min();
            let due = [self.standalone.deadline().map(|due| due.0), arrives].into_iter().flatten().min();
            let Some(due) = due.filter(|_| self.standalone.is_busy()) else { break };
            self.advance(due);
        }
        self.late += self.now - began;
    }

    pub(crate) fn reconnect(&mut self) {
        self.standalone.connected(Some("the stream was cut".to_owned()), Time(self.now));
        self.turn_over();
    }

    /// Makes the calls and takes the events.
    pub(crate) fn turn_over(&mut self) {
        while let Some(call) = self.standalone.next_call() {
            let answer = match call {
                Call::Prompt { message, .. } => Answer::Prompt(message, PromptAnswer::Accepted),
                Call::Message { message, .. } => Answer::Message(self.server.message(&message).map(Box::new)),
                Call::NewestMessages => {
                    Answer::NewestMessages(self.server.snapshot(&self.session, &[]).messages)
                }
                Call::Snapshot { children } => {
                    Answer::Snapshot(Ok(Box::new(self.server.snapshot(&self.session, &children))))
                }
                Call::Abort => {
                    self.aborts += 1;
                    Answer::Abort
                }
                Call::Reply { .. } | Call::Answer { .. } | Call::Refuse(_) | Call::Adopt(_) => continue,
            };
            if self.rest > 0 && !matches!(answer, Answer::Prompt(..)) {
                self.pending.push((self.now + self.rest, answer));
                continue;
            }
            self.standalone.answer(answer, Time(self.now));
        }
        while let Some(event) = self.standalone.take_event() {
            self.log.push(event);
        }
    }

    pub(crate) fn advance(&mut self, to: u64) {
        if self.dead {
            self.now = self.now.max(to);
            return;
        }
        for _ in 0..10_000 {
            let due = self.standalone.deadline().map(|due| due.0).filter(|due| *due <= to);
            let arrives = self.pending.iter().map(|(at, _)| *at).min().filter(|at| *at <= to);
            match (due, arrives) {
                (None, None) => break,
                (due, Some(at)) if due.is_none_or(|due| at <= due) => {
                    let place = self.pending.iter().position(|(arrives, _)| *arrives == at).unwrap();
                    let (_, answer) = self.pending.remove(place);
                    self.now = self.now.max(at);
                    self.standalone.answer(answer, Time(self.now));
                }
                (Some(due), _) => {
                    self.now = self.now.max(due);
                    self.standalone.tick(Time(self.now));
                }
                (None, Some(_)) => unreachable!(),
            }
            self.turn_over();
        }
        self.now = self.now.max(to);
    }

    pub(crate) fn finish(&mut self) {
        let end = self.now + PATIENCE;
        self.advance(end);
    }

    pub(crate) fn judge(self) -> (Played, Vec<Event>) {
        let mut fold = Fold::new();
        let mut checker = Checker::new();
        for event in &self.log {
            fold.apply(event);
            checker.line(&event.to_json());
        }
        let report = checker.finish(Tail::Live);
        assert!(report.violations.is_empty(), "{:#?}\n{}", report.violations, transcript(&self.log));
        let state = fold.state();
        let turns = state.turns.iter().map(|turn| match turn.outcome {
            Some(Outcome::Completed) => End::Completed(turn.stop_reason.unwrap()),
            Some(Outcome::Cancelled) => End::Cancelled,
            Some(Outcome::Failed) => End::Failed(turn.error.as_ref().unwrap().class),
            Some(Outcome::Lost) => End::Lost,
            None => End::Open,
        });
        let said = state.items.iter().filter(|item| {
            let is_answer = item.kind == ItemKind::Message && item.role == Some(Role::Assistant);
            is_answer && item.parent.is_none()
        });
        let texts = said.filter_map(|item| item.text.clone()).filter(|text| !text.is_empty());
        let played = Played {
            turns: turns.collect(),
            texts: texts.collect(),
            aborts: self.aborts.max(0) as usize,
            unplayable: self.unplayable,
        };
        (played, self.log)
    }
}
