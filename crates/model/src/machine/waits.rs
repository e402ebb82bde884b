//! Open approvals and questions. Each is settled once, and the winning answer is remembered.

use crate::event::{
    ApprovalOption, ApprovalOutcome, Body, By, Draft, Question, QuestionOutcome, Resolution, Tool,
};
use crate::id::{ApprovalId, ItemId, Key, QuestionId, TurnId};
use serde_json::{Map, Value};
use std::collections::VecDeque;

/// How many settled ones are remembered, to ignore repeats of the agent and to name the winning answer. The
/// fold has all of them.
const REMEMBERED: usize = 256;

struct Open<Id> {
    id: Id,
    key: Key,
    turn: Option<TurnId>,
    item: Option<ItemId>,
}

struct Settled<Id, Outcome> {
    id: Id,
    key: Key,
    outcome: Outcome,
}

struct Queue<Id, Outcome> {
    open: Vec<Open<Id>>,
    settled: VecDeque<Settled<Id, Outcome>>,
}

/// The approvals and questions of a session.
#[derive(Default)]
pub(crate) struct Waits {
    approvals: Queue<ApprovalId, ApprovalOutcome>,
    questions: Queue<QuestionId, QuestionOutcome>,
}

/// The reason why an approval or question cannot be settled.
pub(crate) enum NotOpen<Outcome> {
    /// It was settled before.
    Settled(Outcome),
    /// There is none with that id, or it was settled too long ago.
    Unknown,
}

impl<Id: PartialEq, Outcome: Copy> Queue<Id, Outcome> {
    fn knows(&self, key: &Key) -> bool {
        self.open.iter().any(|open| open.key == *key) || self.settled.iter().any(|old| old.key == *key)
    }

    fn remove_open(&mut self, id: &Id) -> Result<Open<Id>, NotOpen<Outcome>> {
        if let Some(index) = self.open.iter().position(|open| open.id == *id) {
            return Ok(self.open.remove(index));
        }
        let settled = self.settled.iter().find(|old| old.id == *id);
        Err(settled.map_or(NotOpen::Unknown, |old| NotOpen::Settled(old.outcome)))
    }

    fn remove_open_by_key(&mut self, key: &Key) -> Option<Open<Id>> {
        let index = self.open.iter().position(|open| open.key == *key)?;
        Some(self.open.remove(index))
    }

    /// The open ones of a turn, or of background work for `None`.
    fn take_of(&mut self, turn: Option<&TurnId>) -> Vec<Open<Id>> {
        let (of, rest) = self.open.drain(..).partition(|open| open.turn.as_ref() == turn);
        self.open = rest;
        of
    }

    fn remember(&mut self, id: Id, key: Key, outcome: Outcome) {
        if self.settled.len() == REMEMBERED {
            self.settled.pop_front();
        }
        self.settled.push_back(Settled { id, key, outcome });
    }
}

impl<Id, Outcome> Default for Queue<Id, Outcome> {
    fn default() -> Self {
        Self { open: Vec::new(), settled: VecDeque::new() }
    }
}

/// The turn and item of an approval or question.
pub(crate) struct WaitPlace {
    pub(crate) turn: Option<TurnId>,
    pub(crate) item: Option<ItemId>,
}

impl Waits {
    pub(crate) fn any_open(&self) -> bool {
        !self.approvals.open.is_empty() || !self.questions.open.is_empty()
    }

    /// True while one of that turn is open.
    pub(crate) fn open_in(&self, turn: &TurnId) -> bool {
        self.approvals.open.iter().any(|open| open.turn.as_ref() == Some(turn))
            || self.questions.open.iter().any(|open| open.turn.as_ref() == Some(turn))
    }

    /// The agent's id of an open approval.
    pub(crate) fn ask_key(&self, id: &ApprovalId) -> Option<&Key> {
        self.approvals.open.iter().find(|open| open.id == *id).map(|open| &open.key)
    }

    /// The agent's id of an open question.
    pub(crate) fn question_key(&self, id: &QuestionId) -> Option<&Key> {
        self.questions.open.iter().find(|open| open.id == *id).map(|open| &open.key)
    }

    pub(crate) fn ask_turn(&self, id: &ApprovalId) -> Option<&TurnId> {
        self.approvals.open.iter().find(|open| open.id == *id)?.turn.as_ref()
    }

    pub(crate) fn question_turn(&self, id: &QuestionId) -> Option<&TurnId> {
        self.questions.open.iter().find(|open| open.id == *id)?.turn.as_ref()
    }

    pub(crate) fn knows_ask(&self, key: &Key) -> bool {
        self.approvals.knows(key)
    }

    pub(crate) fn knows_question(&self, key: &Key) -> bool {
        self.questions.knows(key)
    }

    pub(crate) fn ask(
        &mut self,
        id: ApprovalId,
        key: Key,
        place: WaitPlace,
        tool: Option<Tool>,
        options: Vec<ApprovalOption>,
        out: &mut Vec<Draft>,
    ) {
        let body = Body::ApprovalRequested {
            approval: id.clone(),
            tool: tool.map(Box::new),
            options,
            native_id: Some(key.as_str().to_owned()),
        };
        out.push(Draft { turn: place.turn.clone(), item: place.item.clone(), ..Draft::new(body) });
        self.approvals.open.push(Open { id, key, turn: place.turn, item: place.item });
    }

