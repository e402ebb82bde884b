//! One event stream per server and directory, shared by everybody who follows a session there.

use super::directory::Directory;
use super::event::Event;
use super::lineage::Lineage;
use super::queue::{Queue, Weight};
use super::reader;
use super::subscription::{BusItem, Closed, Loss, Subscription};
use super::transport::Transport;
use crate::counts::{Counted, Counters};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// How streams are read and opened again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusSettings {
    /// Which stream is read.
    pub stream: Stream,
    /// Attempts in a row to open a lost stream again; then the bus is closed. The count starts again with the
    /// first event that shows the stream to be healthy, which `server.connected` does not.
    pub attempts: u32,
    /// The pause before the first attempt; each further one doubles it.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
    /// Bytes that may wait for one subscriber.
    pub queue_bytes: usize,
    /// Bytes of one event; larger ones are told of as [`Lag::Unreadable`](super::Lag::Unreadable).
    pub event_bytes: usize,
    /// How long the stream stays open without a subscriber.
    pub linger: Duration,
}

/// Which stream of the server is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// `/event`: the events of the directory.
    Directory,
    /// `/global/event`: of all directories, and the numbers of durable events ([`BusItem::Durable`]). opencode calls these
    /// experimental.
    Global,
}

impl Default for BusSettings {
    fn default() -> Self {
        Self {
            stream: Stream::Directory,
            attempts: 3,
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(30),
            queue_bytes: 32 * 1024 * 1024,
            event_bytes: 16 * 1024 * 1024,
            linger: Duration::from_secs(30),
        }
    }
}

/// The events of one directory of one server. Clones are the same bus.
#[derive(Debug, Clone)]
pub struct Bus {
    shared: Arc<Shared>,
}

/// What the handles, the subscriptions and the reader of a bus share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) transport: Arc<Transport>,
    pub(super) directory: Directory,
    pub(super) settings: BusSettings,
    pub(super) counters: Counters,
    state: Mutex<State>,
    /// How many subscribers there are.
    wanted: watch::Sender<usize>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// The stream was lost and is not there again.
    was_lost: bool,
    lineage: Lineage,
    subscribers: HashMap<u64, Subscriber>,
    next: u64,
    audience: Vec<u64>,
}

#[derive(Debug, Clone)]
enum Phase {
    /// Nobody subscribes, and nothing is read.
    Resting,
    /// The reader opens the stream.
    Opening,
    /// The reader reads it.
    Live,
    /// For good.
    Closed(Closed),
}

#[derive(Debug)]
struct Subscriber {
    queue: Arc<Queue>,
    was_connected: bool,
}

// === impl Bus ===

impl Bus {
    fn new(
        transport: Arc<Transport>,
        directory: Directory,
        settings: BusSettings,
        counters: Counters,
    ) -> Self {
        let state = State {
            phase: Phase::Resting,
            was_lost: false,
            lineage: Lineage::default(),
            subscribers: HashMap::new(),
            next: 0,
            audience: Vec::new(),
        };
        let (wanted, _) = watch::channel(0);
        let state = Mutex::new(state);
        Self { shared: Arc::new(Shared { transport, directory, settings, counters, state, wanted }) }
    }

    /// Follows a session and all that it makes. Starts the reader if it rests, so it has to be called within a runtime.
    pub fn subscribe(&self, root_session: &str) -> Subscription {
        let shared = &self.shared;
        let queue = Arc::new(Queue::new(shared.settings.queue_bytes));
        let mut state = shared.state();
        let id = state.next;
        state.next += 1;
        let mut was_connected = false;
        match &state.phase {
            Phase::Resting => {
                state.phase = Phase::Opening;
                tokio::spawn(reader::run(Arc::clone(shared)));
            }
            Phase::Opening => {}
            Phase::Live => {
                was_connected = true;
                queue.put(BusItem::Connected { gap: false }, Weight::Stream);
            }
            Phase::Closed(reason) => queue.close(reason.clone()),
        }
        state.subscribers.insert(id, Subscriber { queue: Arc::clone(&queue), was_connected });
        state.lineage.listen(root_session, id);
        shared.wanted.send_replace(state.subscribers.len());
        drop(state);
        Subscription::new(Arc::clone(shared), queue, id)
    }

    /// Its directory.
    pub fn directory(&self) -> &Directory {
        &self.shared.directory
    }

    /// True when nothing will come any more. A new one is to be had from the client.
    pub fn is_closed(&self) -> bool {
        matches!(self.shared.state().phase, Phase::Closed(_))
    }

    /// Nobody has use for it: it is closed, or rests and only the client knows it.
    fn is_unused(&self) -> bool {
        match self.shared.state().phase {
            Phase::Closed(_) => true,
            Phase::Resting => Arc::strong_count(&self.shared) == 1,
            Phase::Opening | Phase::Live => false,
        }
    }
}

// === impl Shared ===

