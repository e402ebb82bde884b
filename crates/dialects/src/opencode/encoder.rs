//! Turns the events of a log into those of opencode.
//!
//! The encoder keeps the state of what is open, as the fold has it, and nothing else. What it writes depends
//! on that state and on the next event. So one that continues after a snapshot writes the same.

use super::asks;
use super::ended::Ended;
use super::ids::Names;
use super::infos;
use super::parts;
use super::place::{Place, subagents, turn_of};
use super::write::Events;
use crate::dialect::{Dialect, FrameSink, Repeats};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Aside, Body, Event, EventError, Field, Line, QuestionOutcome, Released};
use turnstream_model::fold::{Activity, Fold, PromptStage, State, Turn};
use turnstream_model::id::{ItemId, TurnId};

/// The log of one session as events of opencode. Its subagents are sessions of their own.
#[derive(Clone, Debug, Default)]
pub struct Opencode {
    pub(super) fold: Fold,
    pub(super) names: Names,
    pub(super) ended: Ended,
    /// The calls whose subagents clients know.
    pub(super) children: HashSet<ItemId>,
    /// The beginnings of deltas, by item, so that ids are computed once.
    pub(super) heads: HashMap<ItemId, String>,
    buffer: Vec<u8>,
}

impl Dialect for Opencode {
    const NAME: &'static str = "opencode";
    const REPEATS: Repeats = Repeats::Conversation;
    // `id` is taken by the event itself.
    const ID_MEMBER: &'static str = "cursor";

    fn resume(state: &State) -> Self {
        Self {
            names: Names::of(&state.session),
            ended: Ended::of(state),
            children: subagents(state).into_iter().cloned().collect(),
            fold: Fold::from(open_part(state.clone())),
            ..Self::default()
        }
    }

    fn replay(state: &State, out: &mut impl FrameSink) -> Self {
        super::repeat::conversation(state, out);
        Self::resume(state)
    }

    fn encode(&mut self, line: &Line<'_>, out: &mut impl FrameSink) -> Result<(), EventError> {
        let event = line.event()?;
        if event.seq > self.fold.state().seq {
            let mut buffer = std::mem::take(&mut self.buffer);
            self.apply(event, &mut Events::new(out, &mut buffer, event.seq, event.time));
            self.buffer = buffer;
        }
        Ok(())
    }
}

