//! Follows all sessions and encodes their events once, for all viewers. It runs while there are viewers.
//!
//! A session is followed from the moment it changes. Most sessions never do, and cost nothing but the place
//! of their last event.

use super::rewind::rewind;
use super::ring::{Entry, Ring};
use crate::closing::Closing;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use turnstream_dialects::opencode::{Idle, Names, Opencode, repeat_since};
use turnstream_dialects::{Dialect, FrameSink};
use turnstream_gateway::{Gateway, RequestError, SessionEntry, SessionWatcher};
use turnstream_log::{Committed, Follow, Follower};
use turnstream_model::Chain;
use turnstream_model::cursor::{Cursor, CursorOutcome, Seq};
use turnstream_model::event::Event;
use turnstream_model::fold::Activity;
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

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

/// What is known of a session that is not followed.
#[derive(Clone)]
struct Known {
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
    let mut sessions =
        Sessions { gateway, ring, known: HashMap::new(), followed: HashMap::new(), steps: Steps::new() };
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
    /// Those with a step under way, and whether the start waits for it.
    followed: HashMap<SessionId, bool>,
    steps: Steps,
}

impl Sessions {
    async fn follow_all(&mut self, mut watcher: SessionWatcher, ready: watch::Sender<bool>) {
        let started = Time::now();
        for entry in watcher.next().await {
            self.note(&entry);
            if entry.session.status != Activity::Idle {
                self.begin(&entry.id, None);
                self.followed.insert(entry.id, true);
            }
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
    fn note(&mut self, entry: &SessionEntry) {
        // A session that is gone by now is reported as deleted.
        if let Ok(info) = self.gateway.session(&entry.id) {
            let directory = Arc::from(info.session.cwd.as_str());
            let created = info.session.created.unwrap_or_default();
            let known = Known { head: info.head, created, directory };
            self.known.insert(entry.id.clone(), known);
        }
    }

    fn changed(&mut self, entry: &SessionEntry, started: Time) {
        if self.followed.contains_key(&entry.id) {
            return;
        }
        if self.gateway.session(&entry.id).is_err() {
            return self.deleted(&entry.id);
        }
        match self.known.get(&entry.id).cloned() {
            Some(known) => self.begin(&entry.id, Some(known.head)),
            // A new one is followed from its first event. An imported one is older.
            None => {
                self.note(entry);
                let is_new = entry.session.created.is_some_and(|created| created >= started);
                self.begin(&entry.id, is_new.then_some(Seq(0)));
            }
        }
    }

    fn deleted(&mut self, id: &SessionId) {
        let Some(known) = self.known.remove(id) else { return };
        let session = Names::new(id.as_str(), known.created).session();
        let event = json!({
            "id": format!("evt_{:012x}deleted", Time::now().0),
            "type": "session.deleted",
            "properties": {"sessionID": session, "info": {"id": session, "directory": *known.directory, "title": ""}},
        });
        let lines = Bytes::from(format!("{event}\n"));
        self.ring.push(Entry { session: id.clone(), directory: known.directory, seq: Seq(u64::MAX), lines });
    }

    /// Follows a session from an event on. `None`: from where it is now.
    fn begin(&mut self, id: &SessionId, after: Option<Seq>) {
        self.followed.insert(id.clone(), false);
        let (gateway, id) = (self.gateway.clone(), id.clone());
        let step = async move {
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
                entries.into_iter().for_each(|entry| self.ring.push(entry));
                self.next(followed);
            }
            Step::News(mut followed, news) => match news {
                Follow::Events(events) => match followed.encode(&events) {
                    Ok(entries) => {
                        entries.into_iter().for_each(|entry| self.ring.push(entry));
                        self.next(followed);
                    }
                    Err(error) => self.failed(&followed.id, &error),
                },
                Follow::Outcome(CursorOutcome::Reset { .. }) => self.begin(&followed.id, None),
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

    fn failed(&mut self, id: &SessionId, error: &RequestError) {
        tracing::warn!(session = %id, error = %Chain(error), "a session cannot be followed for opencode's API");
        // Its next change tries again.
        self.followed.remove(id);
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
    if let Some(after) = after {
        let cursor = Cursor { generation: Some(snapshot.generation.clone()), seq: after };
        let mut follower = gateway.follow(id, &cursor)?;
        if let Some(missed) = read_until(&mut follower, after, state.seq).await? {
            let events: Option<Vec<Event>> = missed.iter().map(|event| event.event().ok()).collect();
            let earlier = events.and_then(|events| rewind(state.clone(), &events, after));
            if let Some(earlier) = earlier {
                let encoder = Opencode::resume(&earlier);
                let mut followed = Followed { id: id.clone(), directory, encoder, follower };
                let entries = followed.encode(&missed)?;
                return Ok((followed, entries));
            }
        }
    }
    // What is missing is told as whole messages. Nobody misses anything of a session that begins here.
    let mut lines = Lines::default();
    if let Some(after) = after {
        repeat_since(&state, Time(0), Idle::Told, &mut lines);
        tracing::debug!(session = %id, after = after.0, "a session is told again as a whole");
    }
    let cursor = Cursor { generation: Some(snapshot.generation), seq: state.seq };
    let follower = gateway.follow(id, &cursor)?;
    let encoder = Opencode::resume(&state);
    let entry =
        Entry { session: id.clone(), directory: directory.clone(), seq: state.seq, lines: lines.take() };
    let entries = if entry.lines.is_empty() { vec![] } else { vec![entry] };
    Ok((Followed { id: id.clone(), directory, encoder, follower }, entries))
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
                entries.push(Entry { session, directory, seq: event.seq(), lines });
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
