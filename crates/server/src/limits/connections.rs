//! Open connections: a bounded number in all and per client. When there are too many, the connection that is
//! idle for longest is closed in favour of a new one.
//!
//! A connection is idle unless it answers a request that the access check let pass. A client that has not
//! shown its token cannot make it anything else, so such clients never keep others out.

use super::client_address::ClientAddress;
use super::refusals::Limit;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Evicted connections that may still have their descriptor. Until one is closed, no other is evicted, so
/// that the reserve of descriptors is not used up.
const MOST_LEAVING: usize = 32;
/// How long a new connection waits for evicted ones to close.
const CLOSING: Duration = Duration::from_secs(2);

/// The connections of one server.
pub(crate) struct Connections {
    most: usize,
    most_per_address: usize,
    state: Mutex<State>,
    /// An evicted connection was closed.
    closed: Notify,
}

#[derive(Default)]
struct State {
    open: HashMap<u64, Open>,
    by_address: HashMap<ClientAddress, usize>,
    /// Idle connections, the one that is idle for longest first.
    idle: BTreeMap<u64, u64>,
    /// Numbers connections, and moments at which one became idle.
    last: u64,
    leaving: usize,
    evicted: u64,
}

/// An open connection.
struct Open {
    address: ClientAddress,
    /// Its place in `State::idle`.
    idle: Option<u64>,
    evict: Arc<Notify>,
}

/// Why there is no place for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// There are too many connections.
    InAll,
    /// The client has too many connections.
    OfAddress,
}

/// The place of one connection, which is free again when this is dropped.
pub(crate) struct Slot {
    connections: Arc<Connections>,
    id: u64,
    evict: Arc<Notify>,
}

/// A request that is being answered: its connection is not idle.
pub(crate) struct ActiveRequest(Option<Arc<Slot>>);

// === impl Connections ===

impl Connections {
    pub(crate) fn new(most: usize, most_per_address: usize) -> Arc<Self> {
        Arc::new(Self { most, most_per_address, state: Mutex::default(), closed: Notify::new() })
    }

    /// Takes a place for a new connection. Evicted connections get a moment to close.
    pub(crate) async fn admit(self: &Arc<Self>, ip: IpAddr) -> Result<Arc<Slot>, NoPlace> {
        let mut over = std::pin::pin!(tokio::time::sleep(CLOSING));
        loop {
            let admitted = self.try_admit(ip);
            if admitted.is_ok() || !self.is_making_room() {
                return admitted;
            }
            tokio::select! {
                () = self.closed.notified() => {}
                () = &mut over => return admitted,
            }
        }
    }

    fn try_admit(self: &Arc<Self>, ip: IpAddr) -> Result<Arc<Slot>, NoPlace> {
        let address = ClientAddress::from(ip);
        let mut state = self.state();
        let of_address = state.by_address.get(&address).copied().unwrap_or_default();
        if of_address >= self.most_per_address && !state.evict(|open| open.address == address) {
            return Err(NoPlace::OfAddress);
        }
        if state.open.len() >= self.most && !state.evict(|_| true) {
            return Err(NoPlace::InAll);
        }
        let (id, evict) = (state.next(), Arc::new(Notify::new()));
        state.open.insert(id, Open { address, idle: None, evict: evict.clone() });
        *state.by_address.entry(address).or_default() += 1;
        state.set_idle(id);
        drop(state);
        Ok(Arc::new(Slot { connections: self.clone(), id, evict }))
    }

    /// Whether evicted connections still have to be closed.
    fn is_making_room(&self) -> bool {
        self.state().leaving > 0
    }

    /// The number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.state().open.len()
    }

    /// Most open connections.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Most open connections of one client.
    pub(crate) fn most_per_address(&self) -> usize {
        self.most_per_address
    }

    /// How many idle connections were closed in favour of new ones.
    pub(crate) fn evicted(&self) -> u64 {
        self.state().evicted
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl NoPlace ===

impl NoPlace {
    /// The limit that is reached.
    pub(crate) fn limit(self) -> Limit {
        match self {
            Self::InAll => Limit::Connections,
            Self::OfAddress => Limit::ConnectionsPerAddress,
        }
    }
}

// === impl State ===

impl State {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn set_idle(&mut self, id: u64) {
        let since = self.next();
        if let Some(open) = self.open.get_mut(&id) {
            open.idle = Some(since);
            self.idle.insert(since, id);
        }
    }

    /// `None` if the connection was evicted.
    fn set_active(&mut self, id: u64) -> Option<()> {
        if let Some(since) = self.open.get_mut(&id)?.idle.take() {
            self.idle.remove(&since);
        }
        Some(())
    }

    /// Closes the connection that is idle for longest, of those that may go.
    fn evict(&mut self, may_go: impl Fn(&Open) -> bool) -> bool {
        if self.leaving >= MOST_LEAVING {
            return false;
        }
        let longest = self.idle.values().copied().find(|id| self.open.get(id).is_some_and(&may_go));
        let Some(open) = longest.and_then(|id| self.remove(id)) else { return false };
        open.evict.notify_one();
        self.leaving += 1;
        self.evicted += 1;
        true
    }

    fn remove(&mut self, id: u64) -> Option<Open> {
        let open = self.open.remove(&id)?;
        if let Some(since) = open.idle {
            self.idle.remove(&since);
        }
        if let Some(count) = self.by_address.get_mut(&open.address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&open.address);
            }
        }
        Some(open)
    }
}

