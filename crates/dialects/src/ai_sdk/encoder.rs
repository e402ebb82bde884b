//! Turns events into chunks. Its only state is the fold of the open turn, so what it writes for an event
//! depends on the log alone.

use super::asks;
use super::calls::{self, Executed};
use super::chunks::{Mark, TextKind, bare, put, text_delta, text_end, transient};
use super::ends;
use super::entries::{self, Form, ShownIn, form};
use super::held::Held;
use super::profile::Profile;
use super::turns::{self, WhileWaiting};
use crate::dialect::FrameSink;
use serde_json::json;
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Body, Draft, Event, Field, Permissions, Status};
use turnstream_model::fold::{Applied, Fold, Item, State, Turn};
use turnstream_model::id::{ApprovalId, QuestionId, TurnId};

/// What a response does after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The turn goes on, or is yet to begin.
    Running,
    /// The event asks a person.
    Waiting,
    /// The turn is over, and its end is written.
    Ended,
}

/// Encodes one session, for clients of one profile.
///
/// It keeps the open turn, and nothing of the turns before.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    profile: Profile,
    fold: Fold,
    /// A buffer, kept for its capacity.
    json: Vec<u8>,
}

impl Encoder {
    /// Continues after this state, for a client that has everything up to it.
    pub fn resume(state: &State, profile: Profile) -> Self {
        let fold = Fold::from(only(state, state.open_turn()));
        Self { profile, fold, json: Vec::new() }
    }

    /// Writes one turn as it is in this state, without what the client has of it, and continues after it.
    pub fn catch_up(
        state: &State,
        turn: &TurnId,
        held: &Held,
        profile: Profile,
        out: &mut impl FrameSink,
    ) -> (Self, Progress) {
        let known = state.turns.iter().rev().find(|known| known.turn == *turn);
        let encoder = Self { profile, fold: Fold::from(only(state, known)), json: Vec::new() };
        let Some(known) = known else { return (encoder, Progress::Running) };
        turns::turn(out, encoder.fold.state(), known, held, WhileWaiting::UpToRequest, profile);
        let progress = match (known.is_open(), turns::is_waiting(state, known)) {
            (false, _) => Progress::Ended,
            (true, true) => Progress::Waiting,
            (true, false) => Progress::Running,
        };
        (encoder, progress)
    }

    /// Writes every turn as it is in this state, for a client that follows the session.
    pub(super) fn replay(state: &State, profile: Profile, out: &mut impl FrameSink) -> Self {
        for turn in &state.turns {
            turns::turn(out, &only(state, Some(turn)), turn, &Held::default(), WhileWaiting::All, profile);
        }
        Self::resume(state, profile)
    }

    /// Writes the end of a response whose turn waits for a person.
    pub fn pause(&self, out: &mut impl FrameSink) {
        for item in self.fold.state().items.iter().filter(|item| item.is_open()) {
            if let Form::Text(kind) = form(item) {
                text_end(out, kind, item, Mark::None);
            }
        }
        ends::pause(out);
    }

    /// Writes the chunks of an event: often one, sometimes none. An event that was encoded before, or that
    /// the state contained, adds nothing.
    pub fn encode(&mut self, event: &Event, out: &mut impl FrameSink) -> Progress {
        if event.seq <= self.fold.state().seq {
            return Progress::Running;
        }
        let draft = &event.draft;
        let before = self.before(draft);
        if let Applied::Gap { .. } = self.fold.apply(event) {
            // Events before the turn were left out.
            let mut state = std::mem::take(&mut self.fold).into_state();
            state.seq = Seq(event.seq.0.saturating_sub(1));
            self.fold = Fold::from(state);
            self.fold.apply(event);
        }
        self.write(draft, before, out)
    }

