//! What the events of all logs add up to: counted when they are durable, in the one place where that is known.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use turnstream_model::event::{ApprovalOutcome, Body, By, ErrorClass, NoticeCode, Outcome, QuestionOutcome};
use turnstream_model::fold::State;

/// What happened in the sessions of one agent since the gateway was opened, and what waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Prompts that were accepted.
    pub prompts_accepted: u64,
    /// Prompts that were taken back before they were sent.
    pub prompts_withdrawn: u64,
    /// Turns that began.
    pub turns_started: u64,
    /// Turns that ended, by how and by the class of the error, if there was one.
    pub turns_ended: BTreeMap<(Outcome, Option<ErrorClass>), u64>,
    /// Approvals that wait for an answer.
    pub approvals_waiting: u64,
    /// Approvals that were settled, by how and by whom.
    pub approvals_resolved: BTreeMap<(ApprovalOutcome, By), u64>,
    /// Questions that wait for an answer.
    pub questions_waiting: u64,
    /// Questions that were settled, by how.
    pub questions_answered: BTreeMap<QuestionOutcome, u64>,
    /// Notices, by what they are about.
    pub notices: BTreeMap<NoticeCode, u64>,
}

/// One thing that counts, taken from an event before it is known to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    PromptAccepted,
    PromptWithdrawn,
    TurnStarted,
    TurnEnded(Outcome, Option<ErrorClass>),
    ApprovalRequested,
    ApprovalResolved(ApprovalOutcome, By),
    QuestionAsked,
    QuestionAnswered(QuestionOutcome),
    Notice(NoticeCode),
}

impl Fact {
    /// What counts in an event, if anything does.
    pub(crate) fn of(body: &Body) -> Option<Self> {
        if let Body::PromptAccepted { .. } = body {
            Some(Self::PromptAccepted)
        } else if let Body::PromptWithdrawn { .. } = body {
            Some(Self::PromptWithdrawn)
        } else if let Body::TurnStarted { .. } = body {
            Some(Self::TurnStarted)
        } else if let Body::TurnEnded { outcome, error, .. } = body {
            Some(Self::TurnEnded(*outcome, error.as_ref().map(|error| error.class)))
        } else if let Body::ApprovalRequested { .. } = body {
            Some(Self::ApprovalRequested)
        } else if let Body::ApprovalResolved { resolution, .. } = body {
            Some(Self::ApprovalResolved(resolution.outcome, resolution.by))
        } else if let Body::QuestionAsked { .. } = body {
            Some(Self::QuestionAsked)
        } else if let Body::QuestionAnswered { outcome, .. } = body {
            Some(Self::QuestionAnswered(*outcome))
        } else if let Body::Notice { code, .. } = body {
            Some(Self::Notice(*code))
        } else {
            None
        }
    }
}

impl Tally {
    fn add(&mut self, fact: Fact) {
        match fact {
            Fact::PromptAccepted => self.prompts_accepted += 1,
            Fact::PromptWithdrawn => self.prompts_withdrawn += 1,
            Fact::TurnStarted => self.turns_started += 1,
            Fact::TurnEnded(outcome, error) => *self.turns_ended.entry((outcome, error)).or_default() += 1,
            Fact::ApprovalRequested => self.approvals_waiting += 1,
            Fact::ApprovalResolved(outcome, by) => {
                self.approvals_waiting = self.approvals_waiting.saturating_sub(1);
                *self.approvals_resolved.entry((outcome, by)).or_default() += 1;
            }
            Fact::QuestionAsked => self.questions_waiting += 1,
            Fact::QuestionAnswered(outcome) => {
                self.questions_waiting = self.questions_waiting.saturating_sub(1);
                *self.questions_answered.entry(outcome).or_default() += 1;
            }
            Fact::Notice(code) => *self.notices.entry(code).or_default() += 1,
        }
    }
}

/// The tallies of all agents, by name.
#[derive(Default)]
pub(crate) struct Tallies(Mutex<BTreeMap<String, Tally>>);

impl Tallies {
    /// Those of the agents that are configured are there from the beginning, at zero.
    pub(crate) fn new<'a>(agents: impl Iterator<Item = &'a String>) -> Self {
        Self(Mutex::new(agents.map(|agent| (agent.clone(), Tally::default())).collect()))
    }

    /// A session as the log had it at the start: what waits there waits.
    pub(crate) fn found(&self, state: &State) {
        let open = state.open();
        let (approvals, questions) = (open.approvals.len() as u64, open.questions.len() as u64);
        if approvals + questions > 0 {
            let mut tallies = self.lock();
            let tally = tallies.entry(state.session.agent.clone()).or_default();
            tally.approvals_waiting += approvals;
            tally.questions_waiting += questions;
        }
    }

    /// These are durable.
    pub(crate) fn add(&self, agent: &str, facts: &[Fact]) {
        let mut tallies = self.lock();
        if !tallies.contains_key(agent) {
            tallies.insert(agent.to_owned(), Tally::default());
        }
        if let Some(tally) = tallies.get_mut(agent) {
            facts.iter().for_each(|fact| tally.add(*fact));
        }
    }

    pub(crate) fn all(&self) -> BTreeMap<String, Tally> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Tally>> {
        // Additions: a panic cannot leave one half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
