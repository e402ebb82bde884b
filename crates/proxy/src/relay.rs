//! The answer to one request, between the task that asks providers and the client that reads it.
//!
//! The task goes on for a while when the client is gone. The same request that comes in that time reads the
//! answer from its first byte.

use crate::errors::Whole;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::watch;
use turnstream_provider::Route;

/// Bytes that wait for a slow client. The provider waits beyond that.
const WINDOW: usize = 256 * 1024;
/// A client may read nothing for this many times the longest silence of its route.
const WITHOUT_READING: u32 = 3;
/// The longest answer that is kept for a client that comes back.
const MOST_KEPT: usize = 4 * 1024 * 1024;

/// Names a request: the same route, path, credential and body.
pub(crate) type RequestKey = [u8; 32];

/// One answer.
pub(crate) struct Relay {
    /// The id of the request, by which its rows are found in the ledger.
    pub(crate) id: String,
    /// The route that the client asked for.
    pub(crate) route: String,
    state: Mutex<State>,
    changed: watch::Sender<()>,
    key: RequestKey,
    reattach: Duration,
    /// How long a client may read nothing.
    patience: Duration,
    left: Arc<LeftRelays>,
}

/// Answers whose client is gone.
#[derive(Default)]
pub(crate) struct LeftRelays(Mutex<HashMap<RequestKey, Weak<Relay>>>);

/// The head of an answer.
#[derive(Clone, Debug)]
pub(crate) enum Head {
    /// A stream, with the headers of the provider.
    Stream(Vec<(String, String)>),
    /// A document.
    Whole(Whole),
}

/// How an answer ended, for the trailers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) attempts: u32,
    pub(crate) outcome: &'static str,
}

#[derive(Default)]
struct State {
    head: Option<Head>,
    /// A client was sent the head of a stream before there was one.
    opened_early: bool,
    /// Requests to providers so far.
    attempts: u32,
    chunks: VecDeque<Bytes>,
    /// Chunks that were taken out of the front after they were read.
    dropped: usize,
    bytes: usize,
    /// Bytes that the client has not read.
    unread: usize,
    /// All bytes of a whole answer are there.
    is_complete: bool,
    end: Option<End>,
    has_client: bool,
    /// The client is gone, and none may come any more.
    is_given_up: bool,
    /// Counts clients, so that a timer knows for which one it was set.
    clients: u64,
}

/// The next thing for a client.
pub(crate) enum Next {
    Chunk(Bytes),
    End(End),
    Nothing,
}

/// The client of a relay. Dropping it leaves the answer.
pub(crate) struct Client {
    pub(crate) relay: Arc<Relay>,
    changed: watch::Receiver<()>,
    next: usize,
    is_done: bool,
}

