//! The current state of every session, for lists and for clients that watch all sessions. Watchers get
//! states, not events: a slow watcher gets the latest state of each session that changed.

use crate::event_counts::OTHER_AGENTS;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use turnstream_model::fold::{Activity, Session};
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// A session with its id. Everything in it is durable.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionEntry {
    /// Its id.
    pub id: SessionId,
    /// Its members and its status.
    pub session: Session,
}

/// How many deleted sessions are remembered for slow watchers.
const DELETED_KEPT: usize = 1_024;
/// The reason in `session.ended` of a deleted session.
pub(crate) const DELETED: &str = "deleted";

/// The stage of a session: its activity, or that it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The session accepts prompts.
    Active(Activity),
    /// The session has ended.
    Ended,
}

impl Stage {
    /// Every stage, in the order of the wire's documentation.
    pub fn all() -> impl Iterator<Item = Self> {
        Activity::ALL.iter().map(|activity| Self::Active(*activity)).chain([Self::Ended])
    }

    pub(crate) fn of(session: &Session) -> Self {
        match session.ended {
            Some(_) => Self::Ended,
            None => Self::Active(session.status),
        }
    }

    /// Its name in requests and metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Active(activity) => activity.as_str(),
            Self::Ended => "ended",
        }
    }

    /// Whether a turn is open. During a recovery this is not known, and counts as no.
    pub fn has_turn(self) -> bool {
        match self {
            Self::Active(Activity::Busy | Activity::Waiting | Activity::Retrying) => true,
            Self::Active(Activity::Idle | Activity::Recovering) | Self::Ended => false,
        }
    }
}

#[derive(Default)]
struct Shown {
    /// Each with the number of its last change.
    sessions: BTreeMap<SessionId, (u64, Session)>,
    /// The last deleted sessions, each with the number of that change, for slow watchers.
    deleted: VecDeque<(u64, SessionId)>,
    /// The last activity of sessions, where it is known. It is not sent to watchers.
    active: BTreeMap<SessionId, Time>,
    /// Sessions that are being created or imported. A session may be shown before it leaves this list.
    coming: Vec<SessionId>,
    changes: u64,
}

/// The states of all sessions.
pub struct SessionStates {
    shown: Mutex<Shown>,
    changed: watch::Sender<u64>,
}

/// Room for a session that is being created or imported.
pub(crate) struct Room {
    states: Arc<SessionStates>,
    id: SessionId,
}

impl Room {
    /// `None` when there are as many sessions as there may be, with those that are coming.
    pub(crate) fn take(states: &Arc<SessionStates>, id: &SessionId, most: usize) -> Option<Self> {
        let mut shown = states.lock();
        let coming = shown.coming.iter().filter(|id| !shown.sessions.contains_key(*id)).count();
        if shown.sessions.len() + coming >= most {
            return None;
        }
        shown.coming.push(id.clone());
        Some(Self { states: states.clone(), id: id.clone() })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut shown = self.states.lock();
        if let Some(place) = shown.coming.iter().position(|id| *id == self.id) {
            shown.coming.swap_remove(place);
        }
    }
}

impl SessionStates {
    pub(crate) fn new() -> Self {
        Self { shown: Mutex::default(), changed: watch::Sender::new(0) }
    }

    /// Shows the new state of a session.
    pub(crate) fn show(&self, id: &SessionId, session: Session) {
        let mut shown = self.lock();
        shown.changes += 1;
        let change = shown.changes;
        shown.sessions.insert(id.clone(), (change, session));
        // Under the lock, so that the number never decreases.
        self.changed.send_replace(change);
    }

    /// Removes a deleted session. Watchers get it once more, as ended.
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

    /// Notes activity in a session.
    pub(crate) fn touch(&self, id: &SessionId, time: Time) {
        let mut shown = self.lock();
        if shown.sessions.contains_key(id) {
            let active = shown.active.entry(id.clone()).or_insert(time);
            *active = time.max(*active);
        }
    }

    /// The last activity of a session, where it is known.
    pub(crate) fn activity(&self, id: &SessionId) -> Option<Time> {
        self.lock().active.get(id).copied()
    }

    /// The sessions that fit, each with its creation and its last activity, where that is known.
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

    /// How many sessions have this status.
    pub(crate) fn count(&self, activity: Activity) -> usize {
        self.lock().sessions.values().filter(|(_, session)| session.status == activity).count()
    }

    /// How many sessions of each of these agents are at which stage. The others are counted together.
    pub(crate) fn stages<'a>(
        &self,
        agents: impl Iterator<Item = &'a String>,
    ) -> BTreeMap<String, BTreeMap<Stage, u64>> {
        let mut stages: BTreeMap<String, BTreeMap<Stage, u64>> =
            agents.map(|agent| (agent.clone(), BTreeMap::new())).collect();
        let mut others: BTreeMap<Stage, u64> = BTreeMap::new();
        for (_, session) in self.lock().sessions.values() {
            let of_agent = stages.get_mut(&session.agent).unwrap_or(&mut others);
            *of_agent.entry(Stage::of(session)).or_default() += 1;
        }
        if !others.is_empty() {
            let together = stages.entry(OTHER_AGENTS.to_owned()).or_default();
            others.into_iter().for_each(|(stage, count)| *together.entry(stage).or_default() += count);
        }
        stages
    }

    /// All sessions, by id.
    pub fn all(&self) -> Vec<SessionEntry> {
        let shown = self.lock();
        let entry = |(id, (_, session)): (&SessionId, &(u64, Session))| SessionEntry {
            id: id.clone(),
            session: session.clone(),
        };
        shown.sessions.iter().map(entry).collect()
    }

    /// The sessions that changed after this change, oldest change first, and the number of the last change.
    fn since(&self, change: u64) -> (Vec<SessionEntry>, u64) {
        let shown = self.lock();
        let mut changed: Vec<(u64, SessionEntry)> = shown
            .sessions
            .iter()
            .filter(|(_, (at, _))| *at > change)
            .map(|(id, (at, session))| (*at, SessionEntry { id: id.clone(), session: session.clone() }))
            .collect();
        // A new watcher has not seen deleted sessions, and a session that was created again is not deleted.
        let deleted = shown
            .deleted
            .iter()
            .filter(|(at, id)| change > 0 && *at > change && !shown.sessions.contains_key(id));
        changed.extend(deleted.map(|(at, id)| {
            let session = Session { ended: Some(DELETED.to_owned()), ..Session::default() };
            (*at, SessionEntry { id: id.clone(), session })
        }));
        changed.sort_by_key(|(at, _)| *at);
        (changed.into_iter().map(|(_, entry)| entry).collect(), shown.changes)
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        // The maps are valid also after a panic of their holder.
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows the states of all sessions.
pub struct SessionWatcher {
    states: Arc<SessionStates>,
    changed: watch::Receiver<u64>,
    seen: u64,
    started: bool,
}

impl SessionWatcher {
    pub(crate) fn new(states: Arc<SessionStates>) -> Self {
        let changed = states.changed.subscribe();
        Self { states, changed, seen: 0, started: false }
    }

    /// First every session, which may be none. After that, each call returns the sessions that changed
    /// since the one before.
    pub async fn next(&mut self) -> Vec<SessionEntry> {
        if std::mem::replace(&mut self.started, true) {
            let seen = self.seen;
            // Fails only without a sender, and the sender is in `states`.
            drop(self.changed.wait_for(|change| *change > seen).await);
        }
        let (entries, seen) = self.states.since(self.seen);
        self.seen = seen;
        entries
    }
}
