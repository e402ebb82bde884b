//! Turns the events of a log into those of AG-UI.
//!
//! The encoder keeps the state of the open turn, as the fold has it. Of earlier turns it keeps what a list of
//! messages needs, because a client drops every message that a list leaves out. What it writes depends on
//! that state and on the next event. So one that continues after a snapshot writes the same.

use super::frames::{Frames, object};
use super::messages::{self, Shape, shape};
use super::prompts::parts;
use super::runs::{ending, interrupts, run_of, thread_of};
use crate::dialect::{Dialect, FrameSink, Repeats};
use serde_json::{Value, json};
use std::collections::HashSet;
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Body, Event, EventError, Field, Line, Status};
use turnstream_model::fold::{Fold, Item, PromptStage, State, Turn};
use turnstream_model::id::{ItemId, PromptId, TurnId};

/// The log of one session as events of AG-UI.
#[derive(Clone, Debug, Default)]
pub struct AgUi {
    pub(super) fold: Fold,
    buffer: Vec<u8>,
}

/// Whether the client has an open run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// No turn is open.
    Idle,
    /// A turn is open.
    Running,
    /// A turn is open, and its last run ended with an interrupt: it waits for a person.
    Waiting,
}

impl Dialect for AgUi {
    const NAME: &'static str = "ag-ui";
    const REPEATS: Repeats = Repeats::Conversation;
    const ID_MEMBER: &'static str = "cursor";

    fn resume(state: &State) -> Self {
        Self { fold: Fold::from(listed_part(state.clone())), buffer: Vec::new() }
    }

    /// One run that has all messages. It stays open while the turn does.
    fn replay(state: &State, out: &mut impl FrameSink) -> Self {
        let mut encoder = Self::resume(state);
        let mut buffer = Vec::new();
        let out = &mut Frames::new(out, &mut buffer);
        if messages::history(state).is_empty() && state.open_turn().is_none() {
            return encoder;
        }
        let run = match state.open_turn() {
            Some(turn) => run_of(turn, encoder.state()),
            None => format!("replay.{}", state.seq),
        };
        encoder.run_started(&run, out);
        let (all, earlier) = messages::list(state);
        out.messages(&all, earlier);
        match (encoder.stage(), state.turns.last()) {
            (Stage::Running, _) => encoder.reopen(out),
            (Stage::Waiting, _) => encoder.interrupt(out),
            (Stage::Idle, Some(last)) => encoder.run_ended(last, &run, out),
            (Stage::Idle, None) => encoder.run_finished(&run, out),
        }
        encoder.buffer = buffer;
        encoder
    }

    fn encode(&mut self, line: &Line<'_>, out: &mut impl FrameSink) -> Result<(), EventError> {
        let event = line.event()?;
        self.event(event, out);
        Ok(())
    }
}

impl AgUi {
    /// Continues after this state, for a client whose lists are completed with the messages of earlier turns.
    pub fn continue_after(state: &State) -> Self {
        Self { fold: Fold::from(open_part(state.clone())), buffer: Vec::new() }
    }

    /// Writes one turn of a state as one run, which stays open while the turn does. A list has its messages.
    pub fn write_turn(state: &State, turn: &TurnId, out: &mut impl FrameSink) {
        let Some(turn) = state.turns.iter().rev().find(|known| known.turn == *turn) else { return };
        let encoder = Self::continue_after(state);
        let mut buffer = Vec::new();
        let out = &mut Frames::new(out, &mut buffer);
        let run = run_of(turn, state);
        encoder.run_started(&run, out);
        out.messages(&messages::of_turn(&turn.turn, state), 0);
        if !turn.is_open() {
            return encoder.run_ended(turn, &run, out);
        }
        match encoder.stage() {
            Stage::Running => encoder.reopen(out),
            Stage::Waiting => encoder.interrupt(out),
            Stage::Idle => {}
        }
    }

    /// Writes the frames of the next event. One that was encoded before writes nothing.
    pub fn event(&mut self, event: &Event, out: &mut impl FrameSink) {
        if event.seq > self.fold.state().seq {
            let mut buffer = std::mem::take(&mut self.buffer);
            self.apply(event, &mut Frames::new(out, &mut buffer));
            self.buffer = buffer;
        }
    }

