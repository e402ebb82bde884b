//! One session's tail, read and encoded once for all who follow it. A hub exists while somebody follows.

use super::dialect::{Dialect, Encoder, encode};
use super::open::OpenStreams;
use super::tail::{Tail, Take};
use crate::closing::Closing;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use turnstream_gateway::{Gateway, RequestError};
use turnstream_log::{Follow, Follower};
use turnstream_model::cursor::{Cursor, CursorOutcome, Generation, Seq};
use turnstream_model::id::SessionId;

/// The generation too: a session that was deleted may be made again under its id while somebody reads the old one.
type Key = (SessionId, Generation, Dialect);

/// The hubs of one server.
pub(crate) struct Hubs {
    gateway: Gateway,
    closing: Closing,
    streams: Arc<OpenStreams>,
    hubs: Mutex<HashMap<Key, Weak<Hub>>>,
}

/// The shared tail of one session in one dialect.
pub(crate) struct Hub {
    hubs: Arc<Hubs>,
    key: Key,
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    tail: Mutex<Tail>,
    /// Somebody has taken everything and waits for more. The log is read only then: so the hub is never further than its
    /// fastest reader, and readers of one speed share every chunk however fast the session writes.
    wanted: Notify,
    state: watch::Sender<State>,
}

/// How far a hub is.
#[derive(Clone, Debug)]
pub(crate) struct State {
    next: Seq,
    end: Option<End>,
}

/// Why nothing more will come from a hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The server is shutting down.
    Closing,
    /// The session was deleted.
    Gone,
    /// What comes next is no longer kept: nobody had wanted it. Readers begin anew with another hub.
    Behind,
    /// The log could not be read.
    Failed(String),
}

impl Hubs {
    pub(crate) fn new(gateway: Gateway, closing: Closing, streams: Arc<OpenStreams>) -> Arc<Self> {
        Arc::new(Self { gateway, closing, streams, hubs: Mutex::default() })
    }

    pub(crate) fn streams(&self) -> &Arc<OpenStreams> {
        &self.streams
    }

    pub(crate) fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// The hub of a session, made if there is none; a new one begins after `head`.
    pub(crate) fn join(
        self: &Arc<Self>,
        session: &SessionId,
        dialect: Dialect,
        generation: &Generation,
        head: Seq,
    ) -> Result<Arc<Hub>, RequestError> {
        let key = (session.clone(), generation.clone(), dialect);
        let mut hubs = self.lock();
        if let Some(hub) = hubs.get(&key).and_then(Weak::upgrade) {
            return Ok(hub);
        }
        let cursor = Cursor { generation: Some(generation.clone()), seq: head };
        let follower = self.gateway.follow(session, &cursor)?;
        let shared = Arc::new(Shared {
            tail: Mutex::new(Tail::new(head.next())),
            wanted: Notify::new(),
            state: watch::Sender::new(State { next: head.next(), end: None }),
        });
        let encoder = Encoder::new(dialect, generation);
        let run = run(self.clone(), key.clone(), shared.clone(), follower, encoder);
        let task = tokio::spawn(run).abort_handle();
        let hub = Arc::new(Hub { hubs: self.clone(), key: key.clone(), shared, task });
        hubs.insert(key, Arc::downgrade(&hub));
        Ok(hub)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Weak<Hub>>> {
        // A map: a panic cannot leave a change of it half done.
        self.hubs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn run(hubs: Arc<Hubs>, key: Key, shared: Arc<Shared>, mut follower: Follower, mut encoder: Encoder) {
    let feed = async {
        loop {
            shared.wanted.notified().await;
            match follower.next().await {
                Ok(Follow::Outcome(CursorOutcome::Reset { .. })) => return End::Behind,
                Ok(Follow::Outcome(CursorOutcome::Replayed { .. } | CursorOutcome::CaughtUp { .. })) => {
                    shared.wanted.notify_one();
                }
                Ok(Follow::Events(events)) => {
                    let (bytes, ends) = encode(&mut encoder, &events);
                    let next = shared.tail().push(bytes, ends);
                    shared.state.send_modify(|state| state.next = next);
                }
                Ok(Follow::Closed) => return End::Closing,
                Ok(Follow::Deleted) => return End::Gone,
                Err(error) => return End::Failed(error.to_string()),
            }
        }
    };
    let end = tokio::select! {
        end = feed => end,
        () = hubs.closing.begun() => End::Closing,
    };
    // Whoever comes next tries again.
    hubs.lock().remove(&key);
    shared.state.send_modify(|state| state.end = Some(end));
}

impl Hub {
    /// What there is from `next` on.
    pub(crate) fn take(self: &Arc<Self>, next: Seq) -> Take {
        let readers = Arc::strong_count(self);
        self.shared.tail().take(next, readers)
    }

    /// Asks for more than there is.
    pub(crate) fn want(&self) {
        self.shared.wanted.notify_one();
    }

    /// Follows how far it is.
    pub(crate) fn watch(&self) -> watch::Receiver<State> {
        self.shared.state.subscribe()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.task.abort();
        let mut hubs = self.hubs.lock();
        if hubs.get(&self.key).is_some_and(|hub| hub.strong_count() == 0) {
            hubs.remove(&self.key);
        }
    }
}

impl Shared {
    fn tail(&self) -> MutexGuard<'_, Tail> {
        // Nothing in it panics between two changes that belong together.
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Why nothing more will come.
    pub(crate) fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Whether there is more than up to here, or never will be.
    pub(crate) fn is_past(&self, next: Seq) -> bool {
        self.next > next || self.end.is_some()
    }
}