    /// Every type has an arm, so that a new one is not forgotten here.
    fn write(&mut self, draft: &Draft, before: Before, out: &mut impl FrameSink) -> Progress {
        match &draft.body {
            Body::TurnStarted { .. } => {
                if let Some(turn) = self.turn(draft) {
                    ends::start(out, self.fold.state(), turn);
                }
            }
            Body::TurnEnded { .. } => return self.turn_ended(draft, out),
            Body::AttemptStarted { step, .. } => {
                let earlier = |turn: &Turn| turn.attempts.iter().filter(|other| other.step >= *step).count();
                if self.turn(draft).is_some_and(|turn| earlier(turn) == 1) {
                    bare(out, "start-step");
                }
            }
            Body::ItemStarted { .. } => {
                if let Some(item) = self.item(draft) {
                    turns::item(out, self.fold.state(), item, self.profile);
                }
            }
            Body::ItemDelta { field, text } => self.delta(draft, *field, text, out),
            Body::ItemReplaced { field, .. } => self.replaced(draft, *field, out),
            Body::ItemUpdated { tool } => {
                let is_news = tool
                    .as_ref()
                    .is_some_and(|tool| tool.input.is_some() || tool.title.is_some() || tool.name.is_some());
                self.updated(draft, before, is_news, out);
            }
            Body::ItemEnded { .. } => self.ended(draft, out),
            Body::ItemRevised { .. } => self.revised(draft, out),
            Body::ItemRemoved | Body::AttemptSuperseded { .. } => self.voided(before, draft, out),
            Body::ApprovalRequested { approval, .. } => return self.approval_requested(approval, out),
            Body::ApprovalResolved { approval, .. } => self.approval_resolved(approval, out),
            Body::QuestionAsked { question, .. } => return self.question_asked(question, out),
            Body::QuestionAnswered { question, .. } => self.question_answered(question, out),
            Body::SessionStatus(status) => self.status(status, out),
            Body::Notice { code, message, .. } => {
                if self.open().is_some() {
                    transient(out, "notice", json!({"code": code, "message": message}));
                }
            }
            // The chunks have no word for prompts, and none for the session.
            Body::SessionCreated { .. }
            | Body::SessionUpdated(_)
            | Body::SessionResumed { .. }
            | Body::SessionEnded { .. }
            | Body::PromptAccepted { .. }
            | Body::PromptSent { .. }
            | Body::PromptTaken { .. }
            | Body::PromptWithdrawn { .. }
            | Body::AttemptEnded { .. }
            | Body::Aside(_)
            | Body::Unknown { .. } => {}
        }
        Progress::Running
    }

    // === the turn ===

    fn turn_ended(&mut self, draft: &Draft, out: &mut impl FrameSink) -> Progress {
        let Some(turn) = self.turn(draft) else { return Progress::Running };
        ends::end(out, self.fold.state(), turn, self.profile);
        let state = std::mem::take(&mut self.fold).into_state();
        self.fold = Fold::from(only(&state, None));
        Progress::Ended
    }

    fn status(&self, status: &Status, out: &mut impl FrameSink) {
        match (status, &self.fold.state().session.retry) {
            (Status::Retrying { .. }, Some(retry)) if self.open().is_some() => turns::retrying(out, retry),
            (Status::Retrying { .. }, _)
            | (Status::Idle | Status::Busy | Status::Waiting | Status::Recovering, _) => {}
        }
    }

    fn open(&self) -> Option<&Turn> {
        self.fold.state().open_turn()
    }

    /// The turn of an event, if it is the one that is kept.
    fn turn(&self, draft: &Draft) -> Option<&Turn> {
        let id = draft.turn.as_ref()?;
        self.fold.state().turns.iter().find(|turn| turn.turn == *id)
    }

    // === items ===

    /// The item of an event, if its turn is open.
    fn item(&self, draft: &Draft) -> Option<&Item> {
        let item = self.fold.item(draft.item.as_ref()?)?;
        item.turn.as_ref().filter(|turn| self.open().is_some_and(|open| open.turn == **turn))?;
        Some(item)
    }

    fn shown_in(&self, item: &Item) -> ShownIn {
        if self.is_in_last_step(item) { ShownIn::LastStep } else { ShownIn::EarlierStep }
    }

    fn is_in_last_step(&self, item: &Item) -> bool {
        let is_in = |turn| entries::is_in_last_step(self.fold.state(), turn, item, self.profile);
        self.open().is_some_and(is_in)
    }

    fn delta(&mut self, draft: &Draft, field: Field, text: &str, out: &mut impl FrameSink) {
        let mut json = std::mem::take(&mut self.json);
        if let Some(item) = self.item(draft) {
            let id = item.id.as_str();
            match (form(item), field) {
                (Form::Text(kind), Field::Text) if item.is_open() => {
                    text_delta(out, kind, id, text, &mut json)
                }
                (Form::Call, Field::Input)
                    if item.is_open() && !has_input(item) && self.is_in_last_step(item) =>
                {
                    calls::input_delta(out, id, text);
                }
                (Form::Call, Field::Output) if item.is_open() => {
                    let output = item.output.as_deref().unwrap_or_default();
                    if calls::is_shown_now(output, text.len()) {
                        calls::preliminary(out, item);
                    }
                }
                // A note is shown whole, when it begins and when it ends.
                (Form::Text(_) | Form::Call | Form::Data(_) | Form::Hidden, _) => {}
            }
        }
        self.json = json;
    }

    fn replaced(&self, draft: &Draft, field: Field, out: &mut impl FrameSink) {
        let Some(item) = self.item(draft) else { return };
        match (form(item), field) {
            (Form::Text(kind), Field::Text) => self.rewrite_text(item, kind, out),
            (Form::Data(name), Field::Text) => turns::note(out, name, item),
            (Form::Call, Field::Input) if !has_input(item) && self.is_in_last_step(item) => {
                calls::start(out, item, self.profile);
                calls::input_delta(out, item.id.as_str(), item.input.as_deref().unwrap_or_default());
            }
            (Form::Call, Field::Output) => calls::preliminary(out, item),
            (Form::Text(_) | Form::Call | Form::Data(_) | Form::Hidden, _) => {}
        }
    }

