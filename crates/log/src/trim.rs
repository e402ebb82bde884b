//! Trimming a session: which of its oldest turns go, and what is left of what they said.
//!
//! A log is cut behind the end of a turn and nowhere else, and never behind something that is still open at its head. What
//! the store is given is decided here, so that it is the same for every store: it only has to make it durable.

use crate::committed::Committed;
use crate::error::{ReadError, RemoveError};
use crate::log::{Inner, Log};
use crate::remove::remove_error;
use crate::session::Session;
use crate::store::{Cut, Size};
use std::sync::Arc;
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Event, Known};
use turnstream_model::fold::{Fold, Gone, OpenIds, State};
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// About how much is trimmed in one step of the store, but at least one turn.
const STEP_BYTES: u64 = 1 << 20;
/// How much is read at a time.
const READ_BYTES: usize = 128 * 1024;

/// What is to be kept of a session. What nothing is said of is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Turns that ended before this time go.
    pub since: Option<Time>,
    /// The oldest turns go until its events are no more than so many bytes.
    pub bytes: Option<u64>,
    /// The oldest turns go until there are no more than so many.
    pub turns: Option<u64>,
}

/// What was trimmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// How many turns.
    pub turns: u64,
    /// How many events.
    pub events: u64,
    /// Of how many bytes.
    pub bytes: u64,
}

/// How much is kept of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The first event that is kept; one after the head when none is.
    pub oldest: Seq,
    /// The last event.
    pub head: Seq,
    /// Bytes of its events, as JSON. Those of the last second may not be counted yet.
    pub bytes: u64,
    /// How many turns.
    pub turns: u64,
}

/// How much too much there is.
struct Excess {
    since: Option<Time>,
    bytes: u64,
    turns: u64,
}

/// What one step of a trim does.
struct Plan {
    cut: Cut,
    trimmed: Trimmed,
}

impl Log {
    /// How much is kept of a session.
    pub fn kept(&self, id: &SessionId) -> Result<Kept, ReadError> {
        let session = self.find(id)?;
        let Size { bytes, turns } = self.inner().store.size(session.key)?;
        Ok(Kept { oldest: session.oldest(), head: session.head(), bytes, turns })
    }

    /// Removes the oldest turns of a session as far as they are not to be kept, with all that they said. An open turn, a
    /// prompt that waits and an approval or question that is open are never touched, nor is what came after they began. What
    /// is gone is gone for readers when this returns; [`Log::erased`] tells when its bytes are.
    pub async fn trim(&self, id: &SessionId, keep: &Keep) -> Result<Trimmed, RemoveError> {
        let session = self.find(id).map_err(|error| remove_error(&error))?;
        let mut all = Trimmed::default();
        loop {
            let (log, of, keep) = (self.clone(), session.clone(), *keep);
            let planned = tokio::task::spawn_blocking(move || log.inner().plan(&of, &keep));
            let planned = planned.await.map_err(|error| RemoveError::Store(error.to_string()))?;
            let Some(Plan { cut, trimmed }) = planned.map_err(|error| remove_error(&error))? else { break };
            if !self.inner().store.trim(session.clone(), cut).await? {
                // Somebody else trims it, or it is not settled so far: the next round sees what is left.
                break;
            }
            let Trimmed { turns, events, bytes } = trimmed;
            self.inner().removed.trimmed(turns, events, bytes);
            all = Trimmed { turns: all.turns + turns, events: all.events + events, bytes: all.bytes + bytes };
        }
        Ok(all)
    }
}

impl Log {
    /// The session as it was before its oldest kept event; the empty state when every event is kept.
    pub fn base(&self, id: &SessionId) -> Result<State, ReadError> {
        let session = self.find(id)?;
        self.inner().store.base(session.key)
    }
}

impl Inner {
    /// The next step, if there is anything to trim.
    fn plan(&self, session: &Arc<Session>, keep: &Keep) -> Result<Option<Plan>, ReadError> {
        let size = self.store.size(session.key)?;
        let excess = Excess {
            since: keep.since,
            bytes: keep.bytes.map_or(0, |most| size.bytes.saturating_sub(most)),
            turns: keep.turns.map_or(0, |most| size.turns.saturating_sub(most)),
        };
        if excess.is_nothing() {
            return Ok(None);
        }
        let base = self.store.base(session.key)?;
        let first = self.store.read(session.key, base.seq.next(), READ_BYTES)?;
        if excess.bytes == 0 && excess.turns == 0 && first.iter().find_map(end_of_turn) >= excess.since {
            // The usual case of a session that is looked at: its oldest turn is not old enough.
            return Ok(None);
        }
        let now = self.state(session)?;
        let mut walk = Walk::new(base, &now);
        let mut events = first;
        while !events.is_empty() && walk.goes_on() {
            for event in &events {
                walk.step(event, &excess)?;
            }
            events = self.store.read(session.key, walk.fold.state().seq.next(), READ_BYTES)?;
        }
        Ok(walk.finish())
    }
}

