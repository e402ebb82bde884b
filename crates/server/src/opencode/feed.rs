//! Follows all sessions and encodes their events once, for all viewers. It runs while there are viewers.
//!
//! A session is followed from the moment it changes. Most sessions never do, and cost nothing but the place
//! of their last event.

use super::rewind::rewind;
use super::ring::{Entry, Progress, Ring};
use crate::closing::Closing;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use turnstream_dialects::opencode::{Idle, Names, Opencode, repeat_since, session_info};
use turnstream_dialects::{Dialect, FrameSink};
use turnstream_gateway::{Gateway, RequestError, SessionEntry, SessionInfo, SessionWatcher};
use turnstream_log::{Committed, Follow, Follower};
use turnstream_model::Chain;
use turnstream_model::cursor::{Cursor, CursorOutcome, Seq};
use turnstream_model::event::{Event, Known as KnownKind};
use turnstream_model::fold::{Activity, Session, State};
use turnstream_model::id::{SessionId, TurnId};
use turnstream_model::time::Time;

/// The pause before a session that cannot be followed is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// The feed of one server, while it has viewers.
pub(crate) struct Feeds {
    gateway: Gateway,
    closing: Closing,
    running: Mutex<Weak<Feed>>,
}

/// The events of all sessions.
pub(super) struct Feed {
    pub(super) ring: Arc<Ring>,
    /// True once every session that was active at the start is followed.
    ready: watch::Receiver<bool>,
    task: AbortHandle,
}

/// What is known of a session.
#[derive(Clone)]
struct Known {
    /// Its last event that is in the ring, or that it had when the feed began.
    head: Seq,
    created: Time,
    directory: Arc<str>,
}

/// A session that is followed.
struct Followed {
    id: SessionId,
    directory: Arc<str>,
    encoder: Opencode,
    follower: Follower,
}

/// The next step of one session.
enum Step {
    /// It is followed from here on. The entries are what happened since its last known event.
    Begun(Box<Followed>, Vec<Entry>),
    /// News of it.
    News(Box<Followed>, Follow),
    /// It cannot be followed.
    Failed(SessionId, RequestError),
}

type Steps = FuturesUnordered<BoxFuture<'static, Step>>;

impl Feeds {
    pub(crate) fn new(gateway: Gateway, closing: Closing) -> Self {
        Self { gateway, closing, running: Mutex::default() }
    }

    /// The feed, which is started for the first viewer.
    pub(super) async fn join(&self) -> Arc<Feed> {
        let feed = self.running();
        let mut ready = feed.ready.clone();
        // Fails only when the feed has ended, at a shutdown.
        drop(ready.wait_for(|ready| *ready).await);
        feed
    }