impl LeftRelays {
    /// An answer to this request that has lost its client. One that has failed is none: clients leave when
    /// they read its error, and send the request again to get a better one.
    pub(crate) fn join(&self, key: &RequestKey) -> Option<Client> {
        let relay = self.lock().remove(key)?.upgrade()?;
        let mut state = relay.state();
        let has_failed = state.end.is_some_and(|end| end.outcome != "complete");
        if state.has_client || state.is_given_up || has_failed {
            return None;
        }
        state.has_client = true;
        state.clients += 1;
        // The stream of the new client has not begun.
        state.opened_early = false;
        state.unread = state.bytes;
        drop(state);
        Some(Client::new(relay))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestKey, Weak<Relay>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Relay {
    /// A relay with its first client.
    pub(crate) fn start(key: RequestKey, route: &Route, left: Arc<LeftRelays>) -> Client {
        let state = State { has_client: true, ..State::default() };
        let (state, changed) = (Mutex::new(state), watch::Sender::new(()));
        let (id, name) = (format!("{:016x}", fastrand::u64(..)), route.name.clone());
        let (reattach, patience) = (route.reattach, route.silence * WITHOUT_READING);
        Client::new(Arc::new(Self { id, route: name, state, changed, key, reattach, patience, left }))
    }

    /// Counts a request to a provider.
    pub(crate) fn count_attempt(&self) {
        self.state().attempts += 1;
    }

    /// Requests to providers so far.
    pub(crate) fn attempts(&self) -> u32 {
        self.state().attempts
    }

    /// What a client is told before the first content, by a route that answers or is asked.
    pub(crate) fn told(&self, route: &str) -> Vec<(String, String)> {
        [
            ("x-turnstream-request", self.id.clone()),
            ("x-turnstream-route", route.to_owned()),
            ("x-turnstream-attempts", self.attempts().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Gives the head of the answer. `false` if it is a document, and a client has begun to read a stream.
    pub(crate) fn open(&self, head: Head) -> bool {
        let is_document = matches!(&head, Head::Whole(whole) if whole.in_band.is_none());
        let mut state = self.state();
        if is_document && state.opened_early {
            return false;
        }
        state.head = Some(head);
        drop(state);
        self.changed.send_replace(());
        true
    }

    /// Sends bytes. Waits while a slow client has too many. If it reads nothing for long, it is given up.
    pub(crate) async fn send(&self, chunk: Bytes) {
        {
            let mut state = self.state();
            state.bytes += chunk.len();
            state.unread += chunk.len();
            state.chunks.push_back(chunk);
            if !state.has_client && state.bytes > MOST_KEPT {
                state.is_given_up = true;
            }
        }
        self.changed.send_replace(());
        let mut changed = self.changed.subscribe();
        loop {
            {
                let state = self.state();
                if !state.has_client || state.unread <= WINDOW {
                    return;
                }
            }
            match tokio::time::timeout(self.patience, changed.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return,
                Err(_) => {
                    self.state().is_given_up = true;
                    self.changed.send_replace(());
                    // The task that sends ends here: it is dropped by whoever waits for `given_up`.
                    std::future::pending::<()>().await;
                }
            }
        }
    }

    /// The answer is whole, and all its bytes were sent.
    pub(crate) fn complete(&self) {
        self.state().is_complete = true;
    }

    /// Ends the answer.
    pub(crate) fn end(&self, outcome: &'static str) {
        let mut state = self.state();
        state.end = Some(End { attempts: state.attempts, outcome });
        drop(state);
        self.changed.send_replace(());
    }

    /// Returns when nobody wants the answer any more.
    pub(crate) async fn given_up(&self) {
        let mut changed = self.changed.subscribe();
        while !self.state().is_given_up {
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    /// The client has left.
    fn leave(self: &Arc<Self>) {
        let mut state = self.state();
        state.has_client = false;
        let client = state.clients;
        let is_kept = !self.reattach.is_zero() && state.dropped == 0 && state.bytes <= MOST_KEPT;
        let runtime = tokio::runtime::Handle::try_current().ok().filter(|_| is_kept);
        state.is_given_up = runtime.is_none();
        drop(state);
        self.changed.send_replace(());
        let Some(runtime) = runtime else { return };
        self.left.lock().insert(self.key, Arc::downgrade(self));
        let relay = self.clone();
        runtime.spawn(async move {
            tokio::time::sleep(relay.reattach).await;
            let mut state = relay.state();
            if state.has_client || state.clients != client {
                return;
            }
            state.is_given_up = true;
            drop(state);
            let mut left = relay.left.lock();
            if left.get(&relay.key).is_some_and(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(&relay))) {
                left.remove(&relay.key);
            }
            drop(left);
            relay.changed.send_replace(());
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    fn new(relay: Arc<Relay>) -> Self {
        let changed = relay.changed.subscribe();
        Self { relay, changed, next: 0, is_done: false }
    }

    /// The head of the answer.
    pub(crate) async fn head(&mut self) -> Head {
        loop {
            if let Some(head) = self.known_head() {
                return head;
            }
            if self.changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Begins a stream without a head. If there is a head by now, it is returned.
    pub(crate) fn open_early(&self) -> Option<Head> {
        let mut state = self.relay.state();
        state.opened_early |= state.head.is_none();
        state.head.clone()
    }

    /// The head, if there is one.
    pub(crate) fn known_head(&self) -> Option<Head> {
        self.relay.state().head.clone()
    }

    /// What is there now.
    pub(crate) fn next(&mut self) -> Next {
        let mut state = self.relay.state();
        if let Some(chunk) = state.chunks.get(self.next - state.dropped).cloned() {
            self.next += 1;
            state.unread = state.unread.saturating_sub(chunk.len());
            if self.relay.reattach.is_zero() || state.bytes > MOST_KEPT {
                // Nobody reads it from the beginning any more.
                let read = self.next - state.dropped;
                state.chunks.drain(..read);
                state.dropped = self.next;
            }
            drop(state);
            self.relay.changed.send_replace(());
            return Next::Chunk(chunk);
        }
        match state.end {
            Some(end) => Next::End(end),
            None => Next::Nothing,
        }
    }

    /// Waits until something has changed.
    pub(crate) async fn changed(&mut self) {
        if self.changed.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The client has the whole answer.
    pub(crate) fn done(&mut self) {
        self.is_done = true;
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut state = self.relay.state();
        // Clients close the connection when they have read the end marker.
        let has_all = state.is_complete && state.unread == 0;
        if self.is_done || has_all {
            state.has_client = false;
            drop(state);
            self.relay.changed.send_replace(());
        } else {
            drop(state);
            self.relay.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Head, LeftRelays, Relay};
    use crate::errors::Whole;
    use std::sync::Arc;
    use turnstream_llm::Format;
    use turnstream_provider::{Access, Route};

    fn route() -> Route {
        Route {
            name: "main".to_owned(),
            url: "http://127.0.0.1:9/v1".to_owned(),
            format: Format::Chat,
            profile: Route::default_profile(Format::Chat).clone(),
            access: Access::Keyless,
            model: None,
            fallback: Vec::new(),
            attempts: Route::ATTEMPTS,
            first_event: Route::FIRST_EVENT,
            silence: Route::SILENCE,
            longest_wait: Route::LONGEST_WAIT,
            reattach: Route::SILENCE,
        }
    }

    #[tokio::test]
    async fn a_stream_that_began_for_one_client_has_not_begun_for_the_next() {
        let document = || {
            let (headers, body) = (Vec::new(), bytes::Bytes::from_static(b"{}"));
            Head::Whole(Whole { status: 200, headers, body, in_band: None })
        };
        let (left, key) = (Arc::<LeftRelays>::default(), [1; 32]);
        let first = Relay::start(key, &route(), left.clone());
        let relay = first.relay.clone();
        assert!(first.open_early().is_none());
        assert!(!relay.open(document()), "a document within a stream");
        drop(first);
        let next = left.join(&key).unwrap();
        assert!(relay.open(document()) && next.known_head().is_some());
    }
}
