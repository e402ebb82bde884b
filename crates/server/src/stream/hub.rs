//! One session's tail, read and encoded once for all who follow it. A hub exists while somebody follows.

use super::encoder::{Checkpoints, Encoder, Form};
use super::open_streams::OpenStreams;
use super::saved_checkpoints::SavedCheckpoints;
use super::tail::{Place, Tail, TailRead};
use crate::closing::Closing;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use turnstream_gateway::{Gateway, RequestError};
use turnstream_log::{Follow, Follower};
use turnstream_model::cursor::{Cursor, CursorOutcome, Generation, Seq};
use turnstream_model::fold::State as Fold;
use turnstream_model::id::SessionId;

/// The generation too: a session that was deleted may be made again under its id while somebody reads the old one.
pub(super) type Key = (SessionId, Generation, Form);

/// The hubs of one server.
pub(crate) struct Hubs {
    gateway: Gateway,
    closing: Closing,
    streams: Arc<OpenStreams>,
    hubs: Mutex<HashMap<Key, Weak<Hub>>>,
    saved: SavedCheckpoints,
}

/// A hub, and the fold it began with if it was made for this reader and needed one.
pub(crate) struct Joined {
    pub(crate) hub: Arc<Hub>,
    pub(crate) fold: Option<Arc<Fold>>,
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
    /// From where a reader that the tail has left behind can go on.
    checkpoints: Mutex<Checkpoints>,
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
        Arc::new(Self {
            gateway,
            closing,
            streams,
            hubs: Mutex::default(),
            saved: SavedCheckpoints::default(),
        })
    }

    pub(crate) fn streams(&self) -> &Arc<OpenStreams> {
        &self.streams
    }

    pub(crate) fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// The hub of a session, made if there is none. A new one begins after `head`, or later if the dialect needs the fold.
    pub(crate) async fn join(
        self: &Arc<Self>,
        session: &SessionId,
        form: Form,
        generation: &Generation,
        head: Seq,
    ) -> Result<Joined, RequestError> {
        let key = (session.clone(), generation.clone(), form);
        let there = self.lock().get(&key).and_then(Weak::upgrade);
        if let Some(hub) = there {
            return Ok(Joined { hub, fold: None });
        }
        if !form.keeps_state() {
            let encoder = Encoder::resume(form, generation, &Fold::default());
            return Ok(Joined { hub: self.make(key, head, encoder)?, fold: None });
        }
        let fold = Arc::new(self.fold(session, generation).await?);
        let (read, of) = (fold.clone(), generation.clone());
        let encoder = off_thread(move || Encoder::resume(form, &of, &read)).await?;
        Ok(Joined { hub: self.make(key, fold.seq, encoder)?, fold: Some(fold) })
    }

    /// What the session is at its head.
    pub(crate) async fn fold(
        &self,
        session: &SessionId,
        generation: &Generation,
    ) -> Result<Fold, RequestError> {
        let mut now = self.gateway.snapshot(session).await?;
        if now.generation != *generation {
            return Err(RequestError::UnknownSession(session.clone()));
        }
        // The name it has here, which may be another than the one it was exported with.
        now.state.session.id = Some(session.clone());
        Ok(now.state)
    }

    /// Another reader may have made it meanwhile.
    fn make(self: &Arc<Self>, key: Key, last: Seq, encoder: Encoder) -> Result<Arc<Hub>, RequestError> {
        let mut hubs = self.lock();
        if let Some(hub) = hubs.get(&key).and_then(Weak::upgrade) {
            return Ok(hub);
        }
        let (session, generation, form) = &key;
        let cursor = Cursor { generation: Some(generation.clone()), seq: last };
        let follower = self.gateway.follow(session, &cursor)?;
        let mut checkpoints = Checkpoints::default();
        if form.keeps_state() {
            checkpoints = self.saved.claim(&key);
            checkpoints.push(encoder.checkpoint(last));
        }
        let shared = Arc::new(Shared {
            tail: Mutex::new(Tail::new(form.carrier, last.next())),
            wanted: Notify::new(),
            state: watch::Sender::new(State { next: last.next(), end: None }),
            checkpoints: Mutex::new(checkpoints),
        });
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
                    let (encoded, begun) = match encoder.encode_and_keep(&events) {
                        Ok(encoded) => encoded,
                        Err(problem) => return End::Failed(problem),
                    };
                    shared.checkpoints().extend(begun);
                    let next = shared.tail().push(encoded);
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
    /// What there is from this place on.
    pub(crate) fn read_from(self: &Arc<Self>, place: Place) -> TailRead {
        let readers = Arc::strong_count(self);
        self.shared.tail().read_from(place, readers)
    }

    /// Whether a reader at this place finds all that follows.
    pub(crate) fn has(&self, place: Place) -> bool {
        self.shared.tail().has(place)
    }

    /// An encoder for a reader that has everything up to this event and is no longer at the tail, and the event behind
    /// which it begins.
    pub(crate) fn encoder_before(&self, last: Seq) -> Option<(Encoder, Seq)> {
        let (_, generation, form) = &self.key;
        let checkpoints = self.shared.checkpoints();
        let checkpoint = checkpoints.before(last)?;
        Some((Encoder::behind(*form, generation, checkpoint), checkpoint.seq))
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
        drop(hubs);
        if self.shared.state.borrow().end == Some(End::Gone) {
            return;
        }
        self.hubs.saved.save(&self.key, std::mem::take(&mut *self.shared.checkpoints()));
    }
}

impl Shared {
    fn tail(&self) -> MutexGuard<'_, Tail> {
        // Nothing in it panics between two changes that belong together.
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn checkpoints(&self) -> MutexGuard<'_, Checkpoints> {
        // A short list: a panic cannot leave a change of it half done.
        self.checkpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does something that takes as long as the session is large.
pub(super) async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RequestError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| RequestError::Log(error.to_string()))
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