    fn running(&self) -> Arc<Feed> {
        // The value is valid also after a panic of its holder.
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(feed) = running.upgrade() {
            return feed;
        }
        let (ring, (set_ready, ready)) = (Arc::new(Ring::new()), watch::channel(false));
        let run = run(self.gateway.clone(), ring.clone(), set_ready, self.closing.clone());
        let task = tokio::spawn(run).abort_handle();
        let feed = Arc::new(Feed { ring, ready, task });
        *running = Arc::downgrade(&feed);
        feed
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(gateway: Gateway, ring: Arc<Ring>, ready: watch::Sender<bool>, closing: Closing) {
    let watcher = gateway.watch();
    let mut sessions = Sessions {
        gateway,
        ring,
        known: HashMap::new(),
        directories: HashSet::new(),
        followed: HashMap::new(),
        steps: Steps::new(),
    };
    tokio::select! {
        () = sessions.follow_all(watcher, ready) => {}
        () = closing.begun() => {}
    }
}

/// All sessions, as far as the feed knows them.
struct Sessions {
    gateway: Gateway,
    ring: Arc<Ring>,
    known: HashMap<SessionId, Known>,
    directories: HashSet<Arc<str>>,
    /// Those with a step under way, and whether the start waits for it.
    followed: HashMap<SessionId, bool>,
    steps: Steps,
}

impl Sessions {
    async fn follow_all(&mut self, mut watcher: SessionWatcher, ready: watch::Sender<bool>) {
        let started = Time::now();
        let entries = watcher.next().await;
        let gateway = self.gateway.clone();
        // One read for all sessions. After a panic there, each session is told as a whole when it changes.
        let infos = tokio::task::spawn_blocking(move || gateway.sessions()).await.unwrap_or_default();
        infos.into_iter().for_each(|info| self.note(info));
        for entry in entries.into_iter().filter(|entry| entry.session.status != Activity::Idle) {
            self.begin(&entry.id, None);
            self.followed.insert(entry.id, true);
        }
        loop {
            if !self.followed.values().any(|starts| *starts) {
                ready.send_replace(true);
            }
            tokio::select! {
                Some(step) = self.steps.next(), if !self.steps.is_empty() => self.step(step),
                entries = watcher.next() => {
                    for entry in entries {
                        self.changed(&entry, started);
                    }
                }
            }
        }
    }

    /// Remembers the last event of a session.
    fn note(&mut self, info: SessionInfo) {
        let SessionInfo { head, session, .. } = info;
        let Some(id) = session.id else { return };
        let (directory, created) = (self.directory(&session.cwd), session.created.unwrap_or_default());
        self.known.insert(id, Known { head, created, directory });
    }

    /// A directory, which many sessions share.
    fn directory(&mut self, cwd: &str) -> Arc<str> {
        match self.directories.get(cwd) {
            Some(known) => known.clone(),
            None => {
                let new: Arc<str> = Arc::from(cwd);
                self.directories.insert(new.clone());
                new
            }
        }
    }

    fn changed(&mut self, entry: &SessionEntry, started: Time) {
        if self.followed.contains_key(&entry.id) {
            return;
        }
        // A session that is gone by now is reported as deleted.
        let Ok(mut info) = self.gateway.session(&entry.id) else { return self.deleted(&entry.id) };
        match self.known.get(&entry.id).cloned() {
            Some(known) => self.begin(&entry.id, Some(known.head)),
            // A new one is followed from its first event. An imported one is older.
            None => {
                info.session.id = Some(entry.id.clone());
                self.note(info);
                let is_new = entry.session.created.is_some_and(|created| created >= started);
                self.begin(&entry.id, is_new.then_some(Seq(0)));
            }
        }
    }

    fn deleted(&mut self, id: &SessionId) {
        let Some(known) = self.known.remove(id) else { return };
        let gone = Session {
            id: Some(id.clone()),
            created: Some(known.created),
            cwd: known.directory.to_string(),
            ..Session::default()
        };
        let session = Names::of(&gone).session();
        let event = json!({
            "id": format!("evt_{:012x}deleted", Time::now().0),
            "type": "session.deleted",
            "properties": {"sessionID": session, "info": session_info(&gone, Time::now())},
        });
        let lines = Bytes::from(format!("{event}\n"));
        self.gone(id, known.directory, lines);
    }

    fn gone(&self, id: &SessionId, directory: Arc<str>, lines: Bytes) {
        self.ring.push(Entry { session: id.clone(), directory, progress: Progress::Gone, lines });
    }

    /// Follows a session from an event on. `None`: from where it is now.
    fn begin(&mut self, id: &SessionId, after: Option<Seq>) {
        self.begin_after(Duration::ZERO, id, after);
    }

    fn begin_after(&mut self, pause: Duration, id: &SessionId, after: Option<Seq>) {
        self.followed.insert(id.clone(), false);
        let (gateway, id) = (self.gateway.clone(), id.clone());
        let step = async move {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            match begin(&gateway, &id, after).await {
                Ok((followed, entries)) => Step::Begun(Box::new(followed), entries),
                Err(error) => Step::Failed(id, error),
            }
        };
        self.steps.push(step.boxed());
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Begun(followed, entries) => {
                self.told(&followed, entries);
                self.next(followed);
            }
            Step::News(mut followed, news) => match news {
                Follow::Events(events) => match followed.encode(&events) {
                    Ok(entries) => {
                        self.told(&followed, entries);
                        self.next(followed);
                    }
                    Err(error) => self.failed(&followed.id, &error),
                },
                Follow::Outcome(CursorOutcome::Reset { .. }) => {
                    self.gone(&followed.id, followed.directory.clone(), Bytes::new());
                    self.begin(&followed.id, None);
                }
                Follow::Outcome(CursorOutcome::Replayed { .. } | CursorOutcome::CaughtUp { .. }) => {
                    self.next(followed)
                }
                Follow::Deleted => {
                    self.followed.remove(&followed.id);
                    self.deleted(&followed.id);
                }
                Follow::Closed => drop(self.followed.insert(followed.id, false)),
            },
            Step::Failed(id, error) => self.failed(&id, &error),
        }
    }

    /// Adds entries of a session to the ring. After a failure it is followed from there on.
    fn told(&mut self, followed: &Followed, entries: Vec<Entry>) {
        entries.into_iter().for_each(|entry| self.ring.push(entry));
        if let Some(known) = self.known.get_mut(&followed.id) {
            known.head = followed.encoder.seq();
        }
    }

    fn failed(&mut self, id: &SessionId, error: &RequestError) {
        self.followed.remove(id);
        if self.gateway.state_of(id).is_none() {
            return self.deleted(id);
        }
        tracing::warn!(session = %id, error = %Chain(error), "a session cannot be followed for opencode's API");
        // Viewers may wait for the end of its turn. What they know already is not told twice.
        let after = self.known.get(id).map(|known| known.head);
        self.begin_after(AGAIN, id, after);
    }

    fn next(&mut self, mut followed: Box<Followed>) {
        self.followed.insert(followed.id.clone(), false);
        let step = async move {
            match followed.follower.next().await {
                Ok(news) => Step::News(followed, news),
                Err(error) => Step::Failed(followed.id.clone(), RequestError::log(error)),
            }
        };
        self.steps.push(step.boxed());
    }
}

/// Begins to follow a session, with what happened since an event.
async fn begin(
    gateway: &Gateway,
    id: &SessionId,
    after: Option<Seq>,
) -> Result<(Followed, Vec<Entry>), RequestError> {
    let snapshot = gateway.snapshot(id).await?;
    let mut state = snapshot.state;
    state.session.id = Some(id.clone());
    let directory: Arc<str> = Arc::from(state.session.cwd.as_str());
    // For those who know the session up to an event, what is missing is told as whole messages.
    let mut told = None;
    if let Some(after) = after {
        let cursor = Cursor { generation: Some(snapshot.generation.clone()), seq: after };
        let mut follower = gateway.follow(id, &cursor)?;
        let mut idle = Idle::Told;
        if let Some(missed) = read_until(&mut follower, after, state.seq).await? {
            let events: Option<Vec<Event>> = missed.iter().map(|event| event.event().ok()).collect();
            let earlier = events.and_then(|events| rewind(state.clone(), &events, after));
            if let Some(earlier) = earlier {
                let encoder = Opencode::resume(&earlier);
                let mut followed = Followed { id: id.clone(), directory, encoder, follower };
                let entries = followed.encode(&missed)?;
                return Ok((followed, entries));
            }
            if missed.iter().any(|event| event.kind().is(KnownKind::TurnEnded)) {
                idle = Idle::Missed;
            }
        }
        let mut lines = Lines::default();
        repeat_since(&state, Time(0), idle, &mut lines);
        tracing::debug!(session = %id, after = after.0, "a session is told again as a whole");
        let over = (idle == Idle::Missed).then(|| last_ended(&state)).flatten();
        told = Some((lines.take(), over));
    }
    let cursor = Cursor { generation: Some(snapshot.generation), seq: state.seq };
    let follower = gateway.follow(id, &cursor)?;
    let encoder = Opencode::resume(&state);
    let entries = told.into_iter().map(|(lines, over)| {
        let progress = Progress::Reached { seq: state.seq, is_busy: encoder.is_busy(), over };
        Entry { session: id.clone(), directory: directory.clone(), progress, lines }
    });
    let entries = entries.collect();
    Ok((Followed { id: id.clone(), directory, encoder, follower }, entries))
}

/// The last turn, if it is over.
pub(super) fn last_ended(state: &State) -> Option<TurnId> {
    state.turns.last().filter(|turn| !turn.is_open()).map(|turn| turn.turn.clone())
}

/// The events up to this one. `None` if they are no longer kept.
async fn read_until(
    follower: &mut Follower,
    after: Seq,
    last: Seq,
) -> Result<Option<Vec<Committed>>, RequestError> {
    let mut events: Vec<Committed> = Vec::new();
    while events.last().map_or(after, Committed::seq) < last {
        match follower.next().await.map_err(RequestError::log)? {
            Follow::Events(more) => events.extend(more.iter().cloned()),
            Follow::Outcome(CursorOutcome::Reset { .. }) | Follow::Closed | Follow::Deleted => {
                return Ok(None);
            }
            Follow::Outcome(CursorOutcome::Replayed { .. } | CursorOutcome::CaughtUp { .. }) => {}
        }
    }
    Ok(Some(events))
}

impl Followed {
    fn encode(&mut self, events: &[Committed]) -> Result<Vec<Entry>, RequestError> {
        let mut entries = Vec::with_capacity(events.len());
        for event in events {
            let mut lines = Lines::default();
            // The error of the parser may repeat a part of the conversation.
            let failed = |_| RequestError::log(format!("event {} cannot be read", event.seq()));
            self.encoder.encode(&event.line(), &mut lines).map_err(failed)?;
            let lines = lines.take();
            if !lines.is_empty() {
                let (session, directory) = (self.id.clone(), self.directory.clone());
                let is_end = event.kind().is(KnownKind::TurnEnded);
                let over = is_end.then(|| event.event().ok()?.draft.turn).flatten();
                let progress = Progress::Reached { seq: event.seq(), is_busy: self.encoder.is_busy(), over };
                entries.push(Entry { session, directory, progress, lines });
            }
        }
        Ok(entries)
    }
}

/// Frames, one per line.
#[derive(Default)]
pub(super) struct Lines(BytesMut);

impl Lines {
    pub(super) fn take(self) -> Bytes {
        self.0.freeze()
    }
}

impl FrameSink for Lines {
    fn frame(&mut self, _: Option<&str>, json: &[u8]) {
        self.0.reserve(json.len() + 1);
        self.0.put_slice(json);
        self.0.put_u8(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::{Ring, Sessions, Steps};
    use crate::opencode::ring::Read;
    use futures_util::StreamExt;
    use std::collections::{BTreeMap, HashMap, HashSet};
    use std::sync::Arc;
    use turnstream_agents::Agent;
    use turnstream_agents::demo::{DemoAgent, DemoConfig};
    use turnstream_gateway::{Gateway, NewPrompt, NewSession, Settings};
    use turnstream_model::cursor::Seq;

    fn idles(ring: &Ring) -> usize {
        let Read::Entries(entries, _) = ring.read(0, usize::MAX) else { panic!("all is kept") };
        let lines = entries.iter().map(|entry| String::from_utf8_lossy(&entry.lines).into_owned());
        lines.map(|lines| lines.matches("\"session.idle\"").count()).sum()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn after_a_failure_a_session_is_followed_from_its_last_event_and_no_idle_comes_twice() {
        let home = tempfile::tempdir().unwrap();
        let settings = Settings { roots: vec![home.path().to_owned()], ..Settings::default() };
        let agent = Arc::new(DemoAgent::new(DemoConfig::default())) as Arc<dyn Agent>;
        let agents = BTreeMap::from([("scripted".to_owned(), agent)]);
        let gateway = Gateway::open(&home.path().join("data"), settings, agents).await.unwrap();
        let new =
            NewSession { agent: "scripted".to_owned(), cwd: home.path().to_owned(), ..NewSession::default() };
        let info = gateway.create(new).await.unwrap();
        let id = info.session.id.clone().unwrap();
        let mut sessions = Sessions {
            gateway: gateway.clone(),
            ring: Arc::new(Ring::new()),
            known: HashMap::new(),
            directories: HashSet::new(),
            followed: HashMap::new(),
            steps: Steps::new(),
        };
        sessions.note(info);
        sessions.begin(&id, Some(Seq(0)));
        let text = r#"{"script":[{"do":"text","text":"Hello"}],"pace_ms":0}"#;
        let content = vec![serde_json::json!({"type": "text", "text": text})];
        gateway.prompt(&id, NewPrompt::new(content)).await.unwrap();
        while idles(&sessions.ring) == 0 {
            let step = sessions.steps.next().await.unwrap();
            sessions.step(step);
        }
        // As after a failed read, without the pause.
        let after = sessions.known[&id].head;
        assert!(after > Seq(1), "{after:?}");
        let (followed, entries) = super::begin(&gateway, &id, Some(after)).await.unwrap();
        sessions.told(&followed, entries);
        assert_eq!(idles(&sessions.ring), 1);
        drop((followed, sessions));
        gateway.close().await;
    }
}
