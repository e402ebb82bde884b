//! One commit's worth of events: sequence numbers given, JSON written once, grouped by session.

use crate::committed::Committed;
use crate::error::AppendError;
use crate::queue::{Append, Content};
use crate::session::Session;
use crate::store::Stale;
use bytes::Bytes;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Body, Draft, Effect, Event, NoticeCode, Subject};
use turnstream_model::id::TurnId;
use turnstream_model::time::Time;

/// Where the events of a group come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Its session happens now.
    Session,
    /// Its session happened elsewhere: nothing of this log may come between them.
    Import,
}

/// The new events of one session.
pub(crate) struct Group {
    pub(crate) session: Arc<Session>,
    pub(crate) epoch: u64,
    pub(crate) source: Source,
    /// When the first of them was to be appended.
    pub(crate) since: Instant,
    pub(crate) first: Seq,
    /// One line of JSON per event.
    pub(crate) data: Bytes,
    pub(crate) events: Vec<Committed>,
    /// The same events, for the stored fold.
    pub(crate) parsed: Vec<Event>,
    /// Turns that start and end here, in order.
    pub(crate) turns: Vec<TurnChange>,
    /// Given back with the group, so that memory stays bounded.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

impl Group {
    /// The store's readers find these events from now on.
    pub(crate) fn settled(&self) {
        if let Some(last) = self.events.last() {
            self.session.settle(last.seq());
        }
    }
}

/// A turn that starts or ends.
#[derive(Clone)]
pub(crate) enum TurnChange {
    Started(TurnId),
    Ended(TurnId),
}

impl TurnChange {
    /// What an event does to the turns that are open.
    pub(crate) fn of(draft: &Draft) -> Option<Self> {
        let Some((Subject::Turn(turn), effect)) = draft.about() else { return None };
        match effect {
            Effect::Begins => Some(Self::Started(turn.clone())),
            Effect::Ends => Some(Self::Ended(turn.clone())),
            Effect::Changes | Effect::Cancels => None,
        }
    }
}

/// Who waits to hear of it, and what they hear on success.
pub(crate) struct Reply {
    pub(crate) done: oneshot::Sender<Result<Seq, AppendError>>,
    pub(crate) last: Seq,
    /// Whose events they are.
    owner: Owner,
}

/// A session and the epoch under which it is written.
type Owner = (i64, u64);

/// What goes into one commit.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) groups: Vec<Group>,
    pub(crate) replies: Vec<Reply>,
}

/// A session whose events had to wait for the disk.
pub(crate) struct Waited {
    pub(crate) session: Arc<Session>,
    /// The owner that waited.
    pub(crate) epoch: u64,
    /// The time of its last event.
    pub(crate) time: Time,
    pub(crate) wait: Duration,
    /// What the disk said.
    pub(crate) problem: Arc<str>,
}

/// Whether adjacent text deltas of one item become one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Every delta stays an event of its own.
    Nothing,
    /// Those that wait for the same commit become one.
    AdjacentDeltas,
}

