//! One open turn. It can only be ended by consuming it, so nothing can be added to an ended turn and no
//! turn can end twice.

use super::attempt::{Attempts, Closing};
use super::item::{Head, ItemWriter};
use super::items::Items;
use super::prompts::TakenPrompt;
use super::unattended::{self, EndedBy};
use super::waits::Waits;
use crate::event::{
    Aside, Body, By, Continuation, Cost, Draft, ErrorClass, Field, ItemKind, Origin, Outcome, Role,
    StopReason, TurnError, Usage,
};
use crate::fold;
use crate::id::{AttemptId, ItemId, Key, PromptId, TurnId};
use crate::signal::Ending;
use std::collections::HashSet;

/// A turn between its start and its end.
///
/// ```compile_fail,E0382
/// # use turnstream_model::{event::StopReason, id::TurnId, machine::OpenTurn, signal::Ending};
/// # fn twice(turn: OpenTurn, out: &mut Vec<turnstream_model::event::Draft>) {
/// turn.end_alone(Ending::completed(StopReason::EndTurn), out);
/// turn.end_alone(Ending::completed(StopReason::EndTurn), out); // the turn is gone
/// # }
/// ```
///
/// ```compile_fail,E0382
/// # use turnstream_model::{event::{Field, StopReason}, id::Key, machine::OpenTurn, signal::Ending};
/// # fn after(mut turn: OpenTurn, key: Key, out: &mut Vec<turnstream_model::event::Draft>) {
/// turn.end_alone(Ending::completed(StopReason::EndTurn), out);
/// turn.text(&key, Field::Text, &mut Some(String::from("more")), out); // the turn is gone
/// # }
/// ```
pub struct OpenTurn {
    id: TurnId,
    native_id: Option<String>,
    pub(super) items: Items,
    pub(super) attempts: Attempts,
    pub(super) report: Report,
    /// The agent has shown work of its own in it, not only the prompt.
    worked: bool,
    /// It has taken a prompt.
    prompted: bool,
    /// It has taken a prompt of a client.
    has_client_prompt: bool,
    /// The turn that it continues.
    continues: Option<Continuation>,
}

/// What is known about the end of a turn before it ends.
#[derive(Default)]
pub(super) struct Report {
    pub(super) usage: Option<Usage>,
    pub(super) cost: Option<Cost>,
    pub(super) error: Option<TurnError>,
    pub(super) stop_reason: Option<StopReason>,
    /// It was cancelled, and the log says so.
    pub(super) cancelling: bool,
    /// Its prompts that were cancelled before they had a turn. With one, the turn ends cancelled, however
    /// the agent ended it.
    pub(super) unwanted: Vec<PromptId>,
    /// A person refused a permission or a question: the agent may stop there.
    pub(super) rejected: bool,
    /// It was cancelled because a cap is reached. Unless it completes all the same, it fails with this error.
    pub(super) over_budget: Option<TurnError>,
}

/// A turn whose end is in the log. Later signals about it are late.
pub(crate) struct ClosedTurn {
    pub(crate) id: TurnId,
    pub(crate) native_id: Option<String>,
    pub(crate) items: Items,
    /// The agent's ids of its model calls.
    pub(crate) calls: HashSet<Key>,
}

impl OpenTurn {
    /// Starts a turn.
    pub fn start(
        id: TurnId,
        origin: Origin,
        prompts: Vec<PromptId>,
        native_id: Option<String>,
        out: &mut Vec<Draft>,
    ) -> Self {
        let prompted = !prompts.is_empty();
        let body = Body::TurnStarted { origin, prompts, native_id: native_id.clone() };
        out.push(Draft { turn: Some(id.clone()), ..Draft::new(body) });
        let (items, attempts, report) = (Items::default(), Attempts::default(), Report::default());
        Self {
            id,
            native_id,
            items,
            attempts,
            report,
            worked: false,
            prompted,
            has_client_prompt: false,
            continues: None,
        }
    }

