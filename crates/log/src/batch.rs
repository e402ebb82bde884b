//! The events of one commit: numbered, encoded as JSON once, and grouped by session.

use crate::committed::Committed;
use crate::diagnostics::answer;
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
use tracing::debug;
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Body, Draft, Effect, Event, NoticeCode, Subject};
use turnstream_model::id::TurnId;
use turnstream_model::time::Time;

/// Where the events of a group come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A live session.
    Session,
    /// An import. No event of this log, such as a notice, may be inserted between imported events.
    Import,
}

/// The new events of one session.
pub(crate) struct Group {
    pub(crate) session: Arc<Session>,
    pub(crate) epoch: u64,
    pub(crate) source: Source,
    /// When the oldest of these appends was requested.
    pub(crate) since: Instant,
    pub(crate) first: Seq,
    /// One line of JSON per event.
    pub(crate) data: Bytes,
    pub(crate) events: Vec<Committed>,
    /// The same events, decoded, for the stored fold.
    pub(crate) parsed: Vec<Event>,
    /// Turns that start or end in this group, in order.
    pub(crate) turns: Vec<TurnChange>,
    /// The group's share of the byte budget, released when the group is dropped.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

impl Group {
    /// Records that readers of the store can find these events now.
    pub(crate) fn mark_flushed(&self) {
        if let Some(last) = self.events.last() {
            self.session.mark_flushed(last.seq());
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
    /// The change that an event makes to the open turns.
    pub(crate) fn of(draft: &Draft) -> Option<Self> {
        let Some((Subject::Turn(turn), effect)) = draft.about() else { return None };
        match effect {
            Effect::Begins => Some(Self::Started(turn.clone())),
            Effect::Ends => Some(Self::Ended(turn.clone())),
            Effect::Changes | Effect::Cancels => None,
        }
    }
}

/// The caller of one append, and the seq it is told on success.
pub(crate) struct Reply {
    pub(crate) done: oneshot::Sender<Result<Seq, AppendError>>,
    pub(crate) last: Seq,
    /// The session and epoch of the events.
    owner: Owner,
}

/// Session key and owner epoch.
type Owner = (i64, u64);

/// The content of one commit.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) groups: Vec<Group>,
    pub(crate) replies: Vec<Reply>,
}

/// A session whose events were delayed by a failing disk.
pub(crate) struct DelayedSession {
    pub(crate) session: Arc<Session>,
    /// The owner epoch that was delayed.
    pub(crate) epoch: u64,
    /// The time of the session's last event.
    pub(crate) time: Time,
    pub(crate) wait: Duration,
    /// The error of the disk.
    pub(crate) problem: Arc<str>,
}

/// Whether adjacent text deltas of one item become one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Every delta stays a separate event.
    Nothing,
    /// Adjacent deltas that wait for the same commit are merged.
    AdjacentDeltas,
}

/// The events of one session while the batch is built.
struct GroupBuilder {
    session: Arc<Session>,
    epoch: u64,
    source: Source,
    since: Instant,
    head: Seq,
    events: Vec<Event>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Batch {
    /// Numbers the appended events. Each owner epoch of a session gets its own group; the store decides which
    /// of them may write.
    pub(crate) fn of(appends: Vec<Append>, merge: Merge) -> Self {
        let mut batch = Self::default();
        let mut order: Vec<GroupBuilder> = Vec::with_capacity(appends.len());
        let mut by_owner: HashMap<Owner, usize> = HashMap::with_capacity(appends.len());
        for append in appends {
            let Append { session, epoch, since, content, weight: _, permit, done } = append;
            let owner = (session.key, epoch);
            let index = *by_owner.entry(owner).or_insert_with(|| {
                order.push(GroupBuilder::new(session, epoch, since));
                order.len() - 1
            });
            let builder = &mut order[index];
            builder.since = builder.since.min(since);
            match content {
                Content::Drafts(drafts, time) => {
                    for draft in drafts {
                        builder.push(draft, time, merge);
                    }
                }
                Content::Events(events) => {
                    builder.source = Source::Import;
                    builder.events.extend(events);
                }
            }
            batch.replies.push(Reply { done, last: builder.last(), owner });
            match &mut builder.permit {
                Some(held) => held.merge(permit),
                none => *none = Some(permit),
            }
        }
        for builder in order {
            batch.groups.extend(builder.finish());
        }
        batch
    }

    /// Two notices for each of these sessions: that durability was degraded, and that it is restored.
    pub(crate) fn of_notices(all: &[DelayedSession]) -> Self {
        let mut batch = Self::default();
        for DelayedSession { session, epoch, time, wait, problem } in all {
            let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            let degraded = Body::Notice {
                code: NoticeCode::Degraded,
                message: format!("events waited {millis} ms because the disk failed: {problem}"),
                detail: Some(json!({"problem": &**problem, "waited_ms": millis})),
            };
            let message = "events are durable again; nothing was lost".to_owned();
            let healed = Body::Notice { code: NoticeCode::Healed, message, detail: None };
            let mut builder = GroupBuilder::new(session.clone(), *epoch, Instant::now());
            builder.push(Draft::new(degraded), *time, Merge::Nothing);
            builder.push(Draft::new(healed), *time, Merge::Nothing);
            batch.groups.extend(builder.finish());
        }
        batch
    }

    /// Removes the groups that the store refused, and answers their owners with the reason.
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
            debug!(session = %session.id, epoch, error = %error, "append refused");
            fenced.insert((session.key, *epoch), error);
        }
        self.groups.retain(|group| !fenced.contains_key(&(group.session.key, group.epoch)));
        for reply in self.replies.extract_if(.., |reply| fenced.contains_key(&reply.owner)) {
            let error = fenced.get(&reply.owner).cloned().unwrap_or(AppendError::Closed);
            answer(reply.done, Err(error));
        }
    }

    /// The number of events.
    pub(crate) fn events(&self) -> usize {
        self.groups.iter().map(|group| group.events.len()).sum()
    }

    /// Answers every caller of a batch that has nothing to write.
    pub(crate) fn accept(self) {
        for reply in self.replies {
            answer(reply.done, Ok(reply.last));
        }
    }

    pub(crate) fn refuse(self, error: &AppendError) {
        for reply in self.replies {
            answer(reply.done, Err(error.clone()));
        }
    }
}

impl GroupBuilder {
    fn new(session: Arc<Session>, epoch: u64, since: Instant) -> Self {
        let head = session.head();
        Self { session, epoch, source: Source::Session, since, head, events: Vec::new(), permit: None }
    }

    /// The seq of the last event so far, which may have been committed earlier.
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

    /// Encodes the events as JSON, once. `None` if there are no events.
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
            // A JSON line contains no line feed.
            let end = memchr::memchr(b'\n', &data[start..]).map_or(data.len(), |length| start + length);
            events.push(Committed::new(event.seq, event.draft.body.kind(), data.slice(start..end)));
            start = end + 1;
        }
        let turns = parsed.iter().filter_map(|event| TurnChange::of(&event.draft)).collect();
        Some(Group { session, epoch, source, since, first: head.next(), data, events, parsed, turns, permit })
    }
}

/// Whether two deltas can be merged into one: same item, field, turn and attempt, and nothing else attached.
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