    /// Replaces a text: by sending its step again, or else by another part of the same item.
    fn rewrite_text(&self, item: &Item, kind: TextKind, out: &mut impl FrameSink) {
        if self.profile.is_newest() && self.is_in_last_step(item) {
            self.repeat_step(out);
            return;
        }
        if item.is_open() {
            text_end(out, kind, item, Mark::Superseded);
        }
        turns::item(out, self.fold.state(), item, self.profile);
    }

    /// Takes back the last step and sends what is left of it.
    fn repeat_step(&self, out: &mut impl FrameSink) {
        bare(out, "reset-step");
        let Some(turn) = self.open() else { return };
        for entry in entries::of_last_step(self.fold.state(), turn, self.profile) {
            turns::entry(out, self.fold.state(), &entry, self.profile);
        }
    }

    fn updated(&self, draft: &Draft, before: Before, is_news: bool, out: &mut impl FrameSink) {
        let Some(item) = self.item(draft) else { return };
        match form(item) {
            Form::Call if is_news && item.is_open() && has_input(item) && self.is_in_last_step(item) => {
                match calls::approval_of(self.fold.state(), item, self.profile) {
                    Some(asked) if asked.is_open() => {
                        asks::request(out, item, asked, ShownIn::LastStep, self.profile);
                    }
                    _ => calls::input_available(out, item, None, Executed::ByAgent, self.profile),
                }
            }
            Form::Call | Form::Hidden => {}
            // Its text turned out to be that of a subagent.
            Form::Text(_) | Form::Data(_) => self.moved(item, before, out),
        }
    }

    fn moved(&self, item: &Item, before: Before, out: &mut impl FrameSink) {
        if before.shown.is_empty() {
            return;
        }
        self.take_back(&before, out);
        if !(self.profile.is_newest() && before.is_in_last_step) {
            turns::item(out, self.fold.state(), item, self.profile);
        }
    }

    fn ended(&self, draft: &Draft, out: &mut impl FrameSink) {
        let Some(item) = self.item(draft) else { return };
        match form(item) {
            Form::Text(kind) => text_end(out, kind, item, Mark::None),
            Form::Data(name) => turns::note(out, name, item),
            Form::Call => {
                if !has_input(item) && self.is_in_last_step(item) {
                    calls::input_available(out, item, None, Executed::ByAgent, self.profile);
                }
                calls::output(out, self.fold.state(), item, self.profile);
            }
            Form::Hidden => {}
        }
    }

    fn revised(&self, draft: &Draft, out: &mut impl FrameSink) {
        let Some(item) = self.item(draft) else {
            late(draft, out);
            return;
        };
        match (form(item), &draft.body) {
            (Form::Text(kind), Body::ItemRevised { text: Some(_), .. }) => self.rewrite_text(item, kind, out),
            (Form::Data(name), _) => turns::note(out, name, item),
            (Form::Call, _) => calls::output(out, self.fold.state(), item, self.profile),
            (Form::Text(_) | Form::Hidden, _) => {}
        }
    }

    // === what no longer counts ===

    /// What an event takes back, before it is applied.
    fn before(&self, draft: &Draft) -> Before {
        let mut before = Before::default();
        let gone = draft.voided_items();
        let moved = match &draft.body {
            Body::ItemUpdated { .. } if draft.parent.is_some() => draft.item.as_slice(),
            _ => &[],
        };
        if gone.is_empty() && moved.is_empty() {
            return before;
        }
        let Some(turn) = self.open() else { return before };
        before.is_in_last_step = true;
        for id in gone.iter().chain(moved) {
            let Some(item) = self.fold.item(id).filter(|item| item.turn.as_ref() == Some(&turn.turn)) else {
                continue;
            };
            let is_moved = gone.is_empty();
            if form(item) == Form::Hidden || (is_moved && !matches!(form(item), Form::Text(_))) {
                continue;
            }
            before.is_in_last_step &= entries::is_in_last_step(self.fold.state(), turn, item, self.profile);
            before.shown.push(item.clone());
        }
        before
    }

    fn voided(&self, before: Before, draft: &Draft, out: &mut impl FrameSink) {
        if before.shown.is_empty() {
            if self.open().is_none() {
                late(draft, out);
            }
            return;
        }
        self.take_back(&before, out);
    }