impl Shared {
    /// Poisoned or not, it is whole: no operation below leaves it half done.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn adopt(&self, subscriber: u64, child: &str) {
        self.state().lineage.listen(child, subscriber);
    }

    pub(super) fn unsubscribe(&self, subscriber: u64) {
        let mut state = self.state();
        state.subscribers.remove(&subscriber);
        state.lineage.forget(subscriber);
        self.wanted.send_replace(state.subscribers.len());
    }

    /// Returns when nobody has subscribed for the time the stream lingers.
    pub(super) async fn unwanted(&self) {
        let mut wanted = self.wanted.subscribe();
        loop {
            // The sender lives in `self`, so neither wait can fail.
            let _ = wanted.wait_for(|count| *count == 0).await;
            let again = wanted.wait_for(|count| *count > 0);
            if tokio::time::timeout(self.settings.linger, again).await.is_err() {
                return;
            }
        }
    }

    /// Lets the reader go if still nobody subscribes.
    pub(super) fn rest(&self) -> bool {
        let mut state = self.state();
        let unwanted = state.subscribers.is_empty();
        if unwanted {
            state.phase = Phase::Resting;
        }
        unwanted
    }

    /// The stream is there.
    pub(super) fn connected(&self) {
        let mut state = self.state();
        state.phase = Phase::Live;
        if std::mem::take(&mut state.was_lost) {
            self.counters.count(Counted::StreamReconnect);
        }
        for subscriber in state.subscribers.values_mut() {
            let gap = std::mem::replace(&mut subscriber.was_connected, true);
            subscriber.queue.put(BusItem::Connected { gap }, Weight::Stream);
        }
    }

    /// The stream is gone; another attempt comes.
    pub(super) fn lost(&self, reason: &Loss, attempt: u32) {
        let mut state = self.state();
        (state.phase, state.was_lost) = (Phase::Opening, true);
        drop(state);
        self.tell_all(&BusItem::Lost { reason: reason.clone(), attempt });
    }

    /// Tells every subscriber something about the stream.
    pub(super) fn tell_all(&self, item: &BusItem) {
        for subscriber in self.state().subscribers.values() {
            subscriber.queue.put(item.clone(), Weight::Stream);
        }
    }

    /// Ends the bus for good.
    pub(super) fn close(&self, reason: &Closed) {
        let mut state = self.state();
        state.phase = Phase::Closed(reason.clone());
        for subscriber in state.subscribers.values() {
            subscriber.queue.close(reason.clone());
        }
    }

    /// Hands an event to those it concerns.
    pub(super) fn deliver(&self, event: Event, bytes: usize) {
        let mut state = self.state();
        let State { lineage, subscribers, audience, .. } = &mut *state;
        if let Some((child, parent)) = event.new_child() {
            lineage.learn(child, parent);
        }
        match event.session() {
            Some(session) => lineage.audience(session, audience),
            // Which session it ends is for the subscribers to find out.
            None if event.is_terminal_without_session() && self.is_ours(&event) => {
                audience.clear();
                audience.extend(subscribers.keys());
            }
            None => return,
        }
        let weight = if event.is_control() { Weight::Control(bytes) } else { Weight::Content(bytes) };
        let event = Arc::new(event);
        for subscriber in audience.iter().filter_map(|id| subscribers.get(id)) {
            subscriber.queue.put(BusItem::Event(Arc::clone(&event)), weight);
        }
    }

    /// Hands over the number of a durable event.
    pub(super) fn durable(&self, session: &str, seq: u64) {
        let mut state = self.state();
        let State { lineage, subscribers, audience, .. } = &mut *state;
        lineage.audience(session, audience);
        for subscriber in audience.iter().filter_map(|id| subscribers.get(id)) {
            let item = BusItem::Durable { session: session.to_owned(), seq };
            subscriber.queue.put(item, Weight::Content(session.len()));
        }
    }

    /// `/global/event` tells of all directories. Links are resolved in what it says, so a path that differs may be ours.
    fn is_ours(&self, event: &Event) -> bool {
        let Some(theirs) = event.directory() else { return true };
        let ours = self.directory.as_path();
        theirs == self.directory.as_str() || ours.canonicalize().is_ok_and(|ours| ours.as_os_str() == theirs)
    }
}

/// The buses of one client.
#[derive(Debug)]
pub(super) struct Buses {
    settings: BusSettings,
    known: Mutex<HashMap<Directory, Bus>>,
}

// === impl Buses ===

impl Buses {
    pub(super) fn new(settings: BusSettings) -> Self {
        Self { settings, known: Mutex::default() }
    }

    pub(super) fn settings(&self) -> &BusSettings {
        &self.settings
    }

    pub(super) fn get(&self, transport: &Arc<Transport>, counters: &Counters, directory: &Directory) -> Bus {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bus) = known.get(directory)
            && !bus.is_closed()
        {
            return bus.clone();
        }
        known.retain(|_, bus| !bus.is_unused());
        let settings = self.settings.clone();
        let bus = Bus::new(Arc::clone(transport), directory.clone(), settings, counters.clone());
        known.insert(directory.clone(), bus.clone());
        bus
    }
}
