//! What each signal means, depending on what is open.

use super::attempt::Closing;
use super::item::End;
use super::pending_end::{Due, PendingEnd, Strength};
use super::unattended::EndedBy;
use super::waits::WaitPlace;
use super::{Machine, OpenTurn, Step};
use crate::event::{
    ApprovalOutcome, Body, Draft, ErrorClass, NoticeCode, Origin, QuestionOutcome, SessionPatch, Status,
    StopReason, Tool, TurnError,
};
use crate::id::{ApprovalId, AttemptId, IdKind, Key, PromptId, QuestionId, TurnId};
use crate::signal::{Ending, Need, ProbedStatus, Signal};
use serde_json::Value;

impl Machine {
    /// Handles one signal.
    pub fn observe(&mut self, signal: Signal, step: &mut Step<'_>) {
        if self.ended {
            return;
        }
        // By far the most frequent signal, so it is handled first.
        if let Signal::TextDelta { key, field, text } = signal {
            self.text_delta(&key, field, text, step);
            return;
        }
        self.observe_open(signal, step);
        self.settle(step);
    }

    /// Handles one signal, without checking whether it completes a turn.
    pub(super) fn observe_open(&mut self, signal: Signal, step: &mut Step<'_>) {
        match signal {
            Signal::TurnBegan { origin, prompts, native_id } => {
                self.turn_began(origin, &prompts, native_id, step)
            }
            Signal::PromptTaken(native_id) => self.prompt_taken(&native_id, step),
            Signal::PromptRefused { native_id, error } => self.prompt_refused(&native_id, error, step),
            Signal::AttemptBegan { key, model } => self.attempt_began(key, model, step),
            Signal::AttemptEnded { key, finish, usage, cost } => {
                if let Some(turn) = &mut self.turn {
                    turn.end_attempt(&key, Closing { finish, usage, cost }, step.drafts);
                }
            }
            Signal::Retrying { attempt, reason, until, message } => {
                if let Some(turn) = &mut self.turn {
                    turn.retry(step.drafts);
                    self.retrying = Some(Status::Retrying { attempt, reason, until, message });
                    self.work_seen(step);
                }
            }
            Signal::ItemSeen(seen) => self.item_seen(seen, step),
            Signal::TextDelta { key, field, text } => self.text_delta(&key, field, text, step),
            Signal::TextSnapshot { key, field, text, finality } => {
                self.text_snapshot(&key, field, text, finality, step);
            }
            Signal::ToolSeen { key, parent, tool } => self.tool_seen(&key, parent, tool, step),
            Signal::ItemEnded { key, state, reason } => {
                self.item_ended(&key, End::stated(state, reason), step)
            }
            Signal::ItemRemoved(key) => self.item_removed(&key, step),
            Signal::Ask { key, item, tool, options } => {
                if !self.waits.knows_ask(&key) {
                    let place = self.wait_place(item, step);
                    let id = ApprovalId::from(step.ids.fresh(IdKind::Approval));
                    let tool = tool.map(Tool::without_nulls);
                    self.waits.ask(id, key, place, tool, options, step.drafts);
                    self.work_seen(step);
                }
            }
            Signal::AskClosed { key, outcome } => {
                let turn = self.waits.resolve_by_key(&key, outcome, step.drafts);
                self.note_rejection(turn.as_ref(), outcome == ApprovalOutcome::Reject);
            }
            Signal::Question { key, item, questions } => {
                if !self.waits.knows_question(&key) {
                    let place = self.wait_place(item, step);
                    let id = QuestionId::from(step.ids.fresh(IdKind::Question));
                    self.waits.question(id, key, place, questions, step.drafts);
                    self.work_seen(step);
                }
            }
            Signal::QuestionClosed { key, outcome, answers } => {
                let turn = self.waits.answer_by_key(&key, outcome, answers, step.drafts);
                self.note_rejection(turn.as_ref(), outcome == QuestionOutcome::Rejected);
            }
            Signal::Usage { usage, cost, context } => {
                if let Some(turn) = &mut self.turn {
                    turn.report.usage = usage.or(turn.report.usage.take());
                    turn.report.cost = cost.or(turn.report.cost.take());
                }
                self.session_changed(SessionPatch { context, ..SessionPatch::default() }, step);
            }
            Signal::Session(patch) => self.session_changed(patch, step),
            Signal::Failed(error) => self.failed(error, step),
            Signal::TurnIdle { stop_reason } => self.turn_idle(stop_reason, step),
            Signal::TurnDone { native_id, ending } => self.turn_done(native_id.as_deref(), ending, step),
            Signal::StatusProbed { turn, status } => self.status_probed(&turn, status, step),
            Signal::Gap(message) => self.gap(message, step),
            Signal::LinkLost(error) => {
                self.end_turn(Ending::lost(error), EndedBy::Keeper, step);
                self.close_background(step);
            }
            Signal::Notice { code, message, detail } => self.notice(code, message, detail, step),
        }
    }