    fn take_back(&self, before: &Before, out: &mut impl FrameSink) {
        if self.profile.is_newest() && before.is_in_last_step {
            self.repeat_step(out);
            return;
        }
        for item in before.shown.iter().filter(|item| item.is_open()) {
            match form(item) {
                Form::Text(kind) => text_end(out, kind, item, Mark::Superseded),
                Form::Call => {
                    put(out, &calls::failed_chunk(item.id.as_str(), "the model call was repeated"));
                }
                Form::Data(_) | Form::Hidden => {}
            }
        }
        let ids: Vec<&str> = before.shown.iter().map(|item| item.id.as_str()).collect();
        turns::superseded(out, &ids);
    }

    // === asks ===

    fn approval_requested(&self, id: &ApprovalId, out: &mut impl FrameSink) -> Progress {
        let state = self.fold.state();
        let Some(asked) = state.approvals.iter().rev().find(|asked| asked.approval == *id) else {
            return Progress::Running;
        };
        if !self.is_open(asked.turn.as_ref()) {
            return Progress::Running;
        }
        let call = asked.item.as_ref().and_then(|item| self.fold.item(item));
        match call.filter(|_| entries::is_at_call(state, asked, self.profile)) {
            Some(item) => asks::request(out, item, asked, self.shown_in(item), self.profile),
            None => asks::approval(out, asked, self.profile),
        }
        // A rule of the session answers at once.
        match state.session.permissions {
            None | Some(Permissions::Ask) => Progress::Waiting,
            Some(Permissions::Allow | Permissions::Deny) => Progress::Running,
        }
    }

    fn approval_resolved(&self, id: &ApprovalId, out: &mut impl FrameSink) {
        let state = self.fold.state();
        let Some(asked) = state.approvals.iter().rev().find(|asked| asked.approval == *id) else { return };
        if !self.is_open(asked.turn.as_ref()) {
            return;
        }
        let call = asked.item.as_ref().and_then(|item| self.fold.item(item));
        match call.filter(|_| entries::is_at_call(state, asked, self.profile)) {
            None => asks::approval_outcome(out, asked, self.profile),
            // The call may have ended first, and stays as it ended.
            Some(item) if !item.is_open() => {}
            Some(_) if self.profile.is_newest() => asks::response(out, asked, self.profile),
            // Without a word for the answer: the call is no longer asked about.
            Some(item) if self.is_in_last_step(item) => {
                calls::input_available(out, item, asked.tool.as_deref(), Executed::ByAgent, self.profile);
            }
            Some(_) => {}
        }
    }

    fn question_asked(&self, id: &QuestionId, out: &mut impl FrameSink) -> Progress {
        let questions = &self.fold.state().questions;
        let Some(asked) = questions.iter().rev().find(|asked| asked.question == *id) else {
            return Progress::Running;
        };
        if !self.is_open(asked.turn.as_ref()) {
            return Progress::Running;
        }
        asks::question(out, asked);
        Progress::Waiting
    }

    fn question_answered(&self, id: &QuestionId, out: &mut impl FrameSink) {
        let questions = &self.fold.state().questions;
        let asked = questions.iter().rev().find(|asked| asked.question == *id);
        if let Some(asked) = asked.filter(|asked| self.is_open(asked.turn.as_ref())) {
            asks::question_outcome(out, asked);
        }
    }

    fn is_open(&self, turn: Option<&TurnId>) -> bool {
        turn.is_some_and(|turn| self.open().is_some_and(|open| open.turn == *turn))
    }
}

/// What an event takes back.
#[derive(Default)]
struct Before {
    /// The items, as they were.
    shown: Vec<Item>,
    /// Whether all of them are in the last step.
    is_in_last_step: bool,
}

fn has_input(item: &Item) -> bool {
    item.tool.as_ref().is_some_and(|tool| tool.input.is_some())
}

/// News of a turn that is over. It is in no message; a client that loads the messages again has it.
fn late(draft: &Draft, out: &mut impl FrameSink) {
    let revision = match &draft.body {
        Body::ItemRevised { text, state, tool, .. } => {
            json!({"turn": draft.turn, "item": draft.item, "text": text, "state": state, "tool": tool})
        }
        _ => json!({"turn": draft.turn, "items": draft.voided_items(), "removed": true}),
    };
    transient(out, "revised", revision);
}

/// The part of a state that one turn needs.
fn only(state: &State, turn: Option<&Turn>) -> State {
    let id = turn.map(|turn| &turn.turn);
    let is_its = |of: &Option<TurnId>| id.is_some() && of.as_ref() == id;
    State {
        seq: state.seq,
        session: state.session.clone(),
        turns: turn.into_iter().cloned().collect(),
        items: state.items.iter().filter(|item| is_its(&item.turn)).cloned().collect(),
        approvals: state.approvals.iter().filter(|asked| is_its(&asked.turn)).cloned().collect(),
        questions: state.questions.iter().filter(|asked| is_its(&asked.turn)).cloned().collect(),
        ..State::default()
    }
}
