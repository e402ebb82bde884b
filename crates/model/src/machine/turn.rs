//! One open turn. It can only be ended by consuming it, so nothing can be added to an ended turn and no turn can
//! end twice.

use super::attempt::Attempts;
use super::item::{End, Head, Scribe};
use super::items::Items;
use super::waits::Waits;
use crate::event::{
    Body, Cost, Draft, ErrorClass, Field, ItemKind, Origin, Outcome, Role, StopReason, Tool, TurnError, Usage,
};
use crate::id::{AttemptId, ItemId, Key, PromptId, TurnId};
use crate::signal::{Ending, Finality};

/// A turn between its start and its end.
///
/// ```compile_fail
/// # use turnstream_model::{event::StopReason, id::TurnId, machine::OpenTurn, signal::Ending};
/// # fn twice(turn: OpenTurn, out: &mut Vec<turnstream_model::event::Draft>) {
/// turn.end_alone(Ending::completed(StopReason::EndTurn), out);
/// turn.end_alone(Ending::completed(StopReason::EndTurn), out); // the turn is gone
/// # }
/// ```
///
/// ```compile_fail
/// # use turnstream_model::{event::{Field, StopReason}, id::Key, machine::OpenTurn, signal::Ending};
/// # fn after(mut turn: OpenTurn, key: Key, out: &mut Vec<turnstream_model::event::Draft>) {
/// turn.end_alone(Ending::completed(StopReason::EndTurn), out);
/// turn.text(&key, Field::Text, &mut String::from("more"), out); // the turn is gone
/// # }
/// ```
pub struct OpenTurn {
    id: TurnId,
    native_id: Option<String>,
    pub(super) items: Items,
    pub(super) attempts: Attempts,
    pub(super) report: Report,
}

/// What was said of a turn on the way to its end.
#[derive(Default)]
pub(super) struct Report {
    pub(super) usage: Option<Usage>,
    pub(super) cost: Option<Cost>,
    pub(super) error: Option<TurnError>,
    pub(super) stop_reason: Option<StopReason>,
    /// A client asked for the end.
    pub(super) cancelling: bool,
    /// A person refused a permission or a question: the agent may stop there.
    pub(super) rejected: bool,
}

/// A turn whose end is in the log. What still comes for it is late.
pub(crate) struct ClosedTurn {
    pub(crate) id: TurnId,
    pub(crate) native_id: Option<String>,
    pub(crate) items: Items,
}

impl OpenTurn {
    /// Starts a turn: the only way to have one.
    pub fn start(
        id: TurnId,
        origin: Origin,
        prompts: Vec<PromptId>,
        native_id: Option<String>,
        out: &mut Vec<Draft>,
    ) -> Self {
        let body = Body::TurnStarted { origin, prompts, native_id: native_id.clone() };
        out.push(Draft { turn: Some(id.clone()), ..Draft::new(body) });
        Self::resumed(id, native_id, Items::default(), Attempts::default())
    }