    /// Ends a turn whose idle waited for its last item, and updates the status.
    fn settle(&mut self, step: &mut Step<'_>) {
        let likely = self.pending_end.as_ref().is_some_and(PendingEnd::is_likely);
        if likely && self.is_settled() {
            self.end_by_idle(EndedBy::Agent, step);
        }
        self.show_status(step);
    }

    /// True when only an idle is missing to end the turn. An agent that waits for a person is not idle,
    /// unless it was cancelled: opencode leaves the asks of an aborted turn open (capture d5).
    fn is_settled(&self) -> bool {
        let waits = |turn: &OpenTurn| !turn.report.cancelling && self.waits.open_in(turn.id());
        self.turn.as_ref().is_some_and(|turn| turn.is_settled() && !waits(turn))
    }

    /// The agent works: it is not idle and not waiting to retry.
    pub(super) fn work_seen(&mut self, step: &Step<'_>) {
        if let Some(pending) = &mut self.pending_end {
            pending.work_seen(step.now);
        }
    }

    // === turns and prompts ===

    fn turn_began(
        &mut self,
        origin: Option<Origin>,
        prompts: &[String],
        native_id: Option<String>,
        step: &mut Step<'_>,
    ) {
        if native_id.is_some() && self.closed.iter().any(|turn| turn.native_id == native_id) {
            return;
        }
        let another = self.is_another_turn(native_id.as_deref());
        if let Some(turn) = &mut self.turn {
            if !another {
                turn.name_natively(native_id);
                // The turn began without a prompt, and its prompt shows up now: both are one turn.
                if turn.is_unprompted() && prompts.is_empty() {
                    for prompt in self.prompts.sent() {
                        let taken = self.prompts.take_into_turn(&prompt, turn.id(), step.drafts);
                        turn.note_prompt(prompt, taken);
                    }
                }
                for prompt in prompts {
                    self.prompt_taken(prompt, step);
                }
                self.work_seen(step);
                return;
            }
            // Agents run one turn at a time, so the open turn is over and its end was missed.
            let missed = "another turn began before this one's end was seen";
            let lost = Ending::lost(TurnError::new(ErrorClass::TransportLost, missed));
            self.end_turn(lost, EndedBy::Keeper, step);
        }
        let ours: Vec<_> = prompts.iter().filter_map(|native| self.prompts.sent_as(native)).collect();
        let (inferred, taken) = match (ours.is_empty(), prompts.is_empty()) {
            (false, _) => (Origin::Prompt, ours),
            (true, false) => (Origin::Foreign, Vec::new()),
            (true, true) if self.prompts.any_sent() => (Origin::Prompt, self.prompts.sent()),
            (true, true) => (Origin::Agent, Vec::new()),
        };
        // A "busy" without a sent prompt and without an id may be late or repeated. The first item or model
        // call shows whether there is a turn.
        if inferred == Origin::Agent && origin.is_none() && native_id.is_none() {
            return;
        }
        let stated = origin.filter(|origin| *origin != Origin::Prompt).unwrap_or(inferred);
        let origin = if taken.is_empty() { stated } else { Origin::Prompt };
        self.start_turn(origin, taken, native_id, step);
    }

    fn prompt_taken(&mut self, native_id: &str, step: &mut Step<'_>) {
        let Some(prompt) = self.prompts.sent_as(native_id) else { return };
        match &mut self.turn {
            Some(turn) => {
                let taken = self.prompts.take_into_turn(&prompt, turn.id(), step.drafts);
                turn.note_prompt(prompt, taken);
            }
            None => self.start_turn(Origin::Prompt, vec![prompt], None, step),
        }
    }

    fn prompt_refused(&mut self, native_id: &str, error: TurnError, step: &mut Step<'_>) {
        if let Some(prompt) = self.prompts.sent_as(native_id) {
            self.refuse_prompt(prompt, error, step);
        }
    }

    /// The prompt gets its turn now, or when no other is open.
    pub(super) fn refuse_prompt(&mut self, prompt: PromptId, error: TurnError, step: &mut Step<'_>) {
        if self.turn.is_none() {
            self.fail_unstarted(prompt, error, step);
        } else if self.refused.iter().all(|(refused, _)| *refused != prompt) {
            self.refused.push((prompt, error));
        }
    }

    fn failed(&mut self, error: TurnError, step: &mut Step<'_>) {
        match &mut self.turn {
            // The first error is the cause; later ones are its consequences.
            Some(turn) if turn.report.error.is_none() => turn.report.error = Some(error),
            Some(_) => {}
            None if self.prompts.any_sent() => {
                self.stray_error.get_or_insert(error);
            }
            None => {
                let message = format!("an error came when no turn was open: {}", error.message);
                self.notice(NoticeCode::Late, message, None, step);
            }
        }
    }

