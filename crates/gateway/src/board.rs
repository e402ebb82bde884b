//! What every session is doing, for whoever watches all of them. It shows states, not events: a watcher that is slow sees
//! the latest of each session, never a wrong one and never none.

use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use turnstream_model::fold::{Activity, Session};
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// A session as the board shows it. Everything in it is durable.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// Its id.
    pub id: SessionId,
    /// What it is and does.
    pub session: Session,
}

/// Deleted sessions that a slow watcher may still hear of.
const DELETED_KEPT: usize = 1_024;
/// Why a session that was deleted has ended.
pub(crate) const DELETED: &str = "deleted";

/// Where a session stands: what it does, or that it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It can be used.
    Does(Activity),
    /// For good.
    Ended,
}

impl Stage {
    /// Every one, in the order of the wire's documentation.
    pub fn all() -> impl Iterator<Item = Self> {
        Activity::ALL.iter().map(|activity| Self::Does(*activity)).chain([Self::Ended])
    }

    pub(crate) fn of(session: &Session) -> Self {
        match session.ended {
            Some(_) => Self::Ended,
            None => Self::Does(session.status),
        }
    }

    /// One word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Does(activity) => activity.as_str(),
            Self::Ended => "ended",
        }
    }

    /// True when a turn is open there. Of one that recovers it is not known yet.
    pub fn has_turn(self) -> bool {
        match self {
            Self::Does(Activity::Busy | Activity::Waiting | Activity::Retrying) => true,
            Self::Does(Activity::Idle | Activity::Recovering) | Self::Ended => false,
        }
    }
}

#[derive(Default)]
struct Shown {
    /// Each with the change that made it so.
    sessions: BTreeMap<SessionId, (u64, Session)>,
    /// The last ones that were deleted, each with the change that was: a watcher that is slow shall hear of it.
    deleted: VecDeque<(u64, SessionId)>,
    /// When something last happened in a session, where that is known. No watcher is told of it.
    active: BTreeMap<SessionId, Time>,
    changes: u64,
}

/// The states of all sessions.
pub struct Board {
    shown: Mutex<Shown>,
    changed: watch::Sender<u64>,
}

impl Board {
    pub(crate) fn new() -> Self {
        Self { shown: Mutex::default(), changed: watch::Sender::new(0) }
    }

    /// Shows what a session is now.
    pub(crate) fn show(&self, id: &SessionId, session: Session) {
        let mut shown = self.lock();
        shown.changes += 1;
        let change = shown.changes;
        shown.sessions.insert(id.clone(), (change, session));
        // Under the lock, so that the number never goes back.
        self.changed.send_replace(change);
    }

    /// A session is not there any more. Watchers see it once more, ended.
    pub(crate) fn remove(&self, id: &SessionId) {
        let mut shown = self.lock();
        if shown.sessions.remove(id).is_none() {
            return;
        }
        shown.active.remove(id);
        shown.changes += 1;
        let change = shown.changes;
        shown.deleted.push_back((change, id.clone()));
        if shown.deleted.len() > DELETED_KEPT {
            shown.deleted.pop_front();
        }
        self.changed.send_replace(change);
    }

    /// Something happened in a session.
    pub(crate) fn touch(&self, id: &SessionId, time: Time) {
        let mut shown = self.lock();
        if shown.sessions.contains_key(id) {
            let active = shown.active.entry(id.clone()).or_insert(time);
            *active = time.max(*active);
        }
    }

    /// The sessions that fit: when each was made, and when something last happened in it, where that is
    /// known.
    pub(crate) fn matching(
        &self,
        fits: impl Fn(&Session) -> bool,
    ) -> Vec<(SessionId, Option<Time>, Option<Time>)> {
        let shown = self.lock();
        let fitting = shown.sessions.iter().filter(|(_, (_, session))| fits(session));
        let found = |(id, (_, session)): (&SessionId, &(u64, Session))| {
            (id.clone(), session.created, shown.active.get(id).copied())
        };
        fitting.map(found).collect()
    }

    /// One session.
    pub fn get(&self, id: &SessionId) -> Option<Session> {
        self.lock().sessions.get(id).map(|(_, session)| session.clone())
    }

    /// How many sessions do this.
    pub(crate) fn count(&self, activity: Activity) -> usize {
        self.lock().sessions.values().filter(|(_, session)| session.status == activity).count()
    }

    /// How many sessions of each agent are at which stage.
    pub(crate) fn stages(&self) -> BTreeMap<String, BTreeMap<Stage, u64>> {
        let mut stages: BTreeMap<String, BTreeMap<Stage, u64>> = BTreeMap::new();
        for (_, session) in self.lock().sessions.values() {
            if !stages.contains_key(&session.agent) {
                stages.insert(session.agent.clone(), BTreeMap::new());
            }
            if let Some(stages) = stages.get_mut(&session.agent) {
                *stages.entry(Stage::of(session)).or_default() += 1;
            }
        }
        stages
    }

    /// All sessions, by id.
    pub fn all(&self) -> Vec<Entry> {
        let shown = self.lock();
        let entry = |(id, (_, session)): (&SessionId, &(u64, Session))| Entry {
            id: id.clone(),
            session: session.clone(),
        };
        shown.sessions.iter().map(entry).collect()
    }

    /// The sessions that changed after this change, oldest change first, and the last change there is.
    fn since(&self, change: u64) -> (Vec<Entry>, u64) {
        let shown = self.lock();
        let mut changed: Vec<(u64, Entry)> = shown
            .sessions
            .iter()
            .filter(|(_, (at, _))| *at > change)
            .map(|(id, (at, session))| (*at, Entry { id: id.clone(), session: session.clone() }))
            .collect();
        // Who begins has not seen them, and one that was made again is there.
        let deleted = shown
            .deleted
            .iter()
            .filter(|(at, id)| change > 0 && *at > change && !shown.sessions.contains_key(id));
        changed.extend(deleted.map(|(at, id)| {
            let session = Session { ended: Some(DELETED.to_owned()), ..Session::default() };
            (*at, Entry { id: id.clone(), session })
        }));
        changed.sort_by_key(|(at, _)| *at);
        (changed.into_iter().map(|(_, entry)| entry).collect(), shown.changes)
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        // An insert into a map: a panic cannot leave it half done.
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the changes of a board.
pub struct BoardReader {
    board: Arc<Board>,
    changed: watch::Receiver<u64>,
    seen: u64,
    started: bool,
}

impl BoardReader {
    pub(crate) fn new(board: Arc<Board>) -> Self {
        let changed = board.changed.subscribe();
        Self { board, changed, seen: 0, started: false }
    }

    /// First every session there is, which may be none; then, each time, those that changed since.
    pub async fn next(&mut self) -> Vec<Entry> {
        if std::mem::replace(&mut self.started, true) {
            let seen = self.seen;
            // The sender lives in the board that this reader holds: waiting cannot fail.
            let _ = self.changed.wait_for(|change| *change > seen).await;
        }
        let (entries, seen) = self.board.since(self.seen);
        self.seen = seen;
        entries
    }
}
