//! Counts of events by agent, for the metrics. An event is counted when it is durable.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use turnstream_model::event::{
    ApprovalOutcome, Aside, Because, Body, By, Cap, ErrorClass, NoticeCode, Outcome, QuestionOutcome,
    Released, Scope,
};
use turnstream_model::fold::State;

/// Events in the sessions of one agent since the gateway was opened, and what is open in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Prompts that were accepted.
    pub prompts_accepted: u64,
    /// Prompts that were withdrawn before they were sent.
    pub prompts_withdrawn: u64,
    /// Turns that began.
    pub turns_started: u64,
    /// Turns that ended, by outcome and by the class of the error, if there was one.
    pub turns_ended: BTreeMap<(Outcome, Option<ErrorClass>), u64>,
    /// Approvals that wait for an answer.
    pub approvals_waiting: u64,
    /// Approvals that were resolved, by outcome and by who decided.
    pub approvals_resolved: BTreeMap<(ApprovalOutcome, By), u64>,
    /// Questions that wait for an answer.
    pub questions_waiting: u64,
    /// Questions that were closed, by outcome.
    pub questions_answered: BTreeMap<QuestionOutcome, u64>,
    /// Notices, by code.
    pub notices: BTreeMap<NoticeCode, u64>,
    /// Caps of budgets that were reached, by turn or session and by cap.
    pub caps_reached: BTreeMap<(Scope, Cap), u64>,
    /// Failed turns that sessions waited to continue, by the reason.
    pub parked: BTreeMap<Because, u64>,
    /// Such waits that are over, by the reason.
    pub released: BTreeMap<Released, u64>,
}

/// The part of an event that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    PromptAccepted,
    PromptWithdrawn,
    TurnStarted,
    TurnEnded(Outcome, Option<ErrorClass>),
    ApprovalRequested,
    ApprovalResolved(ApprovalOutcome, By),
    QuestionAsked,
    QuestionAnswered(QuestionOutcome),
    Notice(NoticeCode),
    CapReached(Scope, Cap),
    Parked(Because),
    Released(Released),
}

impl Counted {
    /// `None` for events that are not counted.
    pub(crate) fn of(body: &Body) -> Option<Self> {
        match body {
            Body::PromptAccepted { .. } => Some(Self::PromptAccepted),
            Body::PromptWithdrawn { .. } => Some(Self::PromptWithdrawn),
            Body::TurnStarted { .. } => Some(Self::TurnStarted),
            Body::TurnEnded { outcome, error, .. } => {
                Some(Self::TurnEnded(*outcome, error.as_ref().map(|error| error.class)))
            }
            Body::ApprovalRequested { .. } => Some(Self::ApprovalRequested),
            Body::ApprovalResolved { resolution, .. } => {
                Some(Self::ApprovalResolved(resolution.outcome, resolution.by))
            }
            Body::QuestionAsked { .. } => Some(Self::QuestionAsked),
            Body::QuestionAnswered { outcome, .. } => Some(Self::QuestionAnswered(*outcome)),
            Body::Notice { code, .. } => Some(Self::Notice(*code)),
            Body::SessionCreated { .. }
            | Body::SessionUpdated(_)
            | Body::SessionStatus(_)
            | Body::SessionResumed { .. }
            | Body::SessionEnded { .. }
            | Body::PromptSent { .. }
            | Body::PromptTaken { .. }
            | Body::AttemptStarted { .. }
            | Body::AttemptEnded { .. }
            | Body::AttemptSuperseded { .. }
            | Body::ItemStarted { .. }
            | Body::ItemDelta { .. }
            | Body::ItemReplaced { .. }
            | Body::ItemUpdated { .. }
            | Body::ItemEnded { .. }
            | Body::ItemRevised { .. }
            | Body::ItemRemoved
            | Body::Unknown { .. } => None,
            Body::Aside(aside) => Self::of_aside(aside),
        }
    }

