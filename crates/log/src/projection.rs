//! The stored fold of one session: what changed since it was last written, and when it is worth writing again.
//!
//! Pure: events go in, rows come out. Partial and final content are built by the same function, [`Piece::of_item`].

use crate::search::{Entry, Subject};
use crate::stored::{Stored, damaged};
use crate::weight;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Effect, Event, Subject as About};
use turnstream_model::fold::{Applied, Fold, Item, State};
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
    /// The state without its lists. Without it, the rows are ahead of the fold: of items that began and had none, which
    /// readers of the fold make from the events until the fold is as far.
    pub(crate) head: Option<String>,
    pub(crate) seq: Seq,
    pub(crate) epoch: u64,
    pub(crate) pieces: Vec<Piece>,
    /// Items that were superseded or removed.
    pub(crate) gone: Vec<ItemId>,
    /// What can be found from now on. It belongs to the events it is written with and does not wait for the fold, so it
    /// may be ahead of it.
    pub(crate) found: Findable,
}

/// What changed of the entries of a session.
#[derive(Default)]
pub(crate) struct Findable {
    /// The session's agent.
    pub(crate) agent: String,
    pub(crate) entries: Vec<Entry>,
    /// What cannot be found any more, or never could.
    pub(crate) gone: Vec<Subject>,
}