    /// Continues after the next event, and writes nothing of it. Work of no turn that goes on stays known.
    pub fn pass_over(&mut self, event: &Event) {
        self.fold.apply(event);
        if let Body::TurnEnded { .. } = event.draft.body {
            let state = std::mem::take(&mut self.fold).into_state();
            self.fold = Fold::from(open_part(state));
        }
    }

    /// Every type has an arm, so that a new one is not forgotten here.
    fn apply<S: FrameSink>(&mut self, event: &Event, out: &mut Frames<'_, S>) {
        let draft = &event.draft;
        match &draft.body {
            Body::ItemDelta { field: Field::Text, text } => self.delta(event, text, out),
            Body::ItemDelta { field: Field::Input | Field::Output, .. } => {
                self.fold.apply(event);
            }
            Body::TurnStarted { .. } => {
                self.fold.apply(event);
                if let Some(turn) = self.state().open_turn() {
                    self.run_started(&run_of(turn, self.state()), out);
                }
            }
            Body::PromptTaken { prompt } => {
                self.fold.apply(event);
                let state = self.state();
                let mut taken = state.prompts.iter().chain(&state.queue).rev();
                let said = taken.find(|known| known.prompt == *prompt);
                if let Some(said) = said.filter(|prompt| prompt.state == PromptStage::Taken) {
                    self.in_run(out, |_, out| {
                        for (id, text) in parts(said) {
                            user_message(id, &text, None, &Value::Null, out);
                        }
                    });
                }
            }
            Body::ItemStarted { .. }
            | Body::ItemReplaced { .. }
            | Body::ItemUpdated { .. }
            | Body::ItemEnded { .. } => self.item_changed(event, out),
            Body::ItemRevised { .. } => {
                if self.shown(draft.item.as_ref()).is_some() {
                    return self.item_changed(event, out);
                }
                self.fold.apply(event);
                self.late(event, out);
            }
            Body::ItemRemoved => match self.shown(draft.item.as_ref()).map(|item| item.id.clone()) {
                Some(item) => self.voided(event, &[item], out),
                None => {
                    self.fold.apply(event);
                    self.late(event, out);
                }
            },
            Body::AttemptSuperseded { items, .. } => self.voided(event, items, out),
            Body::ApprovalRequested { .. }
            | Body::ApprovalResolved { .. }
            | Body::QuestionAsked { .. }
            | Body::QuestionAnswered { .. } => self.asks_changed(event, out),
            Body::TurnEnded { .. } => self.turn_ended(event, out),
            Body::SessionStatus(status) => {
                self.fold.apply(event);
                if let Status::Retrying { attempt, reason, until, message } = status
                    && self.stage() == Stage::Running
                {
                    let value = object(json!({
                        "attempt": attempt, "reason": reason, "until": until, "message": message,
                    }));
                    out.add("CUSTOM", json!({"name": "turnstream.retrying", "value": value}));
                }
            }
            Body::Notice { code, message, .. } => {
                self.fold.apply(event);
                if self.stage() == Stage::Running {
                    let value = json!({"code": code, "message": message});
                    out.add("CUSTOM", json!({"name": "turnstream.notice", "value": value}));
                }
            }
            // These show in what the agent does next, or a run has no event for them.
            Body::SessionCreated { .. }
            | Body::SessionUpdated(_)
            | Body::SessionResumed { .. }
            | Body::SessionEnded { .. }
            | Body::PromptAccepted { .. }
            | Body::PromptSent { .. }
            | Body::PromptWithdrawn { .. }
            | Body::AttemptStarted { .. }
            | Body::AttemptEnded { .. }
            | Body::Aside(_)
            | Body::Unknown { .. } => {
                self.fold.apply(event);
            }
        }
    }

    /// The session, and its open turn.
    pub fn state(&self) -> &State {
        self.fold.state()
    }

    pub(super) fn stage(&self) -> Stage {
        let state = self.state();
        let Some(turn) = state.open_turn() else { return Stage::Idle };
        let is_its = |asked: Option<&TurnId>| asked == Some(&turn.turn);
        let approvals = state.approvals.iter().any(|asked| asked.is_open() && is_its(asked.turn.as_ref()));
        let questions = state.questions.iter().any(|asked| asked.is_open() && is_its(asked.turn.as_ref()));
        if approvals || questions { Stage::Waiting } else { Stage::Running }
    }

