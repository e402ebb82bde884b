//! The stored fold of one session: what changed since it was last written, and when it is worth writing again.
//!
//! Pure: events go in, rows come out. Partial and final content are built by the same function, [`Piece::of_item`].

use crate::sqlite::Stored;
use crate::weight;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Body, Event};
use turnstream_model::fold::{Fold, Item, ItemStage, State};
use turnstream_model::id::{ApprovalId, ItemId, PromptId, QuestionId, TurnId};

/// Dirty items up to this size are written whenever the debounce allows; larger ones only when events of half
/// their size have come, so that what is written stays linear in what was said.
const SMALL_BYTES: usize = 4 * 1024;

/// What a row is about. The number is its place in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PieceKind {
    Turn = 1,
    Item = 2,
    Approval = 3,
    Question = 4,
    Prompt = 5,
}

/// One row of a stored fold.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) kind: PieceKind,
    pub(crate) id: String,
    /// Only an item can still change a little at a time; everything else is written as it is.
    pub(crate) streaming: bool,
    pub(crate) body: String,
}

/// What one write of a stored fold consists of.
pub(crate) struct Flush {
    /// The state without its lists.
    pub(crate) head: String,
    pub(crate) seq: Seq,
    pub(crate) epoch: u64,
    pub(crate) pieces: Vec<Piece>,
    /// Items that were superseded or removed.
    pub(crate) gone: Vec<ItemId>,
}

/// The fold of one live session, and what of it is not stored yet.
pub(crate) struct Projection {
    fold: Fold,
    items: BTreeSet<ItemId>,
    turns: BTreeSet<TurnId>,
    approvals: BTreeSet<ApprovalId>,
    questions: BTreeSet<QuestionId>,
    prompts: BTreeSet<PromptId>,
    gone: BTreeSet<ItemId>,
    /// Bytes of events since the last write.
    grown: usize,
    turn_ended: bool,
    epoch: u64,
    written: Instant,
    touched: Instant,
}

impl Projection {
    /// What is stored, with the events after it as not stored yet: their rows have to be written too.
    pub(crate) fn load(stored: Stored, epoch: u64, now: Instant) -> Result<Self, String> {
        let damaged =
            |error: &dyn std::fmt::Display| format!("what is stored of a session is damaged: {error}");
        let state = match &stored.head {
            Some(head) => assemble(head, &stored.pieces).map_err(|error| damaged(&error))?,
            None => State::default(),
        };
        let mut projection = Self::new(state, now);
        for line in stored.tail.iter().flat_map(|(_, data)| data.lines()) {
            let event = Event::from_json(line).map_err(|error| damaged(&error))?;
            if event.seq > projection.fold.state().seq {
                projection.apply(&event, line.len(), epoch, now);
            }
        }
        Ok(projection)
    }

    fn new(state: State, now: Instant) -> Self {
        Self {
            fold: Fold::from(state),
            items: BTreeSet::new(),
            turns: BTreeSet::new(),
            approvals: BTreeSet::new(),
            questions: BTreeSet::new(),
            prompts: BTreeSet::new(),
            gone: BTreeSet::new(),
            grown: 0,
            turn_ended: false,
            epoch: 0,
            written: now,
            touched: now,
        }
    }

    /// Takes in a settled event.
    pub(crate) fn apply(&mut self, event: &Event, bytes: usize, epoch: u64, now: Instant) {
        self.fold.apply(event);
        self.grown += bytes;
        self.epoch = epoch;
        self.touched = now;
        let draft = &event.draft;
        match &draft.body {
            Body::ItemStarted { .. }
            | Body::ItemDelta { .. }
            | Body::ItemReplaced { .. }
            | Body::ItemUpdated { .. }
            | Body::ItemEnded { .. }
            | Body::ItemRevised { .. } => self.items.extend(draft.item.clone()),
            Body::ItemRemoved => self.gone.extend(draft.item.clone()),
            Body::AttemptSuperseded { items, .. } => {
                self.turns.extend(draft.turn.clone());
                self.gone.extend(items.iter().cloned());
            }
            Body::TurnStarted { .. } | Body::AttemptStarted { .. } | Body::AttemptEnded { .. } => {
                self.turns.extend(draft.turn.clone());
            }
            Body::TurnEnded { .. } => {
                self.turns.extend(draft.turn.clone());
                self.turn_ended = true;
            }
            Body::PromptTaken { prompt } | Body::PromptWithdrawn { prompt } => {
                self.turns.extend(draft.turn.clone());
                self.prompts.insert(prompt.clone());
            }
            Body::ApprovalRequested { approval, .. } | Body::ApprovalResolved { approval, .. } => {
                self.approvals.insert(approval.clone());
            }
            Body::QuestionAsked { question, .. } | Body::QuestionAnswered { question, .. } => {
                self.questions.insert(question.clone());
            }
            Body::SessionCreated { .. }
            | Body::SessionUpdated(_)
            | Body::SessionStatus(_)
            | Body::SessionEnded { .. }
            | Body::PromptAccepted { .. }
            | Body::PromptSent { .. }
            | Body::Notice { .. }
            | Body::Unknown { .. } => {}
        }
        self.items.retain(|item| !self.gone.contains(item));
    }

    /// True when it is time to write: at the end of a turn, or after the debounce when it is worth it.
    pub(crate) fn is_due(&self, now: Instant, debounce: Duration) -> bool {
        if self.grown == 0 {
            return false;
        }
        let cost: usize = self.items.iter().filter_map(|id| self.fold.item(id)).map(weight_of).sum();
        let worth_it = cost <= SMALL_BYTES || self.grown >= cost / 2;
        self.turn_ended || (worth_it && now.duration_since(self.written) >= debounce)
    }

