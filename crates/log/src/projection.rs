//! The fold of one session, what changed since it was last stored, and when to store it again.
//!
//! Pure: events in, rows out. One function, [`Piece::of_item`], makes the rows of partial and of final items.

use crate::search::{Entry, Subject};
use crate::stored_fold::{DamagedFold, StoredFold, decode_line};
use crate::weight;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Effect, Event, Subject as About};
use turnstream_model::fold::{Applied, Fold, Item, State};
use turnstream_model::id::{ApprovalId, ItemId, PromptId, QuestionId, TurnId};

/// Changed items and waiting prompts up to this total size are written whenever the debounce allows. Larger
/// ones wait for new events of half their size, so that the bytes written stay linear in the bytes received.
const SMALL_BYTES: usize = 4 * 1024;

/// The kind of a row. The number is stored in the database.
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
    /// Only items are written while they still change. All other rows are final when written.
    pub(crate) streaming: bool,
    pub(crate) body: String,
}

/// One write of a stored fold.
pub(crate) struct FoldWrite {
    /// The state without its lists. If `None`, only rows of new items are written, ahead of the fold. Readers
    /// of the fold rebuild those items from the events.
    pub(crate) head: Option<String>,
    pub(crate) seq: Seq,
    pub(crate) epoch: u64,
    pub(crate) pieces: Vec<Piece>,
    /// Items that were superseded or removed.
    pub(crate) gone: Vec<ItemId>,
    /// Changes of the search index. They are written with their events and not with the fold, so they may be
    /// ahead of it.
    pub(crate) index_changes: IndexChanges,
}

/// Changes of the search index for one session.
#[derive(Default)]
pub(crate) struct IndexChanges {
    /// The session's agent.
    pub(crate) agent: String,
    pub(crate) entries: Vec<Entry>,
    /// Things that must not be found any more, or never could be.
    pub(crate) gone: Vec<Subject>,
}

impl IndexChanges {
    fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.gone.is_empty()
    }
}

/// The fold of one live session, and which parts are not stored yet.
pub(crate) struct Projection {
    fold: Fold,
    items: BTreeSet<ItemId>,
    turns: BTreeSet<TurnId>,
    approvals: BTreeSet<ApprovalId>,
    questions: BTreeSet<QuestionId>,
    prompts: BTreeSet<PromptId>,
    gone: BTreeSet<ItemId>,
    /// New items without a row, and removed items that may have one. Their rows are written together with
    /// their events.
    early_started: BTreeSet<ItemId>,
    early_removed: BTreeSet<ItemId>,
    /// Items and prompts whose index entry may have changed, with the first event that changed each.
    unindexed: BTreeMap<Subject, Seq>,
    /// The fold lacks the first events, so nothing can be said about the whole session.
    is_partial: bool,
    /// Nothing of the session is stored yet. Its first events are stored together with their fold: a second
    /// write for each of many new sessions takes minutes.
    is_new: bool,
    /// Bytes of events since the last write.
    grown: usize,
    turn_ended: bool,
    epoch: u64,
    written: Instant,
    touched: Instant,
}

impl Projection {
    /// Loads a stored fold. The events after it count as not stored: their rows must be written too.
    pub(crate) fn load(stored: StoredFold, epoch: u64, now: Instant) -> Result<Self, DamagedFold> {
        let mut projection = Self::new(stored.state()?, now);
        projection.is_new = stored.head.is_none();
        for line in stored.lines_after(projection.fold.state().seq) {
            let event = decode_line(projection.fold.state().seq.next(), line)?;
            if let Applied::Gap { expected } = projection.apply(&event, line.len(), epoch, now) {
                return Err(DamagedFold::Missing(expected));
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
        projection.unindexed = subjects.map(|subject| (subject, state.seq)).collect();
        projection
    }

    /// A fold that begins in the middle of a session. It knows only items that start later, which is enough
    /// for [`Projection::early_rows`].
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
            early_started: BTreeSet::new(),
            early_removed: BTreeSet::new(),
            unindexed: BTreeMap::new(),
            is_partial: false,
            is_new: false,
            grown: 0,
            turn_ended: false,
            epoch: 0,
            written: now,
            touched: now,
        }
    }