impl Opencode {
    /// Every type has an arm, so that a new one is not forgotten here.
    fn apply<S: FrameSink>(&mut self, event: &Event, out: &mut Events<'_, S>) {
        let draft = &event.draft;
        let item = draft.item.as_ref();
        match &draft.body {
            Body::ItemDelta { field, text } => self.delta(event, item, *field, text, out),
            Body::SessionCreated { .. } => {
                self.fold.apply(event);
                self.names = Names::of(&self.state().session);
                out.session("session.created", &self.session_info(out));
            }
            Body::SessionUpdated(patch) => {
                let before = self.waiting();
                self.fold.apply(event);
                if patch.title.is_some() || patch.model.is_some() || patch.mode.is_some() {
                    out.session("session.updated", &self.session_info(out));
                }
                // Prompts that wait run with what is chosen now.
                self.users_changed(before, self.waiting(), out);
            }
            Body::SessionStatus(_) => self.status(event, out),
            Body::PromptAccepted { .. } => {
                self.fold.apply(event);
                self.prompt(out);
            }
            Body::PromptSent { .. } | Body::TurnStarted { .. } => self.busy(event, out),
            Body::PromptWithdrawn { prompt } => {
                let queued = self.state().queue.iter().find(|queued| queued.prompt == *prompt);
                let message = queued.map(|queued| self.names.prompt(queued));
                let was_busy = is_busy(self.state());
                self.fold.apply(event);
                if let Some(message) = message {
                    out.message_removed(&self.names.session(), &message);
                }
                if was_busy && !is_busy(self.state()) {
                    out.idle(&self.names.session());
                }
            }
            Body::PromptTaken { .. } => self.prompt_taken(event, out),
            Body::AttemptStarted { .. } => self.attempt_started(event, out),
            Body::AttemptEnded { .. } => self.attempt_ended(event, out),
            Body::AttemptSuperseded { .. } | Body::ItemRemoved => self.removed(event, out),
            Body::ItemStarted { .. } => self.item_started(event, item, out),
            Body::ItemReplaced { field, .. } => {
                self.fold.apply(event);
                if *field != Field::Input {
                    self.show(item, out);
                }
            }
            Body::ItemUpdated { tool } => self.item_updated(event, item, tool.as_deref(), out),
            Body::ItemEnded { .. } => self.item_ended(event, item, out),
            Body::ItemRevised { .. } => {
                self.fold.apply(event);
                self.show(item, out);
            }
            Body::ApprovalRequested { approval, .. } => {
                self.fold.apply(event);
                let state = self.state();
                let asked = state.approvals.iter().rev().find(|asked| asked.approval == *approval);
                if let Some(asked) = asked {
                    out.add("permission.asked", &asks::permission(asked, state, &self.names));
                }
            }
            Body::ApprovalResolved { approval, resolution } => {
                let state = self.state();
                if let Some(asked) = state.approvals.iter().find(|asked| asked.approval == *approval) {
                    let request = asks::permission(asked, state, &self.names);
                    let reply = asks::reply(resolution.outcome);
                    let said = json!({"sessionID": request["sessionID"], "requestID": request["id"], "reply": reply});
                    out.add("permission.replied", &said);
                }
                self.fold.apply(event);
                self.prune();
            }
            Body::QuestionAsked { question, .. } => {
                self.fold.apply(event);
                let state = self.state();
                if let Some(asked) = state.questions.iter().rev().find(|asked| asked.question == *question) {
                    out.add("question.asked", &asks::question(asked, state, &self.names));
                }
            }
            Body::QuestionAnswered { question, .. } => {
                self.fold.apply(event);
                self.answered(question.as_str(), out);
                self.prune();
            }
            Body::TurnEnded { .. } => {
                self.fold.apply(event);
                self.turn_ended(draft.turn.as_ref(), out);
            }
            Body::SessionEnded { .. } => {
                self.fold.apply(event);
                out.session("session.updated", &self.session_info(out));
            }
            Body::Aside(Aside::UnattendedReleased { outcome, .. }) => {
                self.fold.apply(event);
                self.released(*outcome, out);
            }
            // These show in what the agent does next, or have no event at opencode.
            Body::SessionResumed { .. } | Body::Notice { .. } | Body::Aside(_) | Body::Unknown { .. } => {
                self.fold.apply(event);
            }
        }
    }

    /// Whether the session is at work, after the events so far.
    pub fn is_busy(&self) -> bool {
        is_busy(self.state())
    }

    /// The last event so far.
    pub fn seq(&self) -> Seq {
        self.state().seq
    }

    pub(super) fn state(&self) -> &State {
        self.fold.state()
    }

    fn session_info<S: FrameSink>(&self, out: &Events<'_, S>) -> Value {
        infos::session(&self.state().session, out.time())
    }

    // === status ===

    fn status<S: FrameSink>(&mut self, event: &Event, out: &mut Events<'_, S>) {
        let was_retrying = self.state().session.status == Activity::Retrying;
        self.fold.apply(event);
        let is_retrying = self.state().session.status == Activity::Retrying;
        // Busy and idle come from prompts and turns: a status may be repeated, and may come late. A parked
        // session is retrying too. Its last turn has had its idle.
        let is_parked = is_retrying && is_parked(self.state());
        // The busy of a turn that continues another one came with its prompt.
        let is_over = was_retrying && self.state().open_turn().is_some();
        if is_parked || is_over || (is_busy(self.state()) && is_retrying) {
            out.add("session.status", &status(self.state(), &self.names));
        }
    }

    /// A parked session waits no more. No turn ends by that, so there is no `session.idle`.
    fn released<S: FrameSink>(&mut self, outcome: Released, out: &mut Events<'_, S>) {
        match outcome {
            // A prompt follows.
            Released::Due | Released::Woken | Released::Prompt => {}
            Released::Cancelled | Released::Budget | Released::Rules => {
                if !is_busy(self.state()) {
                    out.status(&self.names.session(), "idle");
                }
            }
        }
    }