/// The events of one session while a batch is put together.
struct Growing {
    session: Arc<Session>,
    epoch: u64,
    source: Source,
    since: Instant,
    head: Seq,
    events: Vec<Event>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Batch {
    /// Numbers what was appended. Each owner of a session has a group of its own: which of them may write, the store says.
    pub(crate) fn of(appends: Vec<Append>, merge: Merge) -> Self {
        let mut batch = Self::default();
        let mut order: Vec<Growing> = Vec::with_capacity(appends.len());
        let mut by_owner: HashMap<Owner, usize> = HashMap::with_capacity(appends.len());
        for append in appends {
            let Append { session, epoch, since, content, weight: _, permit, done } = append;
            let owner = (session.key, epoch);
            let index = *by_owner.entry(owner).or_insert_with(|| {
                order.push(Growing::new(session, epoch, since));
                order.len() - 1
            });
            let growing = &mut order[index];
            growing.since = growing.since.min(since);
            match content {
                Content::Drafts(drafts, time) => {
                    for draft in drafts {
                        growing.push(draft, time, merge);
                    }
                }
                Content::Events(events) => {
                    growing.source = Source::Import;
                    growing.events.extend(events);
                }
            }
            batch.replies.push(Reply { done, last: growing.last(), owner });
            match &mut growing.permit {
                Some(held) => held.merge(permit),
                none => *none = Some(permit),
            }
        }
        for growing in order {
            batch.groups.extend(growing.finish());
        }
        batch
    }

    /// For each of these sessions: that its durability was weakened, and that it holds again.
    pub(crate) fn of_notices(all: &[Waited]) -> Self {
        let mut batch = Self::default();
        for Waited { session, epoch, time, wait, problem } in all {
            let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            let degraded = Body::Notice {
                code: NoticeCode::Degraded,
                message: format!(
                    "events waited {millis} ms for the disk, which could not keep them: {problem}"
                ),
                detail: Some(json!({"problem": &**problem, "waited_ms": millis})),
            };
            let message = "what is appended is durable again, and nothing was lost".to_owned();
            let healed = Body::Notice { code: NoticeCode::Healed, message, detail: None };
            let mut growing = Growing::new(session.clone(), *epoch, Instant::now());
            growing.push(Draft::new(degraded), *time, Merge::Nothing);
            growing.push(Draft::new(healed), *time, Merge::Nothing);
            batch.groups.extend(growing.finish());
        }
        batch
    }

    /// Takes out what the store left out, and tells its owners that they have been replaced.
    pub(crate) fn fence(&mut self, stale: &[Stale]) {
        if stale.is_empty() {
            return;
        }
        let mut fenced: HashMap<Owner, AppendError> = HashMap::new();
        for Stale { group, current } in stale {
            let Group { session, epoch, .. } = &self.groups[*group];
            let (id, ours) = (session.id.to_string(), *epoch);
            let error = match *current {
                Some(current) => AppendError::Fenced { session: id, ours, current },
                None => AppendError::Deleted(id),
            };
            fenced.insert((session.key, *epoch), error);
        }
        self.groups.retain(|group| !fenced.contains_key(&(group.session.key, group.epoch)));
        for reply in self.replies.extract_if(.., |reply| fenced.contains_key(&reply.owner)) {
            let error = fenced.get(&reply.owner).cloned().unwrap_or(AppendError::Closed);
            // Whoever appended may have gone away; then nobody needs to hear it.
            let _ = reply.done.send(Err(error));
        }
    }

    /// How many events it has.
    pub(crate) fn events(&self) -> usize {
        self.groups.iter().map(|group| group.events.len()).sum()
    }

    /// Nothing had to be written: what was asked for is already so.
    pub(crate) fn accept(self) {
        for reply in self.replies {
            let _ = reply.done.send(Ok(reply.last));
        }
    }

    pub(crate) fn refuse(self, error: &AppendError) {
        for reply in self.replies {
            let _ = reply.done.send(Err(error.clone()));
        }
    }
}

impl Growing {
    fn new(session: Arc<Session>, epoch: u64, since: Instant) -> Self {
        let head = session.head();
        Self { session, epoch, source: Source::Session, since, head, events: Vec::new(), permit: None }
    }

    /// The last event so far, which may be one that was there before.
    fn last(&self) -> Seq {
        Seq(self.head.0 + self.events.len() as u64)
    }

    fn push(&mut self, draft: Draft, time: Time, merge: Merge) {
        if merge == Merge::AdjacentDeltas
            && let Some(last) = self.events.last_mut()
            && joins(&last.draft, &draft)
            && let (Body::ItemDelta { text, .. }, Body::ItemDelta { text: more, .. }) =
                (&mut last.draft.body, &draft.body)
        {
            text.push_str(more);
            return;
        }
        let seq = self.last().next();
        self.events.push(draft.at(seq, time));
    }

    /// Writes the events as JSON, once; `None` when there are none.
    fn finish(self) -> Option<Group> {
        let Self { session, epoch, source, since, head, events: parsed, permit } = self;
        if parsed.is_empty() {
            return None;
        }
        let mut lines = Vec::with_capacity(parsed.len() * 320);
        for event in &parsed {
            event.write_json(&mut lines);
            lines.push(b'\n');
        }
        lines.pop();
        let data = Bytes::from(lines);
        let mut events = Vec::with_capacity(parsed.len());
        let mut start = 0;
        for event in &parsed {
            // A line of JSON has no line feed inside.
            let end = memchr::memchr(b'\n', &data[start..]).map_or(data.len(), |length| start + length);
            events.push(Committed::new(event.seq, event.draft.body.kind(), data.slice(start..end)));
            start = end + 1;
        }
        let turns = parsed.iter().filter_map(|event| TurnChange::of(&event.draft)).collect();
        Some(Group { session, epoch, source, since, first: head.next(), data, events, parsed, turns, permit })
    }
}

/// Two deltas that mean the same as one: same place, same text.
fn joins(one: &Draft, other: &Draft) -> bool {
    let (Body::ItemDelta { field, .. }, Body::ItemDelta { field: other_field, .. }) =
        (&one.body, &other.body)
    else {
        return false;
    };
    field == other_field
        && one.item == other.item
        && one.turn == other.turn
        && one.attempt == other.attempt
        && one.parent == other.parent
        && one.native.is_none()
        && other.native.is_none()
        && one.extra.is_empty()
        && other.extra.is_empty()
}