    /// Takes up a turn that was open when the last owner went away.
    pub(super) fn resumed(id: TurnId, native_id: Option<String>, items: Items, attempts: Attempts) -> Self {
        Self { id, native_id, items, attempts, report: Report::default() }
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

    /// Adds text to one of its items; false when the item is not of this turn.
    pub fn text(&mut self, key: &Key, field: Field, text: &mut String, out: &mut Vec<Draft>) -> bool {
        let mut log = Scribe { turn: Some(&self.id), late: false, out };
        self.items.delta(key, field, text, &mut log)
    }

    pub(super) fn start_item(&mut self, id: ItemId, key: Key, head: Head, out: &mut Vec<Draft>) {
        // An agent that goes on after an error has got over it.
        if head.role != Some(Role::User) {
            self.report.error = None;
            self.report.rejected = false;
        }
        let is_tool = head.kind == ItemKind::Tool;
        let mut log = Scribe { turn: Some(&self.id), late: false, out };
        self.items.start(id.clone(), key.clone(), head, &mut log);
        if is_tool {
            self.items.adopt(&key, &id, &mut log);
        }
    }

    pub(super) fn link(&mut self, key: &Key, parent: &ItemId, out: &mut Vec<Draft>) {
        self.items.link(key, parent, &mut Scribe { turn: Some(&self.id), late: false, out });
    }

    pub(super) fn snapshot(
        &mut self,
        key: &Key,
        field: Field,
        text: String,
        finality: Finality,
        out: &mut Vec<Draft>,
    ) {
        self.items.snapshot(
            key,
            field,
            text,
            finality,
            &mut Scribe { turn: Some(&self.id), late: false, out },
        );
    }

    pub(super) fn tool(&mut self, key: &Key, tool: Tool, out: &mut Vec<Draft>) {
        self.items.tool(key, tool, &mut Scribe { turn: Some(&self.id), late: false, out });
    }

    pub(super) fn end_item(&mut self, key: &Key, end: End, out: &mut Vec<Draft>) {
        self.items.end(key, end, &mut Scribe { turn: Some(&self.id), late: false, out });
    }

    pub(super) fn remove_item(&mut self, key: &Key, out: &mut Vec<Draft>) {
        self.items.remove(key, &mut Scribe { turn: Some(&self.id), late: false, out });
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
        self.attempts.begin(id, key, model, &self.id, &mut self.items, out);
    }

    pub(super) fn end_attempt(
        &mut self,
        key: &Key,
        finish: Option<String>,
        usage: Option<Usage>,
        out: &mut Vec<Draft>,
    ) {
        self.attempts.end(key, finish, usage, &self.id, out);
    }

    /// The agent repeats its model call. Without visible calls there is nothing to supersede: what is open ends.
    pub(super) fn retry(&mut self, out: &mut Vec<Draft>) {
        if self.attempts.is_open() {
            self.attempts.discard();
        } else {
            let mut log = Scribe { turn: Some(&self.id), late: false, out };
            self.items.abandon_unattempted("retried", &mut log);
        }
    }

    /// Something that belongs to this turn alone has been seen: an item or a model call.
    pub(super) fn has_content(&self) -> bool {
        !self.items.is_empty() || self.attempts.any()
    }

    /// Everything that was started has ended, and nothing announces more.
    pub(super) fn is_settled(&self) -> bool {
        self.has_content()
            && self.items.open_count() == 0
            && !self.attempts.is_open()
            && (!self.attempts.expects_more() || self.report.rejected)
    }

    /// How it ended, when all the agent says is that it is idle.
    pub(super) fn ending_by_idle(&mut self) -> Ending {
        let Report { error, stop_reason, cancelling, rejected, .. } = &mut self.report;
        let error = error.take();
        if *cancelling || error.as_ref().is_some_and(|error| error.class == ErrorClass::Cancelled) {
            return Ending::cancelled();
        }
        match error {
            Some(error) => Ending::failed(error),
            None if *rejected => Ending::completed(StopReason::Rejected),
            None => Ending::completed(stop_reason.unwrap_or(StopReason::EndTurn)),
        }
    }

    /// Ends a turn that nobody waits in; for use of a turn outside a machine.
    pub fn end_alone(self, ending: Ending, out: &mut Vec<Draft>) {
        self.end(ending, &mut Waits::default(), out);
    }

    /// Closes all that is open in it, then itself.
    pub(super) fn end(mut self, ending: Ending, waits: &mut Waits, out: &mut Vec<Draft>) -> ClosedTurn {
        let Ending { outcome, stop_reason, usage, cost, error } = ending;
        let (lost, finish) = match outcome {
            Outcome::Lost => (true, None),
            Outcome::Failed => (false, Some("error")),
            Outcome::Cancelled => (false, Some("cancelled")),
            Outcome::Completed => (false, None),
        };
        let caused_by = error.as_ref().map(|error| error.class.as_str());
        let mut log = Scribe { turn: Some(&self.id), late: false, out: &mut *out };
        self.items.end_all(lost, caused_by, &mut log);
        self.attempts.close_open(finish, &self.id, out);
        waits.close_all(Some(&self.id), lost, out);
        let usage = usage.or(self.report.usage).or_else(|| self.attempts.usage().cloned());
        let body = Body::TurnEnded {
            outcome,
            stop_reason: stop_reason.filter(|_| outcome == Outcome::Completed),
            usage: usage.map(Box::new),
            cost: cost.or(self.report.cost),
            error: error.map(Box::new),
        };
        out.push(Draft { turn: Some(self.id.clone()), ..Draft::new(body) });
        ClosedTurn { id: self.id, native_id: self.native_id, items: self.items }
    }
}
