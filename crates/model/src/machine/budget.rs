//! Budgets: what the events of a step use, and what follows when a cap is reached.
//!
//! A turn is cancelled when it goes on although a cap is reached: its next model call begins, its last one
//! asks for tools, or its time is up. A turn whose last call reaches a cap completes.

use super::{Machine, Refusal, Step};
use crate::event::{
    Aside, Body, Budget, By, Cap, Caps, Draft, ErrorClass, NoticeCode, Scope, TurnError, Used,
};
use crate::fold::Meter;
use crate::id::PromptId;
use crate::time::Time;
use serde_json::json;

/// A cap that a turn or a session has reached.
struct Reached {
    scope: Scope,
    cap: Cap,
    used: Used,
    caps: Caps,
}

impl Machine {
    /// Sets the caps of the session. Caps that it has already are not set again.
    pub fn set_budget(&mut self, budget: Budget, by: By, step: &mut Step<'_>) -> Result<(), Refusal> {
        self.refuse_if_ended()?;
        let old = self.meter.as_ref().map(|meter| &meter.budget);
        if old != Some(&budget) && (old.is_some() || !budget.is_empty()) {
            let body = Aside::BudgetSet { prompt: None, budget: Box::new(budget), by };
            step.drafts.push(Draft::new(body.into()));
        }
        Ok(())
    }

    /// Gives the turn of a prompt caps of its own.
    pub fn cap_prompt(&mut self, prompt: &PromptId, caps: Caps, by: By, step: &mut Step<'_>) {
        let budget = Box::new(Budget { turn: caps, session: Caps::default() });
        let body = Aside::BudgetSet { prompt: Some(prompt.clone()), budget, by };
        step.drafts.push(Draft::new(body.into()));
    }

    /// The caps of the session.
    pub fn budget(&self) -> Budget {
        self.meter.as_ref().map(|meter| meter.budget.clone()).unwrap_or_default()
    }

    /// Counts the events of a step, which begin at this index of its drafts, and adds those that follow from
    /// them. Must be called once at the end of every step. True when the open turn was cancelled because a
    /// cap is reached: the agent has to be told.
    pub fn account(&mut self, from: usize, step: &mut Step<'_>) -> bool {
        let (mut goes_on, mut ended) = (false, None);
        for draft in &step.drafts[from..] {
            let body = &draft.body;
            if let (Body::AttemptStarted { .. }, Some(meter)) = (body, &self.meter) {
                // Before it is counted: so many calls are allowed as the cap says.
                goes_on |= is_used_up(meter, step.now, &self.told());
            } else if let (Body::TurnEnded { .. }, Some(meter)) = (body, &self.meter) {
                ended = meter.used_by_turn(step.now, &told_at_end(body)).or(ended);
            }
            Meter::follow(&mut self.meter, body, step.now);
            if let Body::AttemptEnded { .. } = body {
                goes_on |= self.turn.as_ref().is_some_and(|turn| turn.attempts.expects_more());
            } else if let Body::TurnStarted { .. } = body {
                // The agent began by itself, in a session that is at its cap.
                goes_on |= self.is_capped();
            }
        }
        goes_on |= self.budget_deadline().is_some_and(|deadline| deadline <= step.now);
        self.note_session_cap(step);
        self.release_if_capped(step);
        let cancelled = goes_on && self.cancel_at_cap(step);
        if let (Some(last), Some(meter)) = (ended, &self.meter) {
            let (used, caps) = (meter.used.clone(), meter.budget.session.clone());
            step.drafts.push(Draft::new(Aside::BudgetUsed { last, used, caps }.into()));
        }
        cancelled
    }

    /// Says that the session has reached a cap, once until its caps are set again.
    fn note_session_cap(&mut self, step: &mut Step<'_>) {
        let Some(meter) = self.meter.as_ref().filter(|meter| meter.reached.is_none()) else { return };
        let (caps, used) = (meter.budget.session.clone(), meter.used_by_session(step.now, &self.told()));
        if let Some(cap) = caps.reached_by(&used) {
            self.note_reached(&Reached { scope: Scope::Session, cap, used, caps }, step);
        }
    }

