//! Unattended runs: a session that is parked after a failed turn, and the prompt that continues the turn.

use super::turn::ClosedTurn;
use super::{Accepted, Machine, Refusal, Step};
use crate::event::{Aside, Body, By, Continuation, Draft, Released, Status, Unattended};
use crate::fold::{Meter, Parked};
use crate::id::{IdKind, PromptId};
use crate::time::Time;
use crate::unattended::{self, EndedTurn, Park};
use serde_json::json;

/// How a turn came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndedBy {
    /// The agent reported it.
    Agent,
    /// The keeper decided it, or nobody answered.
    Keeper,
}

/// What the rules need to know of a turn, from before its end.
pub(super) struct Ending {
    pub(super) by: EndedBy,
    pub(super) is_prompted: bool,
    pub(super) is_cancelled: bool,
    pub(super) continues: Option<Continuation>,
}

impl Machine {
    /// Sets the rules of the session. Rules that it has already are not set again. A wait that they no longer
    /// ask for is over.
    pub fn set_unattended(&mut self, rules: Unattended, by: By, step: &mut Step<'_>) -> Result<(), Refusal> {
        self.refuse_if_ended()?;
        if rules != self.unattended {
            let unattended = Box::new(rules.clone());
            step.drafts.push(Draft::new(Aside::UnattendedSet { unattended, by }.into()));
            self.unattended = rules;
        }
        let is_unwanted = |parked: &Parked| !unattended::still_wanted(&parked.continuation, &self.unattended);
        if self.parked.as_ref().is_some_and(is_unwanted) {
            self.release(Released::Rules, by, step);
            self.show_status(step);
        }
        Ok(())
    }

    /// The rules of the session.
    pub fn unattended(&self) -> &Unattended {
        &self.unattended
    }

    /// The wait for a continuation.
    pub fn parked(&self) -> Option<&Parked> {
        self.parked.as_ref()
    }

    /// Whether a wait that is over could be followed by its prompt now.
    pub fn can_continue(&self) -> bool {
        self.parked.is_some()
            && self.turn.is_none()
            && !self.prompts.any_sent()
            && !self.recovering
            && !self.ended
    }

    /// Ends the wait with the prompt that continues the turn. Both are in one step, so that a crash leaves
    /// the wait or the prompt, and never both.
    pub fn continue_parked(
        &mut self,
        outcome: Released,
        by: By,
        step: &mut Step<'_>,
    ) -> Result<Accepted, Refusal> {
        self.refuse_if_ended()?;
        let Some(parked) = self.parked.as_ref().filter(|_| self.can_continue()) else {
            return Err(Refusal::NotParked);
        };
        let continuation = parked.continuation.clone();
        if let Err(refusal) = self.refuse_if_capped() {
            self.release(Released::Budget, By::Policy, step);
            self.show_status(step);
            return Err(refusal);
        }
        self.release(outcome, by, step);
        let prompt = PromptId::from(step.ids.fresh(IdKind::Prompt));
        let content = vec![json!({"type": "text", "text": self.unattended.continue_with})];
        self.prompts.accept_continuation(prompt.clone(), content, continuation, step.drafts);
        Ok(Accepted { prompt, position: 0 })
    }

    /// The wait is over. The status stays until the next prompt is sent, if there is one.
    pub(super) fn release(&mut self, outcome: Released, by: By, step: &mut Step<'_>) {
        let Some(parked) = self.parked.take() else { return };
        let of = parked.continuation.of;
        step.drafts.push(Draft::new(Aside::UnattendedReleased { of, outcome, by }.into()));
        self.released = true;
    }

    /// Parks the session if its rules ask for it. The end of the turn is the last draft.
    pub(super) fn park_after(&mut self, closed: &ClosedTurn, ending: &Ending, step: &mut Step<'_>) {
        let Some(Draft { body, .. }) = step.drafts.last() else { return };
        let Body::TurnEnded { outcome, error, .. } = body else { return };
        let turn = EndedTurn {
            id: &closed.id,
            outcome: *outcome,
            error: error.as_deref(),
            is_prompted: ending.is_prompted,
            is_cancelled: ending.is_cancelled,
            has_unknown_tool: closed.items.has_unknown_tool(),
            has_worked: closed.items.has_completed_work(),
            agent_answers: ending.by == EndedBy::Agent,
            continues: ending.continues.as_ref(),
        };
        if self.parked.is_some() || self.will_be_capped(body, step.now) {
            return;
        }
        if let Some(Park { until, continuation }) = unattended::decide(&turn, &self.unattended, step.now) {
            let body = Aside::UnattendedParked { until, continuation: Box::new(continuation.clone()) };
            step.drafts.push(Draft::new(body.into()));
            self.parked = Some(Parked { continuation, until, time: step.now });
        }
    }

    /// Whether the session is at a cap, this end included.
    fn will_be_capped(&self, end: &Body, now: Time) -> bool {
        let mut meter = self.meter.clone();
        Meter::follow(&mut meter, end, now);
        let is_used_up = |meter: &Meter| meter.budget.session.reached_by(&meter.used).is_some();
        self.is_capped() || meter.is_some_and(|meter| is_used_up(&meter))
    }

    /// The end of the turn has used up the budget after all.
    pub(super) fn release_if_capped(&mut self, step: &mut Step<'_>) {
        if self.is_capped() && self.parked.is_some() {
            self.release(Released::Budget, By::Policy, step);
            self.show_status(step);
        }
    }

    /// The status of a session that is parked.
    pub(super) fn parked_status(&self) -> Option<Status> {
        self.parked.as_ref().map(Parked::status)
    }

    /// Whether the status of an earlier wait stays: the next prompt is about to be sent.
    pub(super) fn keeps_status(&self) -> bool {
        self.released && self.next_prompt().is_some()
    }
}