    fn busy<S: FrameSink>(&mut self, event: &Event, out: &mut Events<'_, S>) {
        let was_busy = is_busy(self.state());
        self.fold.apply(event);
        if !was_busy && is_busy(self.state()) {
            out.status(&self.names.session(), "busy");
        }
    }

    // === prompts and model calls ===

    /// The prompt that was accepted last.
    fn prompt<S: FrameSink>(&self, out: &mut Events<'_, S>) {
        let Some(prompt) = self.state().queue.last() else { return };
        out.message(&infos::prompt(prompt, self.state(), &self.names));
        for part in parts::of_prompt(prompt, &self.names) {
            out.part(&part);
        }
    }

    /// The messages of prompts that wait.
    fn waiting(&self) -> Vec<Value> {
        let queue = self.state().queue.iter();
        queue.map(|prompt| infos::prompt(prompt, self.state(), &self.names)).collect()
    }

    /// Tells messages of the user that name another agent or model now.
    fn users_changed<S: FrameSink>(
        &self,
        before: Vec<Value>,
        after: impl IntoIterator<Item = Value>,
        out: &mut Events<'_, S>,
    ) {
        let changed = |info: &Value| before.iter().any(|old| old["id"] == info["id"] && old != info);
        for info in after.into_iter().filter(changed) {
            out.message(&info);
        }
    }

    /// A prompt runs with what its turn began with. The answers of a turn name its first prompt: a turn may
    /// begin without one.
    fn prompt_taken<S: FrameSink>(&mut self, event: &Event, out: &mut Events<'_, S>) {
        let turn = |state: &State| event.draft.turn.as_ref().and_then(|id| turn_of(id, state)).cloned();
        let had_prompts = turn(self.state()).is_none_or(|turn| !turn.prompts.is_empty());
        let before = self.waiting();
        self.fold.apply(event);
        let taken =
            self.state().prompts.last().map(|prompt| infos::prompt(prompt, self.state(), &self.names));
        self.users_changed(before, taken, out);
        let Some(turn) = turn(self.state()).filter(|_| !had_prompts) else { return };
        for step in 0..=infos::last_step(&turn) {
            let place = Place::step(&turn, step);
            if place.is_announced(self.state(), None) {
                self.message(&place, out);
            }
        }
    }

    pub(super) fn message<S: FrameSink>(&self, place: &Place, out: &mut Events<'_, S>) {
        let state = self.state();
        out.message(&infos::assistant(place, infos::last_time(place, state), state, &self.names));
    }

    fn attempt_started<S: FrameSink>(&mut self, event: &Event, out: &mut Events<'_, S>) {
        let Body::AttemptStarted { step, .. } = &event.draft.body else { return };
        let turn = |state: &State| event.draft.turn.as_ref().and_then(|id| turn_of(id, state)).cloned();
        let before = turn(self.state()).map(|turn| (infos::last_step(&turn), !turn.attempts.is_empty()));
        self.fold.apply(event);
        let (Some(turn), Some((last, has_calls))) = (turn(self.state()), before) else { return };
        if has_calls && last < *step {
            self.message(&Place::step(&turn, last), out);
        }
        let place = Place::step(&turn, *step);
        if !has_calls || last < *step {
            self.message(&place, out);
        }
        if let Some(attempt) = turn.attempts.last() {
            out.part(&parts::step_start(attempt, &place, &self.names));
        }
    }

    fn attempt_ended<S: FrameSink>(&mut self, event: &Event, out: &mut Events<'_, S>) {
        self.fold.apply(event);
        let Some(turn) = event.draft.turn.as_ref().and_then(|id| turn_of(id, self.state())) else { return };
        let ended =
            turn.attempts.iter().find(|attempt| Some(&attempt.attempt) == event.draft.attempt.as_ref());
        let Some(attempt) = ended.filter(|attempt| attempt.superseded_by.is_none()) else { return };
        let place = Place::step(turn, attempt.step);
        out.part(&parts::step_finish(attempt, &place, &self.names));
        self.message(&place, out);
    }

    // === the ends of asks and turns ===