    /// Resumes a turn that the last owner left open.
    pub(super) fn resumed(turn: &fold::Turn, items: Items, worked: bool, unwanted: Vec<PromptId>) -> Self {
        Self {
            id: turn.turn.clone(),
            native_id: turn.native_id.clone(),
            items,
            attempts: Attempts::resumed(&turn.attempts),
            report: Report { cancelling: turn.cancelling.is_some(), unwanted, ..Report::default() },
            worked: worked || !turn.attempts.is_empty(),
            prompted: !turn.prompts.is_empty(),
            has_client_prompt: turn.prompts.len() > usize::from(turn.continues.is_some()),
            continues: turn.continues.clone(),
        }
    }

    /// True while no prompt is in it.
    pub(super) fn is_unprompted(&self) -> bool {
        !self.prompted
    }

    /// Adds a prompt. If the prompt was cancelled, the turn is too.
    pub(super) fn note_prompt(&mut self, prompt: PromptId, taken: TakenPrompt) {
        let TakenPrompt { cancelling, continues } = taken;
        self.has_client_prompt |= continues.is_none();
        self.continues = self.continues.take().or(continues);
        self.prompted = true;
        if cancelling {
            self.report.cancelling = true;
            self.report.unwanted.push(prompt);
        }
    }

    /// What the rules of unattended runs need to know of it, before it ends.
    pub(super) fn facts(&self, by: EndedBy) -> unattended::Ending {
        unattended::Ending {
            by,
            is_prompted: self.prompted,
            is_cancelled: self.report.cancelling || !self.report.unwanted.is_empty(),
            // A client has a say in it, so the row of continuations begins again.
            continues: self.continues.clone().filter(|_| !self.has_client_prompt),
        }
    }

    /// True when it took this prompt after the prompt was cancelled.
    pub(super) fn is_unwanted_for(&self, prompt: &PromptId) -> bool {
        self.report.unwanted.contains(prompt)
    }

    /// Its id.
    pub fn id(&self) -> &TurnId {
        &self.id
    }

    /// The agent's own id of it, where it has one.
    pub fn native_id(&self) -> Option<&str> {
        self.native_id.as_deref()
    }

    pub(super) fn name_natively(&mut self, native_id: Option<String>) {
        if self.native_id.is_none() {
            self.native_id = native_id;
        }
    }

    /// Cancels the turn. There is one event, however often it is requested.
    pub(super) fn cancel(&mut self, by: By, out: &mut Vec<Draft>) {
        if !std::mem::replace(&mut self.report.cancelling, true) {
            out.push(Draft {
                turn: Some(self.id.clone()),
                ..Draft::new(Aside::TurnCancelling { by }.into())
            });
        }
    }

    /// Adds text to one of its items and takes the text. False when the item is not of this turn.
    pub fn text(&mut self, key: &Key, field: Field, text: &mut Option<String>, out: &mut Vec<Draft>) -> bool {
        let mut log = ItemWriter { turn: Some(&self.id), late: false, out };
        self.items.delta(key, field, text, &mut log)
    }

    pub(super) fn start_item(&mut self, id: ItemId, key: Key, head: Head, out: &mut Vec<Draft>) {
        // An agent that continues after an error has recovered from it.
        if head.role != Some(Role::User) {
            self.report.error = None;
            self.report.rejected = false;
            self.worked = true;
        }
        let is_tool = head.kind == ItemKind::Tool;
        let mut log = ItemWriter { turn: Some(&self.id), late: false, out };
        self.items.start(id.clone(), key.clone(), head, &mut log);
        if is_tool {
            self.items.adopt(&key, &id, &mut log);
        }
    }