    // === runs ===

    fn run_started<S: FrameSink>(&self, run: &str, out: &mut Frames<'_, S>) {
        let thread = thread_of(&self.state().session);
        out.add("RUN_STARTED", json!({"threadId": thread, "runId": run, "protocolVersion": "1.0"}));
    }

    fn run_ended<S: FrameSink>(&self, turn: &Turn, run: &str, out: &mut Frames<'_, S>) {
        let (kind, mut members) = ending(turn);
        if kind == "RUN_FINISHED" {
            members["threadId"] = json!(thread_of(&self.state().session));
            members["runId"] = json!(run);
        }
        out.add(kind, members);
    }

    /// Ends a run that is of no turn.
    fn run_finished<S: FrameSink>(&self, run: &str, out: &mut Frames<'_, S>) {
        let thread = thread_of(&self.state().session);
        out.add("RUN_FINISHED", json!({"threadId": thread, "runId": run}));
    }

    /// Ends the run with what the turn waits for.
    fn interrupt<S: FrameSink>(&self, out: &mut Frames<'_, S>) {
        let Some(turn) = self.state().open_turn() else { return };
        let (thread, run) = (thread_of(&self.state().session), run_of(turn, self.state()));
        let outcome = json!({"type": "interrupt", "interrupts": interrupts(self.state())});
        out.add("RUN_FINISHED", json!({"threadId": thread, "runId": run, "outcome": outcome}));
    }

