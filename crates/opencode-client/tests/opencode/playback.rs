//! Plays a capture to a conversation: the prompts and aborts its driver sent, the events the server sent,
//! at their times, with faults in between.

use crate::capture::{Capture, Step};
use crate::server::Server;
use crate::stage::{START, Stage};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use turnstream_model::event::{ErrorClass, Event, Permissions, StopReason};
use turnstream_model::time::Time;
use turnstream_opencode_client::conversation::{Budget, Conversation, Pace};
use turnstream_opencode_client::event::Event as AgentEvent;
use turnstream_opencode_client::standalone::StandaloneConversation;

/// What is done to the stream.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    None,
    Drop(BTreeSet<usize>),
    Repeat(usize),
    /// From that event on to before that one nothing is heard.
    Cut(usize, usize),
    /// The owner dies before that event, and another takes up before that one.
    Crash(usize, usize),
    /// These come only after the next prompt has been sent.
    Delay(BTreeSet<usize>),
    /// That event comes only after that later one.
    Late(usize, usize),
    /// From that event on to before that one only states are heard, after a mark.
    Lag(usize, usize),
}

/// What came of it.
#[derive(Debug, PartialEq)]
pub(crate) struct Played {
    pub(crate) turns: Vec<End>,
    /// What the model said in the session itself.
    pub(crate) texts: Vec<String>,
    pub(crate) aborts: usize,
    /// The capture has something that cannot have happened with this fault.
    pub(crate) unplayable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Completed(StopReason),
    Cancelled,
    Failed(ErrorClass),
    Lost,
    Open,
}

impl Capture {
    pub(crate) fn play(&self, fault: &Fault) -> Played {
        self.play_with(fault, Budget { steps: None, ..Budget::default() }).0
    }

    /// Plays it; also returns the log.
    pub(crate) fn play_with(&self, fault: &Fault, budget: Budget) -> (Played, Vec<Event>) {
        self.run(fault, budget).judge()
    }

    /// Plays it to the death of its server; another one has the same messages and does nothing.
    pub(crate) fn play_server_death(&self) -> (Played, Vec<Event>) {
        self.play_server_death_after(self.events().len())
    }

    /// The same, and it dies after so many events.
    pub(crate) fn play_server_death_after(&self, events: usize) -> (Played, Vec<Event>) {
        let mut stage = self.stage_after(events);
        stage.server.rests();
        stage.reconnect();
        stage.finish();
        stage.judge()
    }

    fn stage_after(&self, events: usize) -> Stage {
        let mut dead = self.clone();
        let is_event =
            |(place, (_, step)): (usize, &(u64, Step))| matches!(step, Step::Event(..)).then_some(place);
        let last = dead.steps.iter().enumerate().filter_map(is_event).take(events).last().unwrap();
        dead.steps.truncate(last + 1);
        dead.run_until_last()
    }

    fn run_until_last(&self) -> Stage {
        self.run_inner(&Fault::None, Budget { steps: None, ..Budget::default() }, 0, 0, false)
    }

    /// Plays it with answers that take so long, from a server that is so many events ahead of its stream.
    pub(crate) fn play_slow(&self, fault: &Fault, rest: u64, ahead: usize) -> (Played, Vec<Event>) {
        self.run_slow(fault, Budget { steps: None, ..Budget::default() }, rest, ahead).judge()
    }

    pub(crate) fn run(&self, fault: &Fault, budget: Budget) -> Stage {
        self.run_slow(fault, budget, 0, 0)
    }

    fn run_slow(&self, fault: &Fault, budget: Budget, rest: u64, ahead: usize) -> Stage {
        self.run_inner(fault, budget, rest, ahead, true)
    }