    /// Its items, and where their events go.
    pub(super) fn items<'a>(&'a mut self, out: &'a mut Vec<Draft>) -> (&'a mut Items, ItemWriter<'a>) {
        (&mut self.items, ItemWriter { turn: Some(&self.id), late: false, out })
    }

    pub(super) fn begin_attempt(
        &mut self,
        id: AttemptId,
        key: Option<Key>,
        model: Option<String>,
        out: &mut Vec<Draft>,
    ) {
        self.report.error = None;
        self.report.rejected = false;
        self.worked = true;
        self.attempts.begin(id, key, model, &self.id, &mut self.items, out);
    }

    pub(super) fn end_attempt(&mut self, key: &Key, closing: Closing, out: &mut Vec<Draft>) {
        self.attempts.end(key, closing, &self.id, out);
    }

    /// The agent repeats its model call. If the agent does not show its calls, open items end instead of
    /// being superseded.
    pub(super) fn retry(&mut self, out: &mut Vec<Draft>) {
        if !self.attempts.discard() {
            let mut log = ItemWriter { turn: Some(&self.id), late: false, out };
            self.items.abandon_unattempted("retried", &mut log);
        }
    }

    /// Work that belongs to this turn alone has been seen: an item of the agent's, or a model call.
    pub(super) fn has_worked(&self) -> bool {
        self.worked
    }

    /// True when everything that started has ended, and no further model call is expected.
    pub(super) fn is_settled(&self) -> bool {
        self.worked
            && self.items.open_count() == 0
            && !self.attempts.is_open()
            && (!self.attempts.expects_more() || self.report.rejected)
    }

    /// How it ended, if the agent only reports idle.
    pub(super) fn ending_by_idle(&mut self) -> Ending {
        let finished = self.attempts.stop_reason();
        let Report { error, stop_reason, cancelling, rejected, .. } = &mut self.report;
        let error = error.take();
        if *cancelling || error.as_ref().is_some_and(|error| error.class == ErrorClass::Cancelled) {
            return Ending::cancelled();
        }
        match error {
            Some(error) => Ending::failed(error),
            None if *rejected => Ending::completed(StopReason::Rejected),
            None => Ending::completed(stop_reason.or(finished).unwrap_or(StopReason::EndTurn)),
        }
    }

    /// Ends a turn without open approvals or questions, outside a machine.
    pub fn end_alone(self, ending: Ending, out: &mut Vec<Draft>) {
        self.end(ending, &mut Waits::default(), out);
    }

    /// Ends everything that is open in it, then the turn.
    pub(super) fn end(mut self, ending: Ending, waits: &mut Waits, out: &mut Vec<Draft>) -> ClosedTurn {
        let ending = match self.report.over_budget.take() {
            Some(error) if matches!(ending.outcome, Outcome::Cancelled | Outcome::Failed) => {
                Ending { outcome: Outcome::Failed, stop_reason: None, error: Some(error), ..ending }
            }
            Some(_) | None => ending,
        };
        let ending = if self.report.unwanted.is_empty() { ending } else { ending.into_cancelled() };
        let Ending { outcome, stop_reason, usage, cost, mut error } = ending;
        if outcome == Outcome::Failed && error.is_none() {
            error = Some(TurnError::new(ErrorClass::AgentError, "the agent failed without saying why"));
        }
        let (lost, finish) = match outcome {
            Outcome::Lost => (true, None),
            Outcome::Failed => (false, Some("error")),
            Outcome::Cancelled => (false, Some("cancelled")),
            Outcome::Completed => (false, None),
        };
        let caused_by = error.as_ref().map(|error| error.class.as_str());
        let mut log = ItemWriter { turn: Some(&self.id), late: false, out: &mut *out };
        self.items.end_all(lost, caused_by, &mut log);
        self.attempts.close_open(finish, &self.id, out);
        waits.close_all(Some(&self.id), lost, out);
        let spent = self.attempts.usage_sums();
        // JSON has no infinity and no NaN.
        let cost = cost.or(self.report.cost).filter(|cost| cost.amount.is_finite());
        let body = Body::TurnEnded {
            outcome,
            stop_reason: (outcome == Outcome::Completed).then(|| stop_reason.unwrap_or(StopReason::EndTurn)),
            usage: spent.usage(usage.or(self.report.usage)).map(Box::new),
            cost: spent.cost(cost),
            summed: true,
            error: error.filter(|_| outcome != Outcome::Completed).map(Box::new),
        };
        out.push(Draft { turn: Some(self.id.clone()), ..Draft::new(body) });
        ClosedTurn {
            id: self.id,
            native_id: self.native_id,
            items: self.items,
            calls: self.attempts.into_seen(),
        }
    }
}
