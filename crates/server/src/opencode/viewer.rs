//! The event streams: `/global/event` with all sessions, and `/event` with those of one directory.
//!
//! A stream never ends by itself. At a shutdown its connection is cut, because clients reconnect only then.
//! There are no ids: a client that comes back is told again what it may have missed.

use super::answer::Failure;
use super::feed::{Feed, Lines};
use super::request::Asked;
use super::ring::{Entry, Read};
use super::seen::{News, Seen};
use crate::access::Credential;
use crate::app::App;
use crate::chat::History;
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
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use turnstream_dialects::opencode::{Idle, Names, PROJECT, repeat_since};
use turnstream_gateway::{Listing, SessionEntry};
use turnstream_model::fold::{Activity, Session, State, Turn};
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// How far back a client that opens a stream is told of turns that have ended. The pause of the TUI before it
/// reconnects grows to 30 s.
const REPEATED: Duration = Duration::from_secs(300);
/// How far back a client that opens `/global/event` is told that sessions are idle. It may have been away for
/// long, and the TUI asks for no status when it reconnects.
const STATUS_REPEATED: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Most sessions of which only that is told, the newest ones.
const MOST_STATUSES: usize = 1_000;
/// opencode's own time between two heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Most entries that are sent at once.
const BATCH: usize = 256;
/// How much of one session is told again, about. Older turns are left out: a client that opens the session
/// reads them.
const MOST_TOLD: usize = 8 << 20;

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
    /// The client is told again what it may have missed, one session at a time.
    Repeat(Repeat),
    Live,
    Ended,
}

/// What is told again.
struct Repeat {
    /// Turns that ended at this time or later.
    since: Time,
    /// Whether the client missed events of this stream. Otherwise it is a new one.
    is_behind: bool,
    /// The sessions that were not told yet. `None`: they are not known yet.
    waiting: Option<VecDeque<(SessionId, Arc<str>)>>,
    /// Events that say that other sessions are idle, with the directory of each.
    statuses: Vec<(Arc<str>, String)>,
    /// Whether anything was told.
    has_told: bool,
}

impl Stage {
    fn repeat(since: Time, is_behind: bool) -> Self {
        Self::Repeat(Repeat { since, is_behind, waiting: None, statuses: Vec::new(), has_told: false })
    }
}