    /// Cancels the open turn if it or its session has reached a cap. Does nothing if it was cancelled before.
    fn cancel_at_cap(&mut self, step: &mut Step<'_>) -> bool {
        let told = self.told();
        let (Some(turn), Some(meter)) = (&self.turn, &self.meter) else { return false };
        if turn.report.cancelling {
            return false;
        }
        let used = meter.used_by_turn(step.now, &told).unwrap_or_default();
        let of_turn = meter.turn_caps().reached_by(&used);
        let reached = match (of_turn, meter.reached) {
            (Some(cap), _) => Reached { scope: Scope::Turn, cap, used, caps: meter.turn_caps().clone() },
            (None, Some(cap)) => {
                let (used, caps) = (meter.used_by_session(step.now, &told), meter.budget.session.clone());
                Reached { scope: Scope::Session, cap, used, caps }
            }
            (None, None) => return false,
        };
        if reached.scope == Scope::Turn {
            self.note_reached(&reached, step);
        }
        let error = error_at(reached.scope, reached.cap, &reached.caps);
        if let Some(turn) = &mut self.turn {
            turn.report.over_budget = Some(error);
            turn.cancel(By::Policy, step.drafts);
        }
        true
    }

    fn note_reached(&mut self, reached: &Reached, step: &mut Step<'_>) {
        let Reached { scope, cap, used, caps } = reached;
        let body: Body =
            Aside::BudgetReached { scope: *scope, cap: *cap, used: used.clone(), caps: caps.clone() }.into();
        Meter::follow(&mut self.meter, &body, step.now);
        step.drafts.push(Draft { turn: self.open_turn().cloned(), ..Draft::new(body) });
        let detail = json!({"scope": scope, "cap": cap});
        self.notice(NoticeCode::Budget, reached.to_string(), Some(detail), step);
    }

    /// What the agent has told of the open turn as a whole. It may be more than its model calls took, because
    /// subagents are in it.
    fn told(&self) -> Used {
        let report = self.turn.as_ref().map(|turn| &turn.report);
        let usage = report.and_then(|report| report.usage.as_ref());
        Used::told(usage, report.and_then(|report| report.cost.as_ref()))
    }

    /// When the time of the open turn is up.
    pub(super) fn budget_deadline(&self) -> Option<Time> {
        self.turn.as_ref().filter(|turn| !turn.report.cancelling)?;
        self.meter.as_ref()?.time_is_up()
    }

    /// True when the session takes no prompt, because it has reached a cap.
    pub fn is_capped(&self) -> bool {
        self.meter.as_ref().is_some_and(|meter| meter.reached.is_some())
    }

    pub(super) fn refuse_if_capped(&self) -> Result<(), Refusal> {
        let Some(meter) = &self.meter else { return Ok(()) };
        let Some(cap) = meter.reached else { return Ok(()) };
        let open = meter.open.as_ref().map(|open| open.calls.clone()).unwrap_or_default();
        let used = meter.used.and(&open).shown(cap);
        Err(Refusal::Capped { cap, used, limit: meter.budget.session.shown(cap) })
    }

    /// A turn that the last owner cancelled at a cap fails for that. `cancelling` says who cancelled it.
    pub(super) fn resume_budget(&mut self, cancelling: Option<By>) {
        if cancelling != Some(By::Policy) {
            return;
        }
        let (Some(turn), Some(meter)) = (&mut self.turn, &self.meter) else { return };
        let Some(open) = &meter.open else { return };
        let error = match (open.reached, meter.reached) {
            (Some(cap), _) => error_at(Scope::Turn, cap, meter.turn_caps()),
            (None, Some(cap)) => error_at(Scope::Session, cap, &meter.budget.session),
            (None, None) => return,
        };
        turn.report.over_budget = Some(error);
    }
}

/// Whether the open turn or its session has reached a cap.
fn is_used_up(meter: &Meter, now: Time, told: &Used) -> bool {
    let turn = meter.used_by_turn(now, told).unwrap_or_default();
    meter.reached.is_some()
        || meter.turn_caps().reached_by(&turn).is_some()
        || meter.budget.session.reached_by(&meter.used_by_session(now, told)).is_some()
}

fn told_at_end(body: &Body) -> Used {
    if let Body::TurnEnded { usage, cost, .. } = body {
        Used::told(usage.as_deref(), cost.as_ref())
    } else {
        Used::default()
    }
}

/// The error of a turn that was stopped.
fn error_at(scope: Scope, cap: Cap, caps: &Caps) -> TurnError {
    let message = format!("the turn was stopped: the {scope} has reached its cap of {}", caps.shown(cap));
    TurnError::new(ErrorClass::Budget, message)
}

impl std::fmt::Display for Reached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { scope, cap, used, caps } = self;
        write!(f, "the {scope} has reached its cap of {}: it has used {}", caps.shown(*cap), used.shown(*cap))
    }
}
