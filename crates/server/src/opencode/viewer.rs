//! The event streams: `/global/event` with all sessions, and `/event` with those of one directory.
//!
//! A stream never ends by itself. At a shutdown its connection is cut, because clients reconnect only then.
//! There are no ids: a client that comes back is told again what it may have missed.

use super::answer::Failure;
use super::feed::{Feed, Lines};
use super::history::History;
use super::lookup;
use super::request::Asked;
use super::ring::{Entry, Read};
use crate::access::Credential;
use crate::app::App;
use crate::limits::Guarded;
use crate::stream::{HeartbeatTimer, StreamKind, sse_response};
use axum::Extension;
use axum::body::Body;
use axum::extract::State as Shared;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use memchr::memchr_iter;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use turnstream_dialects::opencode::{Idle, PROJECT, repeat_since};
use turnstream_model::cursor::Seq;
use turnstream_model::fold::{Activity, State, Turn};
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// How far back a client that opens a stream is told of turns that have ended. The pause of the TUI before it
/// reconnects grows to 30 s.
const REPEATED: Duration = Duration::from_secs(300);
/// opencode's own time between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Most entries that are sent at once.
const BATCH: usize = 256;

/// The connection is cut.
#[derive(Debug, thiserror::Error)]
#[error("the gateway shuts down")]
struct Cut;

/// The sessions that a stream shows.
enum Scope {
    All,
    Directory(String),
}

enum Stage {
    Connected,
    Repeat { since: Time },
    Live,
    Ended,
}

struct Viewer {
    app: Arc<App>,
    feed: Arc<Feed>,
    scope: Scope,
    stage: Stage,
    /// The number of the next entry.
    next: u64,
    end: watch::Receiver<u64>,
    /// The last event of each session that was told again.
    repeated: HashMap<SessionId, Seq>,
    /// The last event of each session that was told at all.
    told: HashMap<SessionId, Seq>,
    timer: HeartbeatTimer,
    last_read: Time,
}

pub(super) async fn of_all(
    Shared(app): Shared<Arc<App>>,
    Extension(credential): Extension<Credential>,
) -> Result<Response, Failure> {
    open(app, Scope::All, credential).await
}

pub(super) async fn of_directory(
    Shared(app): Shared<Arc<App>>,
    Extension(credential): Extension<Credential>,
    asked: Asked,
) -> Result<Response, Failure> {
    open(app, Scope::Directory(asked.directory_or_own()), credential).await
}

async fn open(app: Arc<App>, scope: Scope, credential: Credential) -> Result<Response, Failure> {
    let follower = app.in_use.followers.join()?;
    let counted = app.streams.open(StreamKind::Sse);
    let feed = app.feeds.join().await;
    let end = feed.ring.watch();
    let viewer = Viewer {
        timer: HeartbeatTimer::new(HEARTBEAT),
        app: app.clone(),
        feed,
        scope,
        stage: Stage::Connected,
        next: 0,
        end,
        repeated: HashMap::new(),
        told: HashMap::new(),
        last_read: Time::now(),
    };
    let pieces = stream::unfold(viewer, |mut viewer| async move {
        let piece = viewer.piece().await?;
        Some((piece, viewer))
    });
    // A stream whose token or ticket has ended is cut, however busy it is.
    let ended = async move { app.access.until_ended(credential).await };
    let body = Body::from_stream(pieces.take_until(Box::pin(ended)).chain(stream::iter([Err(Cut)])));
    Ok(Guarded::response(sse_response(body), (follower, counted)))
}

impl Viewer {
    async fn piece(&mut self) -> Option<Result<Bytes, Cut>> {
        let piece = match self.stage {
            Stage::Connected => {
                let since = Time(Time::now().0.saturating_sub(REPEATED.as_millis() as u64));
                self.stage = Stage::Repeat { since };
                self.own("server.connected")
            }
            Stage::Repeat { since } => {
                let told = self.repeat(since, false).await;
                self.stage = Stage::Live;
                told
            }
            Stage::Live => match self.live().await {
                Some(bytes) => bytes,
                None => {
                    self.stage = Stage::Ended;
                    return Some(Err(Cut));
                }
            },
            Stage::Ended => return None,
        };
        self.timer.sent();
        Some(Ok(piece))
    }

    /// The next events. `None` when the stream is to be cut.
    async fn live(&mut self) -> Option<Bytes> {
        loop {
            match self.feed.ring.read(self.next, BATCH) {
                Read::Behind => {
                    // Told again from a little before the last entry that was read.
                    let since = Time(self.last_read.0.saturating_sub(HEARTBEAT.as_millis() as u64));
                    return Some(self.repeat(since, true).await);
                }
                Read::Entries(entries, next) if !entries.is_empty() => {
                    (self.next, self.last_read) = (next, Time::now());
                    let mut out = BytesMut::new();
                    for entry in &entries {
                        self.write(entry, &mut out);
                    }
                    if !out.is_empty() {
                        return Some(out.freeze());
                    }
                }
                Read::Entries(_, next) => {
                    let app = self.app.clone();
                    let is_silent = tokio::select! {
                        // Fails only without a sender, and the feed has it.
                        _ = self.end.wait_for(|end| *end > next) => false,
                        () = self.timer.due() => true,
                        () = app.closing.begun() => return None,
                    };
                    if is_silent {
                        return Some(self.own("server.heartbeat"));
                    }
                }
            }
        }
    }