impl Excess {
    fn is_nothing(&self) -> bool {
        self.since.is_none() && self.bytes == 0 && self.turns == 0
    }

    /// Whether a turn has to go that ended at this time, when so much before it goes already.
    fn wants(&self, ended: Time, turns_before: u64, bytes_before: u64) -> bool {
        self.since.is_some_and(|since| ended < since)
            || turns_before < self.turns
            || bytes_before < self.bytes
    }
}

/// Whether this base can be read again. A parser bounds how deep JSON may be, and what came in as a line
/// is deeper here: among the things of a session, and in the header of a file.
fn can_be_read_back(base: &State) -> bool {
    let header = serde_json::to_string(&[base]);
    header.is_ok_and(|header| serde_json::from_str::<[State; 1]>(&header).is_ok())
}

/// When a turn ended with this event, if one did.
fn end_of_turn(event: &Committed) -> Option<Time> {
    if !event.kind().is(Known::TurnEnded) {
        return None;
    }
    event.event().ok().map(|event| event.time)
}

/// A walk from the oldest event to the last place at which this step cuts.
struct Walk {
    fold: Fold,
    after: Seq,
    /// What is open at the head, and where the head was then: nothing behind it is judged.
    open: OpenIds,
    head: Seq,
    seen: Trimmed,
    gone: Gone,
    /// What goes besides if the cut comes to be behind what was looked at last.
    since_cut: Gone,
    /// Where the cut is so far: what is left there, and what goes.
    cut: Option<(State, Trimmed)>,
    is_over: bool,
}

impl Walk {
    fn new(base: State, now: &State) -> Self {
        Self {
            after: base.seq,
            fold: Fold::from(base),
            open: now.open().ids(),
            head: now.seq,
            seen: Trimmed::default(),
            gone: Gone::default(),
            since_cut: Gone::default(),
            cut: None,
            is_over: false,
        }
    }

    fn goes_on(&self) -> bool {
        let enough = self.cut.as_ref().is_some_and(|(_, trimmed)| trimmed.bytes >= STEP_BYTES);
        !self.is_over && !enough
    }

    fn step(&mut self, committed: &Committed, excess: &Excess) -> Result<(), ReadError> {
        if !self.goes_on() {
            return Ok(());
        }
        let event: Event = committed
            .event()
            .map_err(|error| ReadError::Store(format!("event {} is damaged: {error}", committed.seq())))?;
        if event.seq > self.head {
            self.is_over = true;
            return Ok(());
        }
        self.fold.apply(&event);
        self.seen.events += 1;
        let is_end = committed.kind().is(Known::TurnEnded);
        let before = self.cut.as_ref().map_or(0, |(_, trimmed)| trimmed.bytes);
        self.seen.bytes += committed.json().len() as u64;
        if is_end
            && excess.wants(event.time, self.seen.turns, before)
            && self.fold.may_cut_after(&event, &self.open)
        {
            self.seen.turns += 1;
            self.cut_here(event.time);
        } else if is_end {
            // What is open now is open at every later end too, and what may stay here may stay there.
            self.is_over = true;
        }
        Ok(())
    }

    fn finish(self) -> Option<Plan> {
        let Self { after, gone, cut, .. } = self;
        cut.map(|(base, trimmed)| Plan { cut: Cut { after, base, gone }, trimmed })
    }

    /// The cut is behind this event, at the earliest. If what is open here is too deep for a base, it is behind a later one.
    fn cut_here(&mut self, time: Time) {
        let (base, gone) = std::mem::take(&mut self.fold).into_state().trimmed(time);
        self.fold = Fold::from(base.clone());
        let Gone { turns, items, approvals, questions, prompts } = gone;
        self.since_cut.turns.extend(turns);
        self.since_cut.items.extend(items);
        self.since_cut.approvals.extend(approvals);
        self.since_cut.questions.extend(questions);
        self.since_cut.prompts.extend(prompts);
        if can_be_read_back(&base) {
            let Gone { mut turns, mut items, mut approvals, mut questions, mut prompts } =
                std::mem::take(&mut self.since_cut);
            self.gone.turns.append(&mut turns);
            self.gone.items.append(&mut items);
            self.gone.approvals.append(&mut approvals);
            self.gone.questions.append(&mut questions);
            self.gone.prompts.append(&mut prompts);
            self.cut = Some((base, self.seen));
        }
    }
}