    /// Applies the next event. An event with another seq than the next changes nothing.
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
                self.early_started.insert(id.clone());
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
            Effect::Begins => self.reindex(Subject::Prompt(id.clone())),
            Effect::Ends => {
                self.turns.extend(turn.cloned());
                self.prompts.insert(id.clone());
                self.reindex(Subject::Prompt(id.clone()));
            }
            Effect::Changes | Effect::Cancels => {}
        }
    }

    fn changed(&mut self, id: &ItemId) {
        self.items.insert(id.clone());
        if self.fold.item(id).is_some_and(|item| !item.is_open()) {
            self.reindex(Subject::Item(id.clone()));
        }
    }

    fn reindex(&mut self, subject: Subject) {
        self.unindexed.entry(subject).or_insert(self.fold.state().seq);
    }

    fn remove(&mut self, items: &[ItemId]) {
        for item in items {
            self.items.remove(item);
            self.reindex(Subject::Item(item.clone()));
            self.early_started.remove(item);
            self.gone.insert(item.clone());
            self.early_removed.insert(item.clone());
        }
    }

    /// The write that is due now, if any. It stays due until [`Projection::written`] is called.
    pub(crate) fn due(&self, now: Instant, debounce: Duration) -> Option<FoldWrite> {
        if self.is_due(now, debounce) { Some(self.full_write()) } else { self.early_rows() }
    }

    /// Rows of items that started or were removed, to be written with their events.
    pub(crate) fn early_rows(&self) -> Option<FoldWrite> {
        let state = self.fold.state();
        // In the order in which they started: rows keep this order.
        let early_started =
            newest(&state.items, self.early_started.len(), |item| self.early_started.contains(&item.id));
        let pieces: Vec<Piece> = early_started.into_iter().map(Piece::of_item).collect();
        let gone: Vec<ItemId> = self.early_removed.iter().cloned().collect();
        let index_changes = self.collect_index_changes();
        let is_some = !pieces.is_empty() || !gone.is_empty() || !index_changes.is_empty();
        is_some.then_some(FoldWrite {
            head: None,
            seq: state.seq,
            epoch: self.epoch,
            pieces,
            gone,
            index_changes,
        })
    }

    /// The changes of the index. Incomplete items have no entry (L7, L10).
    fn collect_index_changes(&self) -> IndexChanges {
        // This runs several times a second for every session, and mostly there are no changes.
        if self.unindexed.is_empty() {
            return IndexChanges::default();
        }
        let state = self.fold.state();
        let mut index_changes =
            IndexChanges { agent: state.session.agent.clone(), ..IndexChanges::default() };
        if self.is_partial {
            // A partial fold knows too little of other items. They are indexed when the whole fold is loaded.
            index_changes.gone = self.early_removed.iter().cloned().map(Subject::Item).collect();
            return index_changes;
        }
        // In the order in which they were finished, which is the order of search results.
        let mut unindexed: Vec<(&Subject, &Seq)> = self.unindexed.iter().collect();
        unindexed.sort_by_key(|(_, seq)| **seq);
        for (subject, _) in unindexed {
            let entry = match subject {
                Subject::Item(id) => self.fold.item(id).and_then(Entry::of_item),
                Subject::Prompt(id) => {
                    let mut newest_first = state.queue.iter().rev().chain(state.prompts.iter().rev());
                    newest_first.find(|prompt| prompt.prompt == *id).and_then(Entry::of_prompt)
                }
            };
            match entry {
                Some(entry) => index_changes.entries.push(entry),
                None => index_changes.gone.push(subject.clone()),
            }
        }
        index_changes
    }

    /// Whether a full write is due: at the end of a turn, or after the debounce if enough has changed.
    fn is_due(&self, now: Instant, debounce: Duration) -> bool {
        if self.grown == 0 {
            return false;
        }
        let items: usize = self.items.iter().filter_map(|id| self.fold.item(id)).map(weight::item).sum();
        // The whole queue is in the head of a fold. Without this, 40 prompts of 9 MiB took 2.2 GB on disk.
        let queue = self.fold.state().queue.iter().map(|prompt| weight::list(&prompt.content));
        let cost = items + queue.sum::<usize>();
        let is_small = cost <= SMALL_BYTES;
        let worth_it = is_small || self.grown >= cost / 2;
        let is_time = now.duration_since(self.written) >= debounce || (self.is_new && is_small);
        self.turn_ended || (worth_it && is_time)
    }

    /// When the fold was last used.
    pub(crate) fn touched(&self) -> Instant {
        self.touched
    }

    /// True if everything is stored and the fold was not used for this long.
    pub(crate) fn is_idle(&self, now: Instant, after: Duration) -> bool {
        self.grown == 0 && now.duration_since(self.touched) >= after
    }

    /// A write of everything that changed.
    pub(crate) fn full_write(&self) -> FoldWrite {
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
        let index_changes = self.collect_index_changes();
        FoldWrite { head: Some(json(&head)), seq: state.seq, epoch: self.epoch, pieces, gone, index_changes }
    }

    /// Records that the write is durable.
    pub(crate) fn written(&mut self, flush: &FoldWrite, now: Instant) {
        self.early_started.clear();
        self.early_removed.clear();
        self.unindexed.clear();
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
        self.is_new = false;
        self.written = now;
    }
}

impl Piece {
    /// The row of an item, partial or final.
    fn of_item(item: &Item) -> Self {
        let streaming = item.is_open();
        Self { kind: PieceKind::Item, id: item.id.as_str().to_owned(), streaming, body: json(item) }
    }
}

/// The newest `count` matching members, oldest first. Changed members are near the end of these lists.
fn newest<T>(list: &[T], count: usize, wanted: impl Fn(&T) -> bool) -> Vec<&T> {
    let mut found: Vec<&T> = list.iter().rev().filter(|member| wanted(member)).take(count).collect();
    found.reverse();
    found
}

fn json(value: &impl serde::Serialize) -> String {
    // Model types have string keys and no values that JSON cannot represent.
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
