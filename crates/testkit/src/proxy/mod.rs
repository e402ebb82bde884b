//! The fault proxy: between a client and any TCP or HTTP/1 upstream on loopback, with real sockets.
//!
//! Without rules a [`FaultProxy`] passes every byte unchanged. A [`Rule`] says which [`Fault`] happens
//! where and how often. Rules can be added and removed at any time, also in the middle of an event stream.
//! [`FaultProxy::wait_fired`] checks that a fault really happened.
//!
//! Events are changed inside valid HTTP:
//!
//! - A chunked body passes in the upstream's own chunks until a rule about events or a splice applies. From
//!   the next chunk on the proxy makes its own chunks. Invalid framing, and everything after it, passes
//!   unchanged.
//! - A body with a content length is edited only if such a rule exists when its head passes. It is then
//!   sent in chunks, so the client must speak HTTP/1.1.

mod body;
mod buffered_reader;
mod connection;
mod editor;
mod events;
mod http;
mod rules;
mod sender;
mod shared_state;

pub use events::SseEvent;
pub use rules::{
    Action, Edit, Ending, EventMatch, Fault, Pace, Point, RequestHead, Rest, Rule, RuleId, Which,
};
pub use shared_state::{ConnectionRecord, Fired, Record};

use connection::Protocol;
use shared_state::SharedState;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};

/// The most connections at a time. Further ones are closed at once.
const CONNECTIONS: usize = 1024;

/// A running proxy. Dropping it ends the listener and all connections.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<SharedState>,
    doors: mpsc::Sender<(Door, oneshot::Sender<std::io::Result<()>>)>,
    task: JoinHandle<()>,
}

/// Whether the proxy listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Open,
    Closed,
}

/// An error of the proxy itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The upstream is not on loopback.
    #[error("fault proxy: the upstream {0} is not a loopback address; start it on 127.0.0.1")]
    NotLoopback(SocketAddr),
    /// The proxy cannot listen on its port.
    #[error("fault proxy: cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// The rule did not fire as often as expected in time.
    #[error(
        "fault proxy: {rule:?} fired {fired} of {expected} times within {waited:?}; seen so far: {record:?}"
    )]
    NotFired {
        /// The rule.
        rule: RuleId,
        /// How often it fired.
        fired: u64,
        /// How often it should have fired.
        expected: u64,
        /// The length of the wait.
        waited: Duration,
        /// Everything that happened so far.
        record: Box<Record>,
    },
    /// The proxy's task has ended.
    #[error("fault proxy: its task has ended; it must not outlive the runtime it was started in")]
    Gone,
}

// === impl FaultProxy ===

impl FaultProxy {
    /// A proxy for an HTTP/1 upstream. Bytes that are not HTTP pass unchanged.
    pub async fn http(upstream: SocketAddr) -> Result<Self, ProxyError> {
        Self::start(upstream, Protocol::Http).await
    }

    /// A proxy for any upstream, with faults by byte only.
    pub async fn tcp(upstream: SocketAddr) -> Result<Self, ProxyError> {
        Self::start(upstream, Protocol::Tcp).await
    }

    async fn start(upstream: SocketAddr, protocol: Protocol) -> Result<Self, ProxyError> {
        if !upstream.ip().is_loopback() {
            return Err(ProxyError::NotLoopback(upstream));
        }
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let failed = |source| ProxyError::Listen { address: any, source };
        let listener = TcpListener::bind(any).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(SharedState::new());
        let (doors, commands) = mpsc::channel(1);
        let task = tokio::spawn(accept(listener, commands, Arc::clone(&shared), protocol, upstream));
        Ok(Self { address, shared, doors, task })
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL for clients, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds a rule. It applies at once, also to running responses.
    pub fn add(&self, rule: Rule) -> RuleId {
        self.shared.add(rule)
    }

    /// Removes a rule.
    pub fn remove(&self, id: RuleId) {
        self.shared.remove(|known| known != id);
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.shared.remove(|_| false);
    }

    /// How often a rule has fired.
    pub fn fired(&self, id: RuleId) -> u64 {
        self.shared.fired(id)
    }

    /// Waits until a rule has fired this many times.
    pub async fn wait_fired(&self, id: RuleId, times: u64, deadline: Duration) -> Result<(), ProxyError> {
        let mut firings = self.shared.firings.subscribe();
        let enough = firings.wait_for(|_| self.shared.fired(id) >= times);
        match tokio::time::timeout(deadline, enough).await {
            Ok(_) => Ok(()),
            Err(_) => Err(ProxyError::NotFired {
                rule: id,
                fired: self.shared.fired(id),
                expected: times,
                waited: deadline,
                record: Box::new(self.shared.record()),
            }),
        }
    }

    /// Everything that happened so far.
    pub fn record(&self) -> Record {
        self.shared.record()
    }

    /// Ends all connections now.
    pub fn cut_all(&self, ending: Ending) {
        self.shared.cuts.send_replace(Some(ending));
    }

    /// Continues all stalled responses.
    pub fn release(&self) {
        self.shared.releases.send_modify(|count| *count += 1);
    }

    /// Stops listening, so that new clients are refused. Open connections continue.
    pub async fn stop_listening(&self) -> Result<(), ProxyError> {
        self.door(Door::Closed).await
    }

    /// Listens again on the same port.
    pub async fn listen_again(&self) -> Result<(), ProxyError> {
        self.door(Door::Open).await
    }

    /// Ends the listener and all connections, and waits for them.
    pub async fn shutdown(mut self) {
        self.task.abort();
        // The task was aborted above.
        let _ = (&mut self.task).await;
    }

    async fn door(&self, door: Door) -> Result<(), ProxyError> {
        let (answer, answered) = oneshot::channel();
        self.doors.send((door, answer)).await.map_err(|_| ProxyError::Gone)?;
        let moved = answered.await.map_err(|_| ProxyError::Gone)?;
        moved.map_err(|source| ProxyError::Listen { address: self.address, source })
    }
}

impl Drop for FaultProxy {
    /// The task owns the listener and all connections.
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(
    listener: TcpListener,
    mut doors: mpsc::Receiver<(Door, oneshot::Sender<std::io::Result<()>>)>,
    shared: Arc<SharedState>,
    protocol: Protocol,
    upstream: SocketAddr,
) {
    let Ok(address) = listener.local_addr() else { return };
    let mut listener = Some(listener);
    let mut connections = JoinSet::new();
    let mut number = 0;
    loop {
        tokio::select! {
            accepted = next_client(listener.as_ref()) => {
                let Ok(client) = accepted else {
                    // The client is gone, or there are no descriptors left. Wait a moment.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                };
                if connections.len() >= CONNECTIONS {
                    continue;
                }
                number += 1;
                shared.note_connection();
                connections.spawn(connection::serve(Arc::clone(&shared), protocol, upstream, number, client));
            }
            Some((door, answer)) = doors.recv() => {
                let moved = match door {
                    Door::Closed => {
                        listener = None;
                        Ok(())
                    }
                    Door::Open if listener.is_some() => Ok(()),
                    Door::Open => TcpListener::bind(address).await.map(|bound| listener = Some(bound)),
                };
                // The caller is gone.
                let _ = answer.send(moved);
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Accepts a client; waits forever while the proxy does not listen.
async fn next_client(listener: Option<&TcpListener>) -> std::io::Result<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.map(|(client, _)| client),
        None => std::future::pending().await,
    }
}