// === impl Slot ===

impl Slot {
    /// Returns when the connection has to be closed for another one.
    pub(crate) async fn evicted(&self) {
        self.evict.notified().await;
    }

    /// A request has arrived. `None` if the connection is being closed for another one.
    pub(crate) fn begin_request(self: &Arc<Self>) -> Option<ActiveRequest> {
        self.connections.state().set_active(self.id)?;
        Some(ActiveRequest(Some(self.clone())))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.connections.state();
        if state.remove(self.id).is_none() {
            // It was evicted, and its descriptor is free now.
            state.leaving -= 1;
            self.connections.closed.notify_one();
        }
    }
}

// === impl ActiveRequest ===

impl ActiveRequest {
    /// The connection is a WebSocket now, and is never idle again.
    pub(crate) fn upgraded(mut self) {
        self.0 = None;
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        if let Some(slot) = &self.0 {
            slot.connections.state().set_idle(slot.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Connections, MOST_LEAVING, NoPlace};
    use futures_util::FutureExt;
    use std::net::IpAddr;

    fn ip(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[test]
    fn the_connection_that_is_idle_for_longest_goes_first_and_an_active_one_never() {
        let connections = Connections::new(3, 3);
        let [first, second, third] = [1, 2, 3].map(|last| connections.try_admit(ip(last)).unwrap());
        let request = second.begin_request().unwrap();
        drop(first.begin_request().unwrap());
        let fourth = connections.try_admit(ip(4)).unwrap();
        assert!(third.evicted().now_or_never().is_some(), "first was used since");
        assert!(third.begin_request().is_none());
        let fifth = connections.try_admit(ip(5)).unwrap();
        assert!(first.evicted().now_or_never().is_some());
        assert!(second.evicted().now_or_never().is_none());
        let active = [fourth.begin_request().unwrap(), fifth.begin_request().unwrap()];
        assert_eq!(connections.try_admit(ip(6)).err(), Some(NoPlace::InAll));
        drop(request);
        assert!(connections.try_admit(ip(6)).is_ok());
        assert_eq!((connections.open(), connections.evicted()), (2, 3));
        drop((first, second, third, active, fourth, fifth));
        assert_eq!(connections.open(), 0);
    }

    #[test]
    fn a_client_that_has_too_many_makes_room_for_itself_only() {
        let connections = Connections::new(10, 2);
        let other = connections.try_admit(ip(1)).unwrap();
        let mine = [(); 2].map(|()| connections.try_admit(ip(2)).unwrap());
        let third = connections.try_admit(ip(2)).unwrap();
        assert!(mine[0].evicted().now_or_never().is_some());
        assert!(other.evicted().now_or_never().is_none());
        let _active = [mine[1].begin_request().unwrap(), third.begin_request().unwrap()];
        assert_eq!(connections.try_admit(ip(2)).err(), Some(NoPlace::OfAddress));
        assert!(connections.try_admit(ip(3)).is_ok());
    }

    #[test]
    fn few_evicted_connections_keep_their_descriptors_at_a_time() {
        let connections = Connections::new(MOST_LEAVING + 1, usize::MAX);
        let slots: Vec<_> = (0..=MOST_LEAVING).map(|_| connections.try_admit(ip(1)).unwrap()).collect();
        let more: Vec<_> = (0..MOST_LEAVING).map(|_| connections.try_admit(ip(1)).unwrap()).collect();
        assert_eq!(connections.try_admit(ip(1)).err(), Some(NoPlace::InAll));
        drop(slots);
        assert!(connections.try_admit(ip(1)).is_ok());
        drop(more);
        assert_eq!(connections.open(), 0);
    }

    #[test]
    fn a_websocket_is_never_idle() {
        let connections = Connections::new(1, 1);
        let slot = connections.try_admit(ip(1)).unwrap();
        slot.begin_request().unwrap().upgraded();
        assert_eq!(connections.try_admit(ip(1)).err(), Some(NoPlace::OfAddress));
        drop(slot);
        assert!(connections.try_admit(ip(1)).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_waits_a_moment_for_evicted_ones_to_close() {
        let connections = Connections::new(MOST_LEAVING + 1, usize::MAX);
        let mut slots: Vec<_> =
            (0..=MOST_LEAVING * 2).map(|_| connections.try_admit(ip(1)).unwrap()).collect();
        assert_eq!(connections.admit(ip(1)).await.err(), Some(NoPlace::InAll));
        let (admitted, ()) = tokio::join!(connections.admit(ip(1)), async { drop(slots.remove(0)) });
        assert!(admitted.is_ok());
    }
}