    fn run_inner(&self, fault: &Fault, budget: Budget, rest: u64, ahead: usize, finish: bool) -> Stage {
        let conversation = Conversation::new(&self.session, Pace::default(), budget, Time(START));
        let mut stage = Stage {
            standalone: StandaloneConversation::new(
                conversation,
                &self.session,
                "/workspace",
                Permissions::Ask,
                Time(START),
            ),
            server: Server::default(),
            session: self.session.clone(),
            now: START,
            log: Vec::new(),
            aborts: 0,
            ours: BTreeSet::new(),
            late: 0,
            dead: false,
            unplayable: false,
            rest,
            pending: Vec::new(),
        };
        let all: Vec<&Value> = self
            .steps
            .iter()
            .filter_map(|(_, step)| match step {
                Step::Event(event, _) => Some(event),
                _ => None,
            })
            .collect();
        // The server cannot be ahead of what a client has not done yet.
        let mut bounds = Vec::new();
        for (_, step) in &self.steps {
            match step {
                Step::Event(..) => bounds.push(None),
                Step::Prompt { .. } | Step::Abort | Step::Death | Step::Reconnect => {
                    let so_far = bounds.len();
                    bounds.iter_mut().filter(|bound| bound.is_none()).for_each(|bound| *bound = Some(so_far));
                }
            }
        }
        let mut shown = 0;
        let mut kept: Vec<Arc<AgentEvent>> = Vec::new();
        stage.standalone.connected(None, Time(START));
        stage.turn_over();
        let (mut number, mut aborted) = (0, false);
        let mut delayed = Vec::new();
        for (at, step) in &self.steps {
            stage.advance(START + at + stage.late);
            match step {
                // The server was told to stop before the capture's driver told it: what it did in between
                // it would not do.
                Step::Event(..) if stage.aborts > 0 && !aborted => number += 1,
                Step::Event(event, parsed) => {
                    let _ = event;
                    let bound = bounds[number].unwrap_or(all.len()).max(number + 1);
                    while shown < bound && shown <= number + ahead {
                        stage.server.sends(all[shown]);
                        shown += 1;
                    }
                    let index = number;
                    number += 1;
                    match fault {
                        // Too slow: what is left out happened before the mark is read, and states are kept
                        // behind it.
                        Fault::Lag(from, to) if (*from..*to).contains(&index) => {
                            if parsed.is_control() {
                                kept.push(parsed.clone());
                            }
                            continue;
                        }
                        Fault::Lag(_, to) if *to == index => {
                            stage.reconnect();
                            for event in std::mem::take(&mut kept) {
                                stage.deliver(&event);
                            }
                        }
                        Fault::Drop(dropped) if dropped.contains(&index) => continue,
                        Fault::Cut(from, to) | Fault::Crash(from, to) if (*from..*to).contains(&index) => {
                            stage.dead = matches!(fault, Fault::Crash(..));
                            continue;
                        }
                        Fault::Delay(late) if late.contains(&index) => {
                            delayed.push(parsed.clone());
                            continue;
                        }
                        Fault::Late(late, _) if *late == index => {
                            delayed.push(parsed.clone());
                            continue;
                        }
                        Fault::Cut(_, to) if *to == index => stage.reconnect(),
                        Fault::Crash(_, to) if *to == index => stage.take_up(),
                        _ => {}
                    }
                    stage.deliver(parsed);
                    if matches!(fault, Fault::Repeat(twice) if *twice == index) {
                        stage.deliver(parsed);
                    }
                    if matches!(fault, Fault::Late(_, after) if *after == index) {
                        std::mem::take(&mut delayed).iter().for_each(|late| stage.deliver(late));
                    }
                }
                // Whoever would have sent it is dead, so it was not sent; nor was what it caused.
                Step::Prompt { .. } | Step::Abort if stage.dead || !kept.is_empty() => {
                    stage.unplayable = true
                }
                Step::Prompt { message, text } => {
                    if !matches!(fault, Fault::None) && self.ours.contains(message) {
                        stage.wait_for_end();
                    }
                    stage.prompt(message, text);
                    if matches!(fault, Fault::Delay(_)) {
                        std::mem::take(&mut delayed).iter().for_each(|late| stage.deliver(late));
                    }
                }
                Step::Death => stage.server.rests(),
                Step::Reconnect => stage.reconnect(),
                Step::Abort if stage.aborts > 0 => aborted = true,
                Step::Abort => {
                    stage.standalone.cancel(Time(stage.now));
                    // The capture has its effect already.
                    stage.turn_over();
                    stage.aborts -= 1;
                }
            }
        }
        match fault {
            Fault::Cut(_, to) if *to >= number => stage.reconnect(),
            Fault::Lag(_, to) if *to >= number => {
                stage.reconnect();
                for event in std::mem::take(&mut kept) {
                    stage.deliver(&event);
                }
            }
            Fault::Crash(_, to) if *to >= number => stage.take_up(),
            _ => {}
        }
        if finish {
            stage.finish();
        }
        stage
    }
}