    fn shows(&self, directory: &str) -> bool {
        match &self.scope {
            Scope::All => true,
            Scope::Directory(wanted) => wanted == directory,
        }
    }

    /// `opencode run` reads `/event`, and ends at the first idle of its session, also at a repeated one.
    fn idle(&self) -> Idle {
        match self.scope {
            Scope::All => Idle::Told,
            Scope::Directory(_) => Idle::LeftOut,
        }
    }

    /// Writes the events of an entry, unless the client has been told of them as a state.
    fn write(&mut self, entry: &Entry, out: &mut BytesMut) {
        let is_told = self.repeated.get(&entry.session).is_some_and(|seq| entry.seq <= *seq);
        if self.shows(&entry.directory) && !is_told {
            self.frames(Some(&entry.directory), &entry.lines, out);
            self.told.insert(entry.session.clone(), entry.seq);
        }
    }

    /// What a viewer that fell behind is told of idle: it has no other way to learn that a turn is over.
    fn missed_idle(&self, state: &State, id: &SessionId, since: Time) -> Idle {
        let has_ended = state.turns.last().and_then(|turn| turn.ended).is_some_and(|ended| ended >= since);
        let is_told = self.told.get(id).is_some_and(|seq| *seq >= state.seq);
        if has_ended && !is_told { Idle::Missed } else { self.idle() }
    }

    fn frames(&self, directory: Option<&str>, lines: &[u8], out: &mut BytesMut) {
        let head = match (&self.scope, directory) {
            (Scope::Directory(_), _) => "data: ".to_owned(),
            (Scope::All, Some(directory)) => {
                let directory = Value::from(directory);
                format!("data: {{\"directory\":{directory},\"project\":\"{PROJECT}\",\"payload\":")
            }
            (Scope::All, None) => "data: {\"payload\":".to_owned(),
        };
        let tail: &[u8] = match self.scope {
            Scope::Directory(_) => b"\n\n",
            Scope::All => b"}\n\n",
        };
        let mut start = 0;
        for end in memchr_iter(b'\n', lines) {
            out.reserve(head.len() + (end - start) + tail.len());
            out.put_slice(head.as_bytes());
            out.put_slice(&lines[start..end]);
            out.put_slice(tail);
            start = end + 1;
        }
    }

    /// An event about the stream itself.
    fn own(&self, kind: &str) -> Bytes {
        let id = format!("evt_{:012x}", Time::now().0.wrapping_mul(4_096) & ((1 << 48) - 1));
        let event = json!({"id": id, "type": kind, "properties": {}});
        let mut out = BytesMut::new();
        self.frames(None, format!("{event}\n").as_bytes(), &mut out);
        out.freeze()
    }

    /// The states of all sessions that are active, or had a turn that ended since then.
    async fn repeat(&mut self, since: Time, is_behind: bool) -> Bytes {
        // Before the states are read: what happens meanwhile is in both, and is told once.
        self.next = self.feed.ring.end();
        self.last_read = Time::now();
        let mut out = BytesMut::new();
        for entry in lookup::entries(&self.app.gateway) {
            let is_active = entry.session.status != Activity::Idle;
            if !self.shows(&entry.session.cwd) || !(is_active || self.was_active(&entry.id, since).await) {
                continue;
            }
            // A session that cannot be read is told of when it changes.
            let Ok(state) = self.state_since(&entry.id, since).await else { continue };
            let mut lines = Lines::default();
            let idle = if is_behind { self.missed_idle(&state, &entry.id, since) } else { self.idle() };
            repeat_since(&state, since, idle, &mut lines);
            self.frames(Some(&entry.session.cwd), &lines.take(), &mut out);
            self.told.insert(entry.id.clone(), state.seq);
            self.repeated.insert(entry.id, state.seq);
        }
        if out.is_empty() { self.own("server.heartbeat") } else { out.freeze() }
    }

    /// The state of a session with the turns that ended since then.
    async fn state_since(&self, id: &SessionId, since: Time) -> Result<State, Failure> {
        let is_old = |turn: &Turn| turn.ended.is_some_and(|ended| ended < since);
        let is_enough = |state: &State| state.turns.first().is_some_and(is_old);
        Ok(History::back_to(&self.app.gateway, id, is_enough).await?.state)
    }

    async fn was_active(&self, id: &SessionId, since: Time) -> bool {
        let (gateway, id) = (self.app.gateway.clone(), id.clone());
        tokio::task::spawn_blocking(move || gateway.last_activity(&id) >= since).await.unwrap_or(false)
    }
}
