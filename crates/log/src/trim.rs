//! Trimming a session: which of its oldest turns are removed, and what remains of them.
//!
//! A log is cut only at the end of a turn, and never after the start of something that is still open at the
//! head. The decision is made here, so that it is the same for every store; the store makes it durable.

use crate::committed::Committed;
use crate::error::{ReadError, RemoveError, StoreFault};
use crate::log::{Inner, Log};
use crate::remove::remove_error;
use crate::session::Session;
use crate::snapshot::decode;
use crate::store::{Cut, Size};
use std::sync::Arc;
use tracing::{info, warn};
use turnstream_model::Chain;
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Event, Known};
use turnstream_model::fold::{Fold, Gone, OpenIds, State};
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// Approximate bytes per trim step of the store; at least one turn.
const STEP_BYTES: u64 = 1 << 20;
/// Bytes per read of the store.
const READ_BYTES: usize = 128 * 1024;

/// What to keep of a session. A limit that is `None` removes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Remove turns that ended before this time.
    pub since: Option<Time>,
    /// Remove the oldest turns until the events have at most this many bytes.
    pub bytes: Option<u64>,
    /// Remove the oldest turns until at most this many remain.
    pub turns: Option<u64>,
}

/// What was trimmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// Removed turns.
    pub turns: u64,
    /// Removed events.
    pub events: u64,
    /// Bytes of the removed events.
    pub bytes: u64,
}

/// What is kept of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The first event that is kept; head + 1 if none is.
    pub oldest: Seq,
    /// The last event.
    pub head: Seq,
    /// Bytes of its events as JSON. Events of the last second may be missing.
    pub bytes: u64,
    /// The number of turns.
    pub turns: u64,
}

/// How far a session is above its limits.
struct Excess {
    since: Option<Time>,
    bytes: u64,
    turns: u64,
}

/// One step of a trim.
struct Plan {
    cut: Cut,
    trimmed: Trimmed,
}

impl Log {
    /// What is kept of a session.
    pub fn kept(&self, id: &SessionId) -> Result<Kept, ReadError> {
        let session = self.find(id)?;
        let Size { bytes, turns } = self.inner().store.size(session.key)?;
        Ok(Kept { oldest: session.oldest(), head: session.head(), bytes, turns })
    }

    /// Removes the oldest turns of a session that exceed `keep`, with everything in them. An open turn, a
    /// waiting prompt and an open approval or question are never removed, and neither is anything after their
    /// start.
    ///
    /// Readers no longer find the removed turns when this returns; [`Log::erased`] waits until their bytes
    /// are gone.
    pub async fn trim(&self, id: &SessionId, keep: &Keep) -> Result<Trimmed, RemoveError> {
        let session = self.find(id).map_err(remove_error)?;
        let mut all = Trimmed::default();
        loop {
            let (log, of, keep) = (self.clone(), session.clone(), *keep);
            let planned = tokio::task::spawn_blocking(move || log.inner().plan(&of, &keep));
            let planned = planned.await.map_err(|error| RemoveError::Store(StoreFault::new(error)))?;
            let Some(Plan { cut, trimmed }) = planned.map_err(remove_error)? else { break };
            if !self.inner().store.trim(session.clone(), cut).await? {
                // Another trim was faster, or the events are not flushed yet. The next retention round
                // continues.
                break;
            }
            let Trimmed { turns, events, bytes } = trimmed;
            self.inner().removed.trimmed(turns, events, bytes);
            all = Trimmed { turns: all.turns + turns, events: all.events + events, bytes: all.bytes + bytes };
        }
        if all.turns > 0 {
            let Trimmed { turns, events, bytes } = all;
            info!(session = %id, turns, events, bytes, "session trimmed");
        }
        Ok(all)
    }
}

impl Log {
    /// The state of the session before its oldest kept event. Empty if every event is kept.
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
            // The usual case: the oldest turn is not old enough.
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

    /// Whether to remove a turn that ended at this time, given what is removed before it.
    fn wants(&self, ended: Time, turns_before: u64, bytes_before: u64) -> bool {
        self.since.is_some_and(|since| ended < since)
            || turns_before < self.turns
            || bytes_before < self.bytes
    }
}

/// Whether this base can be parsed again. Parsers limit the depth of JSON, and a value that arrived in an
/// event is nested deeper here: in the state, and in the header of an export.
fn can_be_read_back(base: &State) -> bool {
    let header = serde_json::to_string(&[base]);
    header.is_ok_and(|header| serde_json::from_str::<[State; 1]>(&header).is_ok())
}

/// The time at which a turn ended with this event, if one did.
fn end_of_turn(event: &Committed) -> Option<Time> {
    if !event.kind().is(Known::TurnEnded) {
        return None;
    }
    match decode(event) {
        Ok(event) => Some(event.time),
        Err(error) => {
            warn!(seq = %event.seq(), error = %Chain(&error), "the end of a turn cannot be read");
            None
        }
    }
}

/// A walk from the oldest event to the cut of this step.
struct Walk {
    fold: Fold,
    after: Seq,
    /// What is open at the head, and the head itself. Later events are not considered.
    open: OpenIds,
    head: Seq,
    seen: Trimmed,
    gone: Gone,
    /// What would be removed in addition if the cut moves to the current event.
    since_cut: Gone,
    /// The cut so far: the base that remains there, and the counts of what is removed.
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
        let event: Event = decode(committed)?;
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
            // Whatever is open here is open at every later end, and whatever may stay here may stay there.
            self.is_over = true;
        }
        Ok(())
    }

    fn finish(self) -> Option<Plan> {
        let Self { after, gone, cut, .. } = self;
        cut.map(|(base, trimmed)| Plan { cut: Cut { after, base, gone }, trimmed })
    }

    /// Moves the cut after this event. If the base is nested too deep to be parsed again, the cut waits for a
    /// later end.
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
