//! The current state of every session, for lists and for clients that watch all sessions. Watchers get
//! states, not events: a slow watcher gets the latest state of each session that changed.

use crate::event_counts::OTHER_AGENTS;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
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
    /// The sessions by the number of their last change.
    by_change: BTreeMap<u64, SessionId>,
    /// The sessions that are not idle.
    at_work: BTreeSet<SessionId>,
    /// The last deleted sessions, each with the number of that change, for slow watchers.
    deleted: VecDeque<(u64, SessionId)>,
    /// The last activity of sessions, where it is known. It is not sent to watchers.
    active: BTreeMap<SessionId, Time>,
    /// The same, the latest first.
    by_activity: BTreeSet<Place>,
    /// Sessions whose last activity is not known.
    unread: BTreeSet<SessionId>,
    /// Sessions that are being created or imported. A session may be shown before it leaves this list.
    coming: Vec<SessionId>,
    changes: u64,
}

/// A session's place in a list by activity: `Reverse` puts the latest first.
pub(crate) type Place = (Reverse<Time>, SessionId);

/// The sessions of a list: from this place on, up to this time.
pub(crate) struct Stretch<'a> {
    /// The place before the first one.
    pub(crate) after: Option<&'a Place>,
    /// The earliest activity.
    pub(crate) from: Option<Time>,
    /// The activity is before this time.
    pub(crate) to: Option<Time>,
    /// The largest number of sessions.
    pub(crate) limit: usize,
}

impl Shown {
    fn known_activity(&self, id: &SessionId) -> Time {
        self.active.get(id).copied().unwrap_or(Time(0))
    }
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
        match session.status {
            Activity::Idle => shown.at_work.remove(id),
            Activity::Busy | Activity::Waiting | Activity::Retrying | Activity::Recovering => {
                shown.at_work.insert(id.clone())
            }
        };
        match shown.sessions.insert(id.clone(), (change, session)) {
            Some((before, _)) => drop(shown.by_change.remove(&before)),
            None => drop(shown.unread.insert(id.clone())),
        }
        shown.by_change.insert(change, id.clone());
        // Under the lock, so that the number never decreases.
        self.changed.send_replace(change);
    }

    /// Removes a deleted session. Watchers get it once more, as ended.
    pub(crate) fn remove(&self, id: &SessionId) {
        let mut shown = self.lock();
        let Some((before, _)) = shown.sessions.remove(id) else { return };
        shown.by_change.remove(&before);
        shown.at_work.remove(id);
        shown.unread.remove(id);
        if let Some(active) = shown.active.remove(id) {
            shown.by_activity.remove(&(Reverse(active), id.clone()));
        }
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
        let known = shown.active.get(id).copied();
        if !shown.sessions.contains_key(id) || known.is_some_and(|known| known >= time) {
            return;
        }
        if let Some(known) = shown.active.insert(id.clone(), time) {
            shown.by_activity.remove(&(Reverse(known), id.clone()));
        }
        shown.by_activity.insert((Reverse(time), id.clone()));
        shown.unread.remove(id);
    }

    /// The last activity of a session, where it is known.
    pub(crate) fn activity(&self, id: &SessionId) -> Option<Time> {
        self.lock().active.get(id).copied()
    }

    /// The sessions whose last activity is not known, each with its creation.
    pub(crate) fn unread(&self) -> Vec<(SessionId, Option<Time>)> {
        let shown = self.lock();
        let created = |id: &SessionId| shown.sessions.get(id).and_then(|(_, session)| session.created);
        shown.unread.iter().map(|id| (id.clone(), created(id))).collect()
    }

    /// The sessions of a stretch that fit, by activity. It costs as many looks as it takes to find them.
    pub(crate) fn by_activity(&self, stretch: &Stretch<'_>, fits: impl Fn(&Session) -> bool) -> Vec<Place> {
        let shown = self.lock();
        let latest = stretch.to.map(|to| (Reverse(Time(to.0.saturating_sub(1))), SessionId::from("")));
        let start = match (stretch.after, &latest) {
            (Some(after), Some(latest)) if latest > after => Bound::Included(latest),
            (Some(after), _) => Bound::Excluded(after),
            (None, Some(latest)) => Bound::Included(latest),
            (None, None) => Bound::Unbounded,
        };
        let reaches = |active: Time| stretch.from.is_none_or(|from| active >= from);
        let places = shown.by_activity.range::<Place, _>((start, Bound::Unbounded));
        let places = places.take_while(|(Reverse(active), _)| reaches(*active));
        let is_before = |active: Time| stretch.to.is_none_or(|to| active < to);
        let fitting = places.filter(|(Reverse(active), id)| {
            is_before(*active) && shown.sessions.get(id).is_some_and(|(_, session)| fits(session))
        });
        fitting.take(stretch.limit).cloned().collect()
    }

    /// The sessions of a stretch that fit, by id.
    pub(crate) fn by_id(&self, stretch: &Stretch<'_>, fits: impl Fn(&Session) -> bool) -> Vec<Place> {
        let shown = self.lock();
        let start = stretch.after.map_or(Bound::Unbounded, |(_, id)| Bound::Excluded(id));
        let sessions = shown.sessions.range::<SessionId, _>((start, Bound::Unbounded));
        let fitting = sessions.filter(|(_, (_, session))| fits(session));
        let places = fitting.map(|(id, _)| (Reverse(shown.known_activity(id)), id.clone()));
        let is_there = |(Reverse(active), _): &Place| {
            stretch.from.is_none_or(|from| *active >= from) && stretch.to.is_none_or(|to| *active < to)
        };
        places.filter(is_there).take(stretch.limit).collect()
    }

    /// The sessions that are not idle, by id.
    pub(crate) fn at_work(&self) -> Vec<SessionEntry> {
        let shown = self.lock();
        let entry = |id: &SessionId| {
            let (_, session) = shown.sessions.get(id)?;
            Some(SessionEntry { id: id.clone(), session: session.clone() })
        };
        shown.at_work.iter().filter_map(entry).collect()
    }

    /// Looks at every session.
    pub(crate) fn for_each(&self, mut look: impl FnMut(&SessionId, &Session)) {
        self.lock().sessions.iter().for_each(|(id, (_, session))| look(id, session));
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
        let changes = shown.by_change.range((Bound::Excluded(change), Bound::Unbounded));
        let entry = |(at, id): (&u64, &SessionId)| {
            let (_, session) = shown.sessions.get(id)?;
            Some((*at, SessionEntry { id: id.clone(), session: session.clone() }))
        };
        let mut changed: Vec<(u64, SessionEntry)> = changes.filter_map(entry).collect();
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
        self.changed()
    }

    /// The same, without a wait for a change.
    pub fn changed(&mut self) -> Vec<SessionEntry> {
        self.started = true;
        let (entries, seen) = self.states.since(self.seen);
        self.seen = seen;
        entries
    }
}