impl Findable {
    fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.gone.is_empty()
    }
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
    /// Items that began and have no row, and items that went and may have one: they are written with their events.
    begun: BTreeSet<ItemId>,
    left: BTreeSet<ItemId>,
    /// Items and prompts whose entries have to be looked at again, and the first event for which.
    unfiled: BTreeMap<Subject, Seq>,
    /// The first events are not in it: nothing can be said of the session as a whole.
    is_partial: bool,
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
        let mut projection = Self::new(stored.state()?, now);
        for line in stored.lines_after(projection.fold.state().seq) {
            let event = Event::from_json(line).map_err(|error| damaged(&error))?;
            if let Applied::Gap { expected } = projection.apply(&event, line.len(), epoch, now) {
                return Err(damaged(&format!("event {expected} is missing")));
            }
        }
        Ok(projection)
    }

    /// A state of which nothing is stored yet.
    pub(crate) fn unstored(state: State, epoch: u64, now: Instant) -> Self {
        let mut projection = Self::new(state, now);
        projection.epoch = epoch;
        let state = projection.fold.state();
        projection.items = state.items.iter().map(|item| item.id.clone()).collect();
        projection.turns = state.turns.iter().map(|turn| turn.turn.clone()).collect();
        projection.approvals = state.approvals.iter().map(|ask| ask.approval.clone()).collect();
        projection.questions = state.questions.iter().map(|asked| asked.question.clone()).collect();
        projection.prompts = state.prompts.iter().map(|prompt| prompt.prompt.clone()).collect();
        let items = state.items.iter().map(|item| Subject::Item(item.id.clone()));
        let prompts = state.prompts.iter().chain(&state.queue);
        let subjects = items.chain(prompts.map(|prompt| Subject::Prompt(prompt.prompt.clone())));
        projection.unfiled = subjects.map(|subject| (subject, state.seq)).collect();
        projection
    }

    /// A fold that begins in the middle. It knows only what begins after that, which is enough for [`Projection::ahead`].
    pub(crate) fn after(seq: Seq, now: Instant) -> Self {
        let is_partial = seq > Seq(0);
        Self { is_partial, ..Self::new(State { seq, ..State::default() }, now) }
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
            begun: BTreeSet::new(),
            left: BTreeSet::new(),
            unfiled: BTreeMap::new(),
            is_partial: false,
            grown: 0,
            turn_ended: false,
            epoch: 0,
            written: now,
            touched: now,
        }
    }

    /// Takes in the next event. One that does not follow the last changes nothing.
    pub(crate) fn apply(&mut self, event: &Event, bytes: usize, epoch: u64, now: Instant) -> Applied {
        let applied = self.fold.apply(event);
        if applied != Applied::Yes {
            return applied;
        }
        self.grown += bytes;
        self.epoch = epoch;
        self.touched = now;
        let draft = &event.draft;
        let voided = draft.voided_items();
        let Some((subject, effect)) = draft.about() else { return Applied::Yes };
        match subject {
            About::Item(id) if effect == Effect::Begins => {
                self.items.insert(id.clone());
                self.begun.insert(id.clone());
            }
            About::Item(id) if voided.is_empty() => self.changed(id),
            About::Item(_) => {}
            About::Attempt(_) => self.turns.extend(draft.turn.clone()),
            About::Turn(id) => {
                self.turns.insert(id.clone());
                self.turn_ended |= effect == Effect::Ends;
            }
            About::Prompt(id) => self.prompt_changed(id, draft.turn.as_ref(), effect),
            About::Approval(id) => drop(self.approvals.insert(id.clone())),
            About::Question(id) => drop(self.questions.insert(id.clone())),
            About::Session | About::Notice => {}
        }
        self.remove(voided);
        Applied::Yes
    }

    /// A prompt has a row once it has its outcome. What it says can be found from its beginning on.
    fn prompt_changed(&mut self, id: &PromptId, turn: Option<&TurnId>, effect: Effect) {
        match effect {
            Effect::Begins => self.refile(Subject::Prompt(id.clone())),
            Effect::Ends => {
                self.turns.extend(turn.cloned());
                self.prompts.insert(id.clone());
                self.refile(Subject::Prompt(id.clone()));
            }
            Effect::Changes | Effect::Cancels => {}
        }
    }

    fn changed(&mut self, id: &ItemId) {
        self.items.insert(id.clone());
        if self.fold.item(id).is_some_and(|item| !item.is_open()) {
            self.refile(Subject::Item(id.clone()));
        }
    }

    fn refile(&mut self, subject: Subject) {
        self.unfiled.entry(subject).or_insert(self.fold.state().seq);
    }

    fn remove(&mut self, items: &[ItemId]) {
        for item in items {
            self.items.remove(item);
            self.refile(Subject::Item(item.clone()));
            self.begun.remove(item);
            self.gone.insert(item.clone());
            self.left.insert(item.clone());
        }
    }

    /// What is to be written now, if anything. What was not written is due again: call [`Projection::written`] only on
    /// success.
    pub(crate) fn due(&self, now: Instant, debounce: Duration) -> Option<Flush> {
        if self.is_due(now, debounce) { Some(self.flush()) } else { self.ahead() }
    }

    /// The rows that belong to the events of items that began and went.
    pub(crate) fn ahead(&self) -> Option<Flush> {
        let state = self.fold.state();
        // In the order in which they began, which is the order of the rows for good.
        let begun = newest(&state.items, self.begun.len(), |item| self.begun.contains(&item.id));
        let pieces: Vec<Piece> = begun.into_iter().map(Piece::of_item).collect();
        let gone: Vec<ItemId> = self.left.iter().cloned().collect();
        let found = self.findable();
        let is_some = !pieces.is_empty() || !gone.is_empty() || !found.is_empty();
        is_some.then_some(Flush { head: None, seq: state.seq, epoch: self.epoch, pieces, gone, found })
    }

    /// What changed of its entries. What is not whole has none (L7, L10).
    fn findable(&self) -> Findable {
        // Asked of every session several times a second, and mostly there is nothing.
        if self.unfiled.is_empty() {
            return Findable::default();
        }
        let state = self.fold.state();
        let mut found = Findable { agent: state.session.agent.clone(), ..Findable::default() };
        if self.is_partial {
            // Of anything else too little is known here: whoever loads the whole fold files it.
            found.gone = self.left.iter().cloned().map(Subject::Item).collect();
            return found;
        }
        // In the order in which they were finished, which is their order in results.
        let mut unfiled: Vec<(&Subject, &Seq)> = self.unfiled.iter().collect();
        unfiled.sort_by_key(|(_, seq)| **seq);
        for (subject, _) in unfiled {
            let entry = match subject {
                Subject::Item(id) => self.fold.item(id).and_then(Entry::of_item),
                Subject::Prompt(id) => {
                    let mut newest_first = state.queue.iter().rev().chain(state.prompts.iter().rev());
                    newest_first.find(|prompt| prompt.prompt == *id).and_then(Entry::of_prompt)
                }
            };
            match entry {
                Some(entry) => found.entries.push(entry),
                None => found.gone.push(subject.clone()),
            }
        }
        found
    }

    /// True when it is time to write all that changed: at the end of a turn, or after the debounce when it is worth it.
    fn is_due(&self, now: Instant, debounce: Duration) -> bool {
        if self.grown == 0 {
            return false;
        }
        let cost: usize = self.items.iter().filter_map(|id| self.fold.item(id)).map(weight::item).sum();
        let worth_it = cost <= SMALL_BYTES || self.grown >= cost / 2;
        self.turn_ended || (worth_it && now.duration_since(self.written) >= debounce)
    }

    /// True when it is stored and has not been used for so long.
    pub(crate) fn is_idle(&self, now: Instant, after: Duration) -> bool {
        self.grown == 0 && now.duration_since(self.touched) >= after
    }

    /// All that changed.
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
            spent: state.spent.clone(),
            trimmed: state.trimmed,
            ..State::default()
        };
        let gone = self.gone.iter().cloned().collect();
        let found = self.findable();
        Flush { head: Some(json(&head)), seq: state.seq, epoch: self.epoch, pieces, gone, found }
    }

    /// That flush is durable.
    pub(crate) fn written(&mut self, flush: &Flush, now: Instant) {
        self.begun.clear();
        self.left.clear();
        self.unfiled.clear();
        if flush.head.is_none() {
            return;
        }
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
        let streaming = item.is_open();
        Self { kind: PieceKind::Item, id: item.id.as_str().to_owned(), streaming, body: json(item) }
    }
}