    fn answered<S: FrameSink>(&self, question: &str, out: &mut Events<'_, S>) {
        let state = self.state();
        let Some(asked) = state.questions.iter().rev().find(|asked| asked.question.as_str() == question)
        else {
            return;
        };
        let request = asks::question(asked, state, &self.names);
        let mut said = json!({"sessionID": request["sessionID"], "requestID": request["id"]});
        match asked.outcome {
            Some(QuestionOutcome::Answered) => {
                said["answers"] = json!(asks::answers(asked));
                out.add("question.replied", &said);
            }
            Some(
                QuestionOutcome::Rejected
                | QuestionOutcome::Cancelled
                | QuestionOutcome::Expired
                | QuestionOutcome::Lost,
            )
            | None => out.add("question.rejected", &said),
        }
    }

    /// The last messages of the turn are completed, and the session is idle once.
    fn turn_ended<S: FrameSink>(&mut self, turn: Option<&TurnId>, out: &mut Events<'_, S>) {
        let Some(turn) = turn.and_then(|id| turn_of(id, self.state())).cloned() else { return };
        let last = infos::last_step(&turn);
        let whole = Place::step(&turn, 0);
        if last > 0 && whole.is_announced(self.state(), None) {
            self.message(&whole, out);
        }
        let session = self.names.session();
        if let Some(error) = infos::error_of(&turn) {
            out.add("session.error", &json!({"sessionID": session, "error": error}));
        }
        // A turn without any work has a message too: it has the error.
        self.message(&Place::step(&turn, last), out);
        out.session("session.updated", &self.session_info(out));
        out.idle(&session);
        self.ended.add_turn(&turn.turn, self.fold.state(), &self.names);
        self.heads.clear();
        self.prune();
        if is_busy(self.state()) {
            out.add("session.status", &status(self.state(), &self.names));
        }
    }

    /// Forgets what has ended.
    pub(super) fn prune(&mut self) {
        let state = std::mem::take(&mut self.fold).into_state();
        self.fold = Fold::from(open_part(state));
    }
}

/// What is open, and the session.
fn open_part(mut state: State) -> State {
    let open = |turn: &Turn| turn.is_open();
    state.turns.retain(open);
    let of_open_turn = |turn: Option<&TurnId>, turns: &[Turn]| {
        turn.is_some_and(|id| turns.iter().any(|turn| turn.turn == *id))
    };
    state.items.retain(|item| match &item.turn {
        Some(turn) => of_open_turn(Some(turn), &state.turns),
        None => item.is_open(),
    });
    let asked: Vec<_> = state.turns.iter().flat_map(|turn| turn.prompts.clone()).collect();
    state.prompts.retain(|prompt| asked.contains(&prompt.prompt));
    state.approvals.retain(|approval| approval.is_open());
    state.questions.retain(|question| question.is_open());
    state.spent.clear();
    state
}

/// Whether a turn is open, or a prompt was sent whose turn is to come.
pub fn is_busy(state: &State) -> bool {
    state.open_turn().is_some() || state.queue.iter().any(|prompt| prompt.state == PromptStage::Sent)
}

/// Whether the session waits to continue a turn.
pub(super) fn is_parked(state: &State) -> bool {
    let unattended = state.session.unattended.as_ref();
    unattended.is_some_and(|unattended| unattended.parked.is_some())
}

/// The status of a session.
pub(super) fn status(state: &State, names: &Names) -> Value {
    json!({"sessionID": names.session(), "status": status_of(state)})
}

/// What opencode calls the status of a session.
pub fn status_of(state: &State) -> Value {
    let retry = state.session.retry.as_ref().filter(|_| state.session.status == Activity::Retrying);
    match retry {
        _ if !is_busy(state) && !is_parked(state) => json!({"type": "idle"}),
        Some(retry) => json!({
            "type": "retry",
            "attempt": retry.attempt.unwrap_or(1),
            "message": retry.message.as_deref().unwrap_or("The model call is repeated"),
            "next": retry.until.map_or(0, |until| until.0),
        }),
        None if is_busy(state) => json!({"type": "busy"}),
        None => json!({"type": "idle"}),
    }
}