    fn turn_idle(&mut self, stop_reason: Option<StopReason>, step: &mut Step<'_>) {
        let settled = self.is_settled();
        let Some(turn) = &mut self.turn else { return };
        let confirmed = self.pending_end.as_ref().is_some_and(PendingEnd::is_likely);
        if settled || (confirmed && turn.has_worked()) {
            turn.report.stop_reason = stop_reason.or(turn.report.stop_reason);
            self.end_by_idle(EndedBy::Agent, step);
        } else {
            let strength = if turn.has_worked() { Strength::Likely } else { Strength::Doubtful };
            if strength == Strength::Likely {
                turn.report.stop_reason = stop_reason.or(turn.report.stop_reason);
            }
            self.pending_end = Some(PendingEnd::new(strength, step.now));
        }
    }

    fn turn_done(&mut self, native_id: Option<&str>, ending: Ending, step: &mut Step<'_>) {
        let Some(turn) = &self.turn else {
            if let Some(error) = ending.error {
                self.failed(error, step);
            }
            return;
        };
        // An end that names another turn is a late report about that turn.
        let is_late =
            native_id.is_some() && self.closed.iter().any(|old| old.native_id.as_deref() == native_id);
        if is_late {
            return;
        }
        if native_id.is_none() || turn.native_id().is_none() || turn.native_id() == native_id {
            self.end_turn(ending, EndedBy::Agent, step);
        }
    }

    fn status_probed(&mut self, turn: &TurnId, status: ProbedStatus, step: &mut Step<'_>) {
        if self.open_turn() != Some(turn) {
            return;
        }
        let Some(pending) = &mut self.pending_end else { return };
        let due = match status {
            ProbedStatus::Idle => pending.idle_answered(step.now),
            ProbedStatus::Busy => {
                pending.busy_answered(step.now);
                Due::Nothing
            }
        };
        match due {
            Due::Nothing => {}
            Due::Ask => step.needs.push(Need::StatusProbe(turn.clone())),
            Due::End => self.end_by_idle(EndedBy::Agent, step),
        }
    }

    fn gap(&mut self, message: String, step: &mut Step<'_>) {
        self.notice(NoticeCode::Gap, message, None, step);
        self.background.taint();
        if let Some(turn) = &mut self.turn {
            turn.items.taint();
            self.pending_end = Some(PendingEnd::asking(step.now));
            step.needs.push(Need::StatusProbe(turn.id().clone()));
        }
    }

    // === attempts ===

    fn attempt_began(&mut self, key: Key, model: Option<String>, step: &mut Step<'_>) {
        let is_known = self.turn.as_ref().is_some_and(|turn| !turn.attempts.is_new(&key))
            || self.closed.iter().any(|turn| turn.calls.contains(&key));
        if is_known {
            return;
        }
        self.ensure_turn(step);
        self.begin_attempt(Some(key), model, step);
        self.retrying = None;
        self.work_seen(step);
    }

    pub(super) fn begin_attempt(&mut self, key: Option<Key>, model: Option<String>, step: &mut Step<'_>) {
        if let Some(turn) = &mut self.turn {
            let id = AttemptId::from(step.ids.fresh(IdKind::Attempt));
            turn.begin_attempt(id, key, model, step.drafts);
        }
    }

    // === other signals ===

    fn wait_place(&mut self, item: Option<Key>, step: &mut Step<'_>) -> WaitPlace {
        let id = item.as_ref().and_then(|key| self.item_id(key));
        if item.as_ref().is_some_and(|key| self.is_outside(key)) {
            return WaitPlace { turn: None, item: id };
        }
        self.ensure_turn(step);
        WaitPlace { turn: self.open_turn().cloned(), item: id }
    }

    pub(super) fn note_rejection(&mut self, turn: Option<&TurnId>, rejected: bool) {
        if let Some(open) = &mut self.turn
            && rejected
            && turn == Some(open.id())
        {
            open.report.rejected = true;
        }
    }

    pub(super) fn session_changed(&mut self, patch: SessionPatch, step: &mut Step<'_>) {
        let changes = self.session.changes(patch);
        if !changes.is_empty() {
            self.session.merge(&changes);
            step.drafts.push(Draft::new(Body::SessionUpdated(Box::new(changes))));
        }
    }

    pub(super) fn notice(
        &mut self,
        code: NoticeCode,
        message: String,
        detail: Option<Value>,
        step: &mut Step<'_>,
    ) {
        let body = Body::Notice { code, message, detail };
        step.drafts.push(Draft { turn: self.open_turn().cloned(), ..Draft::new(body) });
    }
}