    pub(crate) fn question(
        &mut self,
        id: QuestionId,
        key: Key,
        place: WaitPlace,
        questions: Vec<Question>,
        out: &mut Vec<Draft>,
    ) {
        let native_id = Some(key.as_str().to_owned());
        let body = Body::QuestionAsked { question: id.clone(), questions, native_id };
        out.push(Draft { turn: place.turn.clone(), item: place.item.clone(), ..Draft::new(body) });
        self.questions.open.push(Open { id, key, turn: place.turn, item: place.item });
    }

    /// Returns the turn it belonged to.
    pub(crate) fn resolve(
        &mut self,
        id: &ApprovalId,
        resolution: Resolution,
        out: &mut Vec<Draft>,
    ) -> Result<Option<TurnId>, NotOpen<ApprovalOutcome>> {
        let open = self.approvals.remove_open(id)?;
        Ok(self.settle_ask(open, resolution, out))
    }

    pub(crate) fn resolve_by_key(
        &mut self,
        key: &Key,
        outcome: ApprovalOutcome,
        out: &mut Vec<Draft>,
    ) -> Option<TurnId> {
        let open = self.approvals.remove_open_by_key(key)?;
        self.settle_ask(open, Resolution::new(outcome, By::Agent), out)
    }

    /// Returns the turn it belonged to.
    pub(crate) fn answer(
        &mut self,
        id: &QuestionId,
        outcome: QuestionOutcome,
        answers: Option<Map<String, Value>>,
        key: Option<String>,
        out: &mut Vec<Draft>,
    ) -> Result<Option<TurnId>, NotOpen<QuestionOutcome>> {
        let open = self.questions.remove_open(id)?;
        Ok(self.settle_question(open, outcome, answers, key, out))
    }

    pub(crate) fn answer_by_key(
        &mut self,
        key: &Key,
        outcome: QuestionOutcome,
        answers: Option<Map<String, Value>>,
        out: &mut Vec<Draft>,
    ) -> Option<TurnId> {
        let open = self.questions.remove_open_by_key(key)?;
        self.settle_question(open, outcome, answers, None, out)
    }

    /// Settles everything open of a turn or of background work, because no answer will be used.
    pub(crate) fn close_all(&mut self, turn: Option<&TurnId>, lost: bool, out: &mut Vec<Draft>) {
        let (ask, question) = if lost {
            (ApprovalOutcome::Lost, QuestionOutcome::Lost)
        } else {
            (ApprovalOutcome::Cancelled, QuestionOutcome::Cancelled)
        };
        for open in self.approvals.take_of(turn) {
            self.settle_ask(open, Resolution::new(ask, By::Gateway), out);
        }
        for open in self.questions.take_of(turn) {
            self.settle_question(open, question, None, None, out);
        }
    }

    /// Adds one that the last owner left open.
    pub(crate) fn resume_ask(&mut self, id: ApprovalId, key: Key, place: WaitPlace) {
        self.approvals.open.push(Open { id, key, turn: place.turn, item: place.item });
    }

    /// Adds one that the last owner left open.
    pub(crate) fn resume_question(&mut self, id: QuestionId, key: Key, place: WaitPlace) {
        self.questions.open.push(Open { id, key, turn: place.turn, item: place.item });
    }

    /// Remembers one that was settled under the last owner.
    pub(crate) fn resume_settled_ask(&mut self, id: ApprovalId, key: Key, outcome: ApprovalOutcome) {
        self.approvals.remember(id, key, outcome);
    }

    /// Remembers one that was settled under the last owner.
    pub(crate) fn resume_settled_question(&mut self, id: QuestionId, key: Key, outcome: QuestionOutcome) {
        self.questions.remember(id, key, outcome);
    }

    fn settle_ask(
        &mut self,
        open: Open<ApprovalId>,
        resolution: Resolution,
        out: &mut Vec<Draft>,
    ) -> Option<TurnId> {
        let Open { id, key, turn, item } = open;
        let outcome = resolution.outcome;
        let body = Body::ApprovalResolved { approval: id.clone(), resolution: Box::new(resolution) };
        out.push(Draft { turn: turn.clone(), item, ..Draft::new(body) });
        self.approvals.remember(id, key, outcome);
        turn
    }

    fn settle_question(
        &mut self,
        open: Open<QuestionId>,
        outcome: QuestionOutcome,
        answers: Option<Map<String, Value>>,
        client_key: Option<String>,
        out: &mut Vec<Draft>,
    ) -> Option<TurnId> {
        let Open { id, key, turn, item } = open;
        let body = Body::QuestionAnswered { question: id.clone(), outcome, answers, key: client_key };
        out.push(Draft { turn: turn.clone(), item, ..Draft::new(body) });
        self.questions.remember(id, key, outcome);
        turn
    }
}
