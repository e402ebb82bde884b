//! One event stream per server and directory, shared by all its subscribers.

use super::directory::Directory;
use super::event::Event;
use super::lineage::Lineage;
use super::queue::{Queue, Weight};
use super::stream_reader;
use super::subscription::{BusItem, Closed, Loss, Subscription};
use super::transport::Transport;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use turnstream_adapter::{Counted, Counters};

/// How event streams are read and reconnected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusSettings {
    /// Attempts in a row to reconnect a lost stream; then the bus is closed. The first event after
    /// `server.connected` resets the count.
    pub attempts: u32,
    /// The pause before the first attempt. Each further attempt doubles it.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
    /// The size of the queue of one subscriber, in bytes.
    pub queue_bytes: usize,
    /// The size of one event in bytes. Larger ones are reported as
    /// [`Lag::Unreadable`](super::Lag::Unreadable).
    pub event_bytes: usize,
    /// How long the stream stays open without subscribers.
    pub linger: Duration,
}

impl Default for BusSettings {
    fn default() -> Self {
        Self {
            attempts: 3,
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(30),
            queue_bytes: 32 * 1024 * 1024,
            event_bytes: 16 * 1024 * 1024,
            linger: Duration::from_secs(30),
        }
    }
}

/// The event stream of one directory of one server. Clones share it.
#[derive(Debug, Clone)]
pub struct Bus {
    shared: Arc<Shared>,
}

/// The state shared by the handles, the subscriptions and the reader of a bus.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) transport: Arc<Transport>,
    pub(super) directory: Directory,
    pub(super) settings: BusSettings,
    pub(super) counters: Counters,
    state: Mutex<State>,
    /// The number of subscribers.
    wanted: watch::Sender<usize>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// The stream was lost and is not yet reconnected.
    was_lost: bool,
    lineage: Lineage,
    subscribers: HashMap<u64, Subscriber>,
    next: u64,
    audience: Vec<u64>,
}

#[derive(Debug, Clone)]
enum Phase {
    /// There are no subscribers, and nothing is read.
    Resting,
    /// The reader is opening the stream.
    Opening,
    /// The reader is reading the stream.
    Live,
    /// The bus is closed for good.
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

    /// Subscribes to a session and its descendants. Must be called within a runtime: it may start the reader.
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
                tokio::spawn(stream_reader::run(Arc::clone(shared)));
            }
            Phase::Opening => {}
            Phase::Live => {
                was_connected = true;
                queue.push(BusItem::Connected { gap: false }, Weight::Stream);
            }
            Phase::Closed(reason) => queue.close(reason.clone()),
        }
        state.subscribers.insert(id, Subscriber { queue: Arc::clone(&queue), was_connected });
        state.lineage.listen(root_session, id);
        shared.wanted.send_replace(state.subscribers.len());
        drop(state);
        Subscription::new(Arc::clone(shared), queue, id)
    }

    /// The directory of the bus.
    pub fn directory(&self) -> &Directory {
        &self.shared.directory
    }

    /// True when nothing more will arrive. [`Client::bus`](super::Client::bus) then opens a new one.
    pub fn is_closed(&self) -> bool {
        matches!(self.shared.state().phase, Phase::Closed(_))
    }

    /// True when it is closed, or when nothing is read and only the client holds it.
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
    /// A poisoned lock is fine: no operation leaves the state inconsistent.
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

    /// Returns when there have been no subscribers for [`BusSettings::linger`].
    pub(super) async fn unwanted(&self) {
        let mut wanted = self.wanted.subscribe();
        loop {
            // A closed channel would mean that nobody can subscribe. It cannot close: the sender is in
            // `self`.
            if wanted.wait_for(|count| *count == 0).await.is_err() {
                return;
            }
            let again = wanted.wait_for(|count| *count > 0);
            if tokio::time::timeout(self.settings.linger, again).await.is_err() {
                return;
            }
        }
    }

    /// Marks the bus as resting if there are still no subscribers. Returns whether the reader may stop.
    pub(super) fn rest(&self) -> bool {
        let mut state = self.state();
        let unwanted = state.subscribers.is_empty();
        if unwanted {
            state.phase = Phase::Resting;
        }
        unwanted
    }

    /// The stream is open.
    pub(super) fn connected(&self) {
        let mut state = self.state();
        state.phase = Phase::Live;
        if std::mem::take(&mut state.was_lost) {
            self.counters.count(Counted::StreamReconnect);
            tracing::debug!(directory = %self.directory, "event stream reconnected");
        }
        for subscriber in state.subscribers.values_mut() {
            let gap = std::mem::replace(&mut subscriber.was_connected, true);
            subscriber.queue.push(BusItem::Connected { gap }, Weight::Stream);
        }
    }

    /// The stream is lost; this attempt follows.
    pub(super) fn lost(&self, reason: &Loss, attempt: u32) {
        let mut state = self.state();
        (state.phase, state.was_lost) = (Phase::Opening, true);
        drop(state);
        self.send_to_all(&BusItem::Lost { reason: reason.clone(), attempt });
    }

    /// Sends an item to every subscriber.
    pub(super) fn send_to_all(&self, item: &BusItem) {
        for subscriber in self.state().subscribers.values() {
            subscriber.queue.push(item.clone(), Weight::Stream);
        }
    }

    /// Closes the bus for good.
    pub(super) fn close(&self, reason: &Closed) {
        let mut state = self.state();
        state.phase = Phase::Closed(reason.clone());
        for subscriber in state.subscribers.values() {
            subscriber.queue.close(reason.clone());
        }
    }

    /// Delivers an event to the subscribers of its session.
    pub(super) fn deliver(&self, event: Event, bytes: usize) {
        let mut state = self.state();
        let State { lineage, subscribers, audience, .. } = &mut *state;
        if let Some((child, parent)) = event.new_child() {
            lineage.learn(child, parent);
        }
        match event.session() {
            Some(session) => lineage.audience(session, audience),
            // Each subscriber has to find out whether it was its session that ended.
            None if event.is_terminal_without_session() => {
                audience.clear();
                audience.extend(subscribers.keys());
            }
            None => return,
        }
        let weight = if event.is_control() { Weight::Control(bytes) } else { Weight::Content(bytes) };
        let event = Arc::new(event);
        for subscriber in audience.iter().filter_map(|id| subscribers.get(id)) {
            subscriber.queue.push(BusItem::Event(Arc::clone(&event)), weight);
        }
    }
}

/// The buses of one client, by directory.
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