    /// Writes inside of a run. While the turn waits there is none, so a short one is made that ends with the
    /// same interrupts.
    pub(super) fn in_run<S: FrameSink>(
        &self,
        out: &mut Frames<'_, S>,
        write: impl FnOnce(Stage, &mut Frames<'_, S>),
    ) {
        let stage = self.stage();
        match (stage, self.state().open_turn()) {
            (Stage::Running, _) => write(stage, out),
            (Stage::Waiting, Some(turn)) => {
                self.run_started(&run_of(turn, self.state()), out);
                write(stage, out);
                self.interrupt(out);
            }
            (Stage::Waiting | Stage::Idle, _) => {}
        }
    }

    fn asks_changed<S: FrameSink>(&mut self, event: &Event, out: &mut Frames<'_, S>) {
        let before = self.stage();
        let open = self.open_parts();
        self.fold.apply(event);
        match (before, self.stage()) {
            (Stage::Running, Stage::Waiting) => {
                for id in open {
                    self.close(&id, out);
                }
                self.interrupt(out);
            }
            (Stage::Waiting, Stage::Waiting) => self.in_run(out, |_, _| {}),
            (Stage::Waiting, Stage::Running) => {
                if let Some(turn) = self.state().open_turn() {
                    self.run_started(&run_of(turn, self.state()), out);
                    self.reopen(out);
                }
            }
            (Stage::Running, Stage::Running) | (Stage::Idle, _) | (_, Stage::Idle) => {}
        }
    }

    fn turn_ended<S: FrameSink>(&mut self, event: &Event, out: &mut Frames<'_, S>) {
        let stage = self.stage();
        let run = self.state().open_turn().map(|turn| run_of(turn, self.state()));
        self.fold.apply(event);
        let ended = event.draft.turn.as_ref();
        let turn = self.state().turns.iter().rev().find(|turn| Some(&turn.turn) == ended);
        if let (Some(turn), Some(run)) = (turn.cloned(), run) {
            match stage {
                Stage::Running => {}
                Stage::Waiting => self.run_started(&run, out),
                Stage::Idle => return,
            }
            self.run_ended(&turn, &run, out);
        }
        let state = std::mem::take(&mut self.fold).into_state();
        self.fold = Fold::from(listed_part(state));
    }

    /// Tells a change of something that belongs to no open turn. The client has no event for it.
    fn late<S: FrameSink>(&self, event: &Event, out: &mut Frames<'_, S>) {
        let Some(item) = &event.draft.item else { return };
        let (name, value) = match &event.draft.body {
            Body::ItemRevised { state, text, tool, .. } => {
                let output = tool.as_deref().map(|tool| crate::said::output_of(tool, None));
                let value = json!({"item": item, "state": state, "text": text, "output": output});
                ("turnstream.revised", object(value))
            }
            _ => ("turnstream.removed", json!({"item": item})),
        };
        let members = json!({"name": name, "value": value});
        self.in_any_run(event.seq, out, |out| out.add("CUSTOM", members));
    }

    /// Writes inside of a run. If no turn is open, that is a run of its own.
    pub(super) fn in_any_run<S: FrameSink>(
        &self,
        seq: Seq,
        out: &mut Frames<'_, S>,
        write: impl FnOnce(&mut Frames<'_, S>),
    ) {
        if self.stage() != Stage::Idle {
            return self.in_run(out, |_, out| write(out));
        }
        let run = format!("late.{seq}");
        self.run_started(&run, out);
        write(out);
        self.run_finished(&run, out);
    }
}

/// A message of the user, whole.
pub(super) fn user_message<S: FrameSink>(
    id: &str,
    text: &str,
    subagent: Option<&ItemId>,
    metadata: &Value,
    out: &mut Frames<'_, S>,
) {
    let start = json!({"messageId": id, "role": "user", "subagentRunId": subagent, "metadata": metadata});
    out.add("TEXT_MESSAGE_START", start);
    if !text.is_empty() {
        out.delta("TEXT_MESSAGE_CONTENT", id, text, subagent.map(|item| item.as_str()));
    }
    out.add("TEXT_MESSAGE_END", json!({"messageId": id, "subagentRunId": subagent}));
}

/// The session, its open turn, what belongs to that, and work of no turn that goes on.
fn open_part(mut state: State) -> State {
    state.turns.retain(Turn::is_open);
    state.items.retain(|item| item.turn.is_some() || item.is_open());
    of_turns_only(state)
}

/// The session, the turns that a list of messages has, and work of no turn that is listed or goes on.
fn listed_part(mut state: State) -> State {
    let unlisted = state.turns.len().saturating_sub(messages::listed_turns(&state));
    if unlisted > 0 {
        state.turns.drain(..unlisted);
        let kept: HashSet<&TurnId> = state.turns.iter().map(|turn| &turn.turn).collect();
        let is_kept = |item: &Item| item.turn.as_ref().is_some_and(|turn| kept.contains(turn));
        let first = state.items.iter().position(is_kept).unwrap_or(state.items.len());
        let later = state.items.split_off(first);
        state.items.retain(Item::is_open);
        state.items.extend(later);
    }
    let mut state = of_turns_only(state);
    let open = state.open_turn().map(|turn| turn.turn.clone());
    let is_open = |turn: Option<&TurnId>| turn.is_some() && turn == open.as_ref();
    state.approvals.retain(|asked| is_open(asked.turn.as_ref()));
    state.questions.retain(|asked| is_open(asked.turn.as_ref()));
    state
}

/// What belongs to the turns of a state, and to no turn.
fn of_turns_only(mut state: State) -> State {
    let turns = &state.turns;
    let kept: HashSet<&TurnId> = turns.iter().map(|turn| &turn.turn).collect();
    let prompts: HashSet<&PromptId> = turns.iter().flat_map(|turn| &turn.prompts).collect();
    let is_kept = |turn: Option<&TurnId>| turn.is_some_and(|turn| kept.contains(turn));
    state.items.retain(|item: &Item| item.turn.is_none() || is_kept(item.turn.as_ref()));
    state.prompts.retain(|prompt| prompts.contains(&prompt.prompt) || is_kept(prompt.turn.as_ref()));
    state.approvals.retain(|asked| is_kept(asked.turn.as_ref()));
    state.questions.retain(|asked| is_kept(asked.turn.as_ref()));
    state.spent.clear();
    state
}

/// Whether an item is streamed: its text is sent in pieces between a start and an end.
pub(super) fn is_streamed(item: &Item) -> bool {
    match shape(item) {
        Shape::Text | Shape::Reasoning => true,
        Shape::User | Shape::Tool | Shape::Activity(_) => false,
    }
}