    /// True when it is stored and has not been used for so long.
    pub(crate) fn is_idle(&self, now: Instant, after: Duration) -> bool {
        self.grown == 0 && now.duration_since(self.touched) >= after
    }

    /// What has to be written now. What was not written is due again: call [`Projection::written`] only on success.
    pub(crate) fn flush(&self) -> Flush {
        let state = self.fold.state();
        let mut pieces = Vec::new();
        for item in newest(&state.items, self.items.len(), |item| self.items.contains(&item.id)) {
            pieces.push(Piece::of_item(item));
        }
        let named = |kind, id: &str, body: String| Piece { kind, id: id.to_owned(), streaming: false, body };
        for turn in newest(&state.turns, self.turns.len(), |turn| self.turns.contains(&turn.turn)) {
            pieces.push(named(PieceKind::Turn, turn.turn.as_str(), json(turn)));
        }
        for ask in
            newest(&state.approvals, self.approvals.len(), |ask| self.approvals.contains(&ask.approval))
        {
            pieces.push(named(PieceKind::Approval, ask.approval.as_str(), json(ask)));
        }
        for asked in
            newest(&state.questions, self.questions.len(), |asked| self.questions.contains(&asked.question))
        {
            pieces.push(named(PieceKind::Question, asked.question.as_str(), json(asked)));
        }
        for prompt in
            newest(&state.prompts, self.prompts.len(), |prompt| self.prompts.contains(&prompt.prompt))
        {
            pieces.push(named(PieceKind::Prompt, prompt.prompt.as_str(), json(prompt)));
        }
        let head = State {
            seq: state.seq,
            session: state.session.clone(),
            queue: state.queue.clone(),
            degraded: state.degraded,
            counters: state.counters,
            ..State::default()
        };
        let gone = self.gone.iter().cloned().collect();
        Flush { head: json(&head), seq: state.seq, epoch: self.epoch, pieces, gone }
    }

    /// The last flush is durable.
    pub(crate) fn written(&mut self, now: Instant) {
        self.items.clear();
        self.turns.clear();
        self.approvals.clear();
        self.questions.clear();
        self.prompts.clear();
        self.gone.clear();
        self.grown = 0;
        self.turn_ended = false;
        self.written = now;
    }
}

impl Piece {
    /// The row of an item, however far it has come.
    fn of_item(item: &Item) -> Self {
        let streaming = item.state == ItemStage::Streaming;
        Self { kind: PieceKind::Item, id: item.id.as_str().to_owned(), streaming, body: json(item) }
    }
}

/// Assembles a state from its head and its rows, which come in the order in which they were first written.
pub(crate) fn assemble(
    head: &str,
    pieces: &BTreeMap<PieceKind, Vec<String>>,
) -> Result<State, serde_json::Error> {
    fn list<T: serde::de::DeserializeOwned>(
        pieces: &BTreeMap<PieceKind, Vec<String>>,
        kind: PieceKind,
    ) -> Result<Vec<T>, serde_json::Error> {
        let bodies = pieces.get(&kind).map(Vec::as_slice).unwrap_or_default();
        bodies.iter().map(|body| serde_json::from_str(body)).collect()
    }
    let head: State = serde_json::from_str(head)?;
    Ok(State {
        turns: list(pieces, PieceKind::Turn)?,
        items: list(pieces, PieceKind::Item)?,
        approvals: list(pieces, PieceKind::Approval)?,
        questions: list(pieces, PieceKind::Question)?,
        prompts: list(pieces, PieceKind::Prompt)?,
        ..head
    })
}

/// The newest `count` members that are wanted, oldest first. What changed is near the end of these lists.
fn newest<T>(list: &[T], count: usize, wanted: impl Fn(&T) -> bool) -> Vec<&T> {
    let mut found: Vec<&T> = list.iter().rev().filter(|member| wanted(member)).take(count).collect();
    found.reverse();
    found
}

fn weight_of(item: &Item) -> usize {
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    256 + length(&item.text) + length(&item.input) + length(&item.output) + weight::tool(item.tool.as_deref())
}

fn json(value: &impl serde::Serialize) -> String {
    // Types of the model with string keys: there is nothing in them that JSON refuses.
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnstream_model::event::{Draft, Field, ItemKind};
    use turnstream_model::time::Time;

    #[test]
    fn what_is_written_stays_linear_in_what_was_said() {
        let mut now = Instant::now();
        let mut projection = Projection::new(State::default(), now);
        let of_item = |body| Draft { item: Some(ItemId::from("i1")), ..Draft::new(body) };
        let (kind, role, synthetic, text, tool, native_id) =
            (ItemKind::Message, None, false, Some(String::new()), None, None);
        let started = of_item(Body::ItemStarted { kind, role, synthetic, text, tool, native_id });
        projection.apply(&started.at(Seq(1), Time(1)), 100, 1, now);
        let (mut said, mut written) = (0, 0);
        for seq in 2..20_000 {
            let delta = of_item(Body::ItemDelta { field: Field::Text, text: "x".repeat(100) });
            projection.apply(&delta.at(Seq(seq), Time(1)), 200, 1, now);
            said += 100;
            // The debounce is over after every ten deltas.
            now += Duration::from_millis(100);
            if projection.is_due(now, Duration::from_secs(1)) {
                written += projection.flush().pieces.iter().map(|piece| piece.body.len()).sum::<usize>();
                projection.written(now);
            }
        }
        assert!(written < 8 * said, "{written} bytes were written for {said}");
        assert!(written > said, "it was written while it streamed");
    }
}