    fn of_aside(aside: &Aside) -> Option<Self> {
        match aside {
            Aside::BudgetReached { scope, cap, .. } => Some(Self::CapReached(*scope, *cap)),
            Aside::UnattendedParked { continuation, .. } => Some(Self::Parked(continuation.because)),
            Aside::UnattendedReleased { outcome, .. } => Some(Self::Released(*outcome)),
            Aside::PromptCancelling { .. }
            | Aside::TurnCancelling { .. }
            | Aside::BudgetSet { .. }
            | Aside::BudgetUsed { .. }
            | Aside::SessionHandedOver { .. }
            | Aside::SessionInherited { .. }
            | Aside::UnattendedSet { .. }
            | Aside::PromptContinues { .. }
            | Aside::TurnContinues { .. } => None,
        }
    }
}

impl EventCounts {
    fn add(&mut self, event: Counted) {
        match event {
            Counted::PromptAccepted => self.prompts_accepted += 1,
            Counted::PromptWithdrawn => self.prompts_withdrawn += 1,
            Counted::TurnStarted => self.turns_started += 1,
            Counted::TurnEnded(outcome, error) => *self.turns_ended.entry((outcome, error)).or_default() += 1,
            Counted::ApprovalRequested => self.approvals_waiting += 1,
            Counted::ApprovalResolved(outcome, by) => {
                self.approvals_waiting = self.approvals_waiting.saturating_sub(1);
                *self.approvals_resolved.entry((outcome, by)).or_default() += 1;
            }
            Counted::QuestionAsked => self.questions_waiting += 1,
            Counted::QuestionAnswered(outcome) => {
                self.questions_waiting = self.questions_waiting.saturating_sub(1);
                *self.questions_answered.entry(outcome).or_default() += 1;
            }
            Counted::Notice(code) => *self.notices.entry(code).or_default() += 1,
            Counted::CapReached(scope, cap) => *self.caps_reached.entry((scope, cap)).or_default() += 1,
            Counted::Parked(because) => *self.parked.entry(because).or_default() += 1,
            Counted::Released(outcome) => *self.released.entry(outcome).or_default() += 1,
        }
    }
}

/// The name under which agents are counted that are not configured: those of imported sessions, and those
/// that were configured earlier. A file may name any agent, and labels of metrics have to stay few.
pub(crate) const OTHER_AGENTS: &str = "other";

/// The counts of all configured agents by name, and of the others together.
#[derive(Default)]
pub(crate) struct EventCounters(Mutex<BTreeMap<String, EventCounts>>);

impl EventCounters {
    /// Configured agents begin at zero.
    pub(crate) fn new<'a>(agents: impl Iterator<Item = &'a String>) -> Self {
        Self(Mutex::new(agents.map(|agent| (agent.clone(), EventCounts::default())).collect()))
    }

    /// Counts the open approvals and questions of a session at the start of the gateway.
    pub(crate) fn found(&self, state: &State) {
        let open = state.open();
        let (approvals, questions) = (open.approvals.len() as u64, open.questions.len() as u64);
        if approvals + questions > 0 {
            let mut all = self.lock();
            let counts = counts_of(&mut all, &state.session.agent);
            counts.approvals_waiting += approvals;
            counts.questions_waiting += questions;
        }
    }

    /// Counts events that are durable.
    pub(crate) fn add(&self, agent: &str, events: &[Counted]) {
        let mut all = self.lock();
        let counts = counts_of(&mut all, agent);
        events.iter().for_each(|event| counts.add(*event));
    }

    pub(crate) fn all(&self) -> BTreeMap<String, EventCounts> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, EventCounts>> {
        // The map is valid also after a panic of its holder.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The counts under which an agent is counted. Configured agents are in the map from the start.
fn counts_of<'a>(all: &'a mut BTreeMap<String, EventCounts>, agent: &str) -> &'a mut EventCounts {
    let label = if all.contains_key(agent) { agent } else { OTHER_AGENTS };
    all.entry(label.to_owned()).or_default()
}