/// The newest `count` members that are wanted, oldest first. What changed is near the end of these lists.
fn newest<T>(list: &[T], count: usize, wanted: impl Fn(&T) -> bool) -> Vec<&T> {
    let mut found: Vec<&T> = list.iter().rev().filter(|member| wanted(member)).take(count).collect();
    found.reverse();
    found
}

fn json(value: &impl serde::Serialize) -> String {
    // Types of the model with string keys: there is nothing in them that JSON refuses.
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnstream_model::event::{Body, Draft, Field, ItemKind};
    use turnstream_model::time::Time;

    /// A projection that is fed and written as the settler does, once every 100 ms.
    struct Fed {
        projection: Projection,
        seq: u64,
        now: Instant,
        said: usize,
        written: usize,
    }

    impl Fed {
        fn new() -> Self {
            let now = Instant::now();
            Self { projection: Projection::new(State::default(), now), seq: 0, now, said: 0, written: 0 }
        }

        fn say(&mut self, item: &str, body: Body) {
            self.seq += 1;
            let event =
                Draft { item: Some(ItemId::from(item)), ..Draft::new(body) }.at(Seq(self.seq), Time(1));
            self.said += 200;
            assert_eq!(self.projection.apply(&event, 200, 1, self.now), Applied::Yes);
        }

        fn settle(&mut self) {
            self.now += Duration::from_millis(100);
            if let Some(flush) = self.projection.due(self.now, Duration::from_secs(1)) {
                self.written += flush.pieces.iter().map(|piece| piece.body.len()).sum::<usize>();
                self.projection.written(&flush, self.now);
            }
        }
    }

    fn started() -> Body {
        let (kind, role, synthetic, text, tool, native_id) =
            (ItemKind::Message, None, false, Some(String::new()), None, None);
        Body::ItemStarted { kind, role, synthetic, text, tool, native_id }
    }

    fn delta() -> Body {
        Body::ItemDelta { field: Field::Text, text: "x".repeat(100) }
    }

    #[test]
    fn what_is_written_stays_linear_in_what_was_said() {
        let mut fed = Fed::new();
        fed.say("i1", started());
        for _ in 0..20_000 {
            fed.say("i1", delta());
            fed.settle();
        }
        assert!(fed.written < 4 * fed.said, "{} bytes were written for {}", fed.written, fed.said);
        assert!(2 * fed.written > fed.said, "it was written while it streamed");
    }

    #[test]
    fn what_is_written_stays_linear_when_many_items_begin_beside_a_long_one() {
        let mut fed = Fed::new();
        fed.say("long", started());
        for number in 0..5_000 {
            fed.say("long", delta());
            fed.say(&format!("i{number}"), started());
            fed.settle();
        }
        assert!(fed.written < 8 * fed.said, "{} bytes were written for {}", fed.written, fed.said);
    }

    #[test]
    fn an_item_has_its_row_in_the_first_write_after_it_began_and_none_after_it_went() {
        let mut fed = Fed::new();
        fed.say("i1", started());
        let flush = fed.projection.due(fed.now, Duration::from_secs(3600)).expect("the row");
        assert_eq!((flush.pieces.len(), flush.head.is_none(), flush.pieces[0].streaming), (1, true, true));
        fed.projection.written(&flush, fed.now);
        assert!(fed.projection.due(fed.now, Duration::from_secs(3600)).is_none(), "once");
        fed.say("i1", Body::ItemRemoved);
        let flush = fed.projection.due(fed.now, Duration::from_secs(3600)).expect("its end");
        assert_eq!((flush.pieces.len(), flush.gone), (0, vec![ItemId::from("i1")]));
    }

    #[test]
    fn an_event_that_does_not_follow_is_not_taken_in() {
        let mut fed = Fed::new();
        let event = Draft::new(delta()).at(Seq(5), Time(1));
        let expected = Seq(1);
        assert_eq!(fed.projection.apply(&event, 1, 1, fed.now), Applied::Gap { expected });
        assert!(fed.projection.due(fed.now, Duration::ZERO).is_none());
    }
}