struct Viewer {
    app: Arc<App>,
    feed: Arc<Feed>,
    scope: Scope,
    stage: Stage,
    /// The number of the next entry.
    next: u64,
    end: watch::Receiver<u64>,
    seen: Seen,
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
    let (end, opened) = (feed.ring.watch(), Time::now());
    let viewer = Viewer {
        timer: HeartbeatTimer::new(HEARTBEAT),
        app: app.clone(),
        // Before the client is told that it is connected: from then on it misses no idle.
        next: feed.ring.end(),
        feed,
        scope,
        stage: Stage::Connected,
        end,
        seen: Seen::new(opened),
        last_read: opened,
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
        let piece = match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Connected => {
                let since = Time(self.seen.opened().0.saturating_sub(REPEATED.as_millis() as u64));
                self.stage = Stage::repeat(since, false);
                Some(self.own("server.connected"))
            }
            Stage::Repeat(repeat) => self.repeat(repeat).await,
            Stage::Live => self.live().await,
            Stage::Ended => return None,
        };
        self.timer.sent();
        Some(piece.ok_or(Cut))
    }

    /// The next events. `None` when the stream is to be cut.
    async fn live(&mut self) -> Option<Bytes> {
        loop {
            match self.feed.ring.read(self.next, BATCH) {
                Read::Behind => {
                    // Told again from a little before the last entry that was read.
                    let since = Time(self.last_read.0.saturating_sub(HEARTBEAT.as_millis() as u64));
                    // Before the states are read: what happens meanwhile is in both, and is told once.
                    (self.next, self.last_read) = (self.feed.ring.end(), Time::now());
                    self.stage = Stage::repeat(since, true);
                    return Some(self.own("server.heartbeat"));
                }
                Read::Entries(entries, next) if !entries.is_empty() => {
                    (self.next, self.last_read) = (next, Time::now());
                    let mut out = BytesMut::new();
                    for entry in &entries {
                        self.write(entry, &mut out);
                    }
                    if !out.is_empty() {
                        self.stage = Stage::Live;
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
                        self.stage = Stage::Live;
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

    /// Writes what is new to the client of an entry.
    fn write(&mut self, entry: &Entry, out: &mut BytesMut) {
        if !self.shows(&entry.directory) {
            return;
        }
        let lines = match self.seen.entry(&entry.session, &entry.progress) {
            News::All => entry.lines.clone(),
            News::Idle => idle_lines(&entry.lines, self.idle()),
            News::Nothing => return,
        };
        self.frames(Some(&entry.directory), &lines, out);
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
        let mut out = BytesMut::new();
        self.frames(None, event_now(kind, &json!({})).as_bytes(), &mut out);
        out.freeze()
    }

    /// Tells the next session again.
    async fn repeat(&mut self, mut repeat: Repeat) -> Option<Bytes> {
        let mut waiting = match repeat.waiting.take() {
            Some(waiting) => waiting,
            None => {
                let recent = self.recent_sessions(repeat.since).await;
                if !repeat.is_behind && matches!(self.scope, Scope::All) {
                    repeat.statuses = self.idle_sessions(&recent).await;
                }
                recent.into_iter().collect()
            }
        };
        while let Some((id, directory)) = waiting.pop_front() {
            let mut out = BytesMut::new();
            self.tell_again(&id, &directory, &repeat, &mut out).await;
            if !out.is_empty() {
                self.stage = Stage::Repeat(Repeat { waiting: Some(waiting), has_told: true, ..repeat });
                return Some(out.freeze());
            }
        }
        self.stage = Stage::Live;
        let mut out = BytesMut::new();
        for (directory, status) in &repeat.statuses {
            self.frames(Some(directory), status.as_bytes(), &mut out);
        }
        if !out.is_empty() {
            return Some(out.freeze());
        }
        if !repeat.has_told {
            return Some(self.own("server.heartbeat"));
        }
        self.live().await
    }

    /// That sessions are idle which are not told again otherwise.
    async fn idle_sessions(&self, told: &BTreeMap<SessionId, Arc<str>>) -> Vec<(Arc<str>, String)> {
        let from = Time(self.seen.opened().0.saturating_sub(STATUS_REPEATED.as_millis() as u64));
        let listing = Listing { from: Some(from), limit: MOST_STATUSES, ..Listing::default() };
        let idle = |session: Session| {
            let id = session.id.filter(|id| session.status == Activity::Idle && !told.contains_key(id))?;
            let named = Names::new(id.as_str(), session.created.unwrap_or_default()).session();
            let status = json!({"sessionID": named, "status": {"type": "idle"}});
            Some((Arc::from(session.cwd), event_now("session.status", &status)))
        };
        self.listed(listing).await.into_iter().filter_map(idle).collect()
    }

    async fn listed(&self, listing: Listing) -> Vec<Session> {
        let gateway = self.app.gateway.clone();
        // Blocking: sessions that were not used since the start are read from the database.
        let listed = tokio::task::spawn_blocking(move || gateway.list(&listing)).await;
        let listed = listed.ok().and_then(Result::ok).map(|listed| listed.sessions).unwrap_or_default();
        listed.into_iter().map(|listed| listed.info.session).collect()
    }

    /// The sessions that are active, or were since then.
    async fn recent_sessions(&self, since: Time) -> BTreeMap<SessionId, Arc<str>> {
        let cwd = match &self.scope {
            Scope::All => None,
            Scope::Directory(directory) => Some(directory.clone()),
        };
        let listing = Listing { cwd, from: Some(since), limit: usize::MAX, ..Listing::default() };
        let listed = self.listed(listing).await;
        let mut recent: BTreeMap<SessionId, Arc<str>> = BTreeMap::new();
        recent.extend(listed.into_iter().filter_map(|session| Some((session.id?, Arc::from(session.cwd)))));
        for SessionEntry { id, session } in self.app.gateway.sessions_at_work() {
            recent.insert(id, Arc::from(session.cwd));
        }
        recent.extend(self.feed.ring.sessions());
        recent.retain(|_, directory| self.shows(directory));
        recent
    }

    /// Tells the state of a session. One that cannot be read is told of when it changes.
    async fn tell_again(&mut self, id: &SessionId, directory: &str, repeat: &Repeat, out: &mut BytesMut) {
        let Ok(state) = self.state_since(id, repeat.since).await else { return };
        let is_missed = repeat.is_behind && self.seen.missed_idle(id, &state);
        let idle = if is_missed { Idle::Missed } else { self.idle() };
        let mut lines = Lines::default();
        repeat_since(&state, repeat.since, idle, &mut lines);
        self.frames(Some(directory), &lines.take(), out);
        self.seen.state(id, &state, idle);
    }

    /// The state of a session with the turns that ended since then, as far as they fit.
    async fn state_since(&self, id: &SessionId, since: Time) -> Result<State, Failure> {
        let is_old = |turn: &Turn| turn.ended.is_some_and(|ended| ended < since);
        let is_enough = |state: &State| state.turns.first().is_some_and(is_old) || size(state) > MOST_TOLD;
        Ok(History::back_to(&self.app.gateway, id, is_enough).await?.state)
    }
}

/// An event that is in no log, as a line.
fn event_now(kind: &str, properties: &Value) -> String {
    let id = format!("evt_{:012x}", Time::now().0.wrapping_mul(4_096) & ((1 << 48) - 1));
    format!("{}\n", json!({"id": id, "type": kind, "properties": properties}))
}

/// The size of what a state says.
fn size(state: &State) -> usize {
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let items = state.items.iter().map(|item| length(&item.text) + length(&item.output));
    let blocks = state.prompts.iter().flat_map(|prompt| &prompt.content);
    let texts = blocks.flat_map(|block| ["text", "data"].map(|member| block[member].as_str()));
    items.sum::<usize>() + texts.flatten().map(str::len).sum::<usize>()
}

/// Those lines that say that a turn is over. A client that was told the state has its status.
fn idle_lines(lines: &[u8], told: Idle) -> Bytes {
    let mut idle = BytesMut::new();
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let event: Value = serde_json::from_slice(line).unwrap_or_default();
        let is_status = event["properties"]["status"]["type"] == "idle";
        if event["type"] == "session.idle" || (is_status && told == Idle::LeftOut) {
            idle.put_slice(line);
        }
    }
    idle.freeze()
}
