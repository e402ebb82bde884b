//! A fault proxy for any TCP or HTTP/1 upstream on loopback, with real sockets.
//!
//! A [`FaultProxy`] stands between a client and its upstream. Without rules it passes every byte as it comes. A
//! [`Rule`] says which [`Fault`] happens where and how often; rules come and go while connections live, also
//! in the middle of an event stream. Whether a fault really fired can be asked, so that no test passes because
//! nothing happened.
//!
//! Events are changed inside valid HTTP. A chunked body passes in the upstream's own chunks, sizes and extensions
//! included, until a rule about events or a splice applies to it; from the next chunk of the upstream on it comes in
//! chunks of the proxy's making. Framing that makes no sense, and what follows it, passes as it is. A body with a content
//! length is taken apart only if such a rule is there when its head passes; it then comes in chunks, so the client
//! must speak HTTP/1.1.

mod body;
mod book;
mod connection;
mod edit;
mod events;
mod http;
mod rules;
mod sender;
mod source;

pub use book::{ConnectionRecord, Fired, Record};
pub use events::SseEvent;
pub use rules::{
    Action, Edit, Ending, EventMatch, Fault, Pace, Point, RequestHead, Rest, Rule, RuleId, Which,
};

use book::Book;
use connection::Protocol;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};

/// More connections at a time than this are closed at once.
const CONNECTIONS: usize = 1024;

/// A running proxy. Dropping it ends the listener and all connections.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    book: Arc<Book>,
    doors: mpsc::Sender<(Door, oneshot::Sender<std::io::Result<()>>)>,
    task: JoinHandle<()>,
}

/// Whether the port is listened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Open,
    Closed,
}

/// What can go wrong with the proxy itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// Tests must not reach other machines.
    #[error("fault proxy: the upstream {0} is not a loopback address; start it on 127.0.0.1")]
    NotLoopback(SocketAddr),
    /// The port could not be listened on.
    #[error("fault proxy: cannot listen on {address}: {source}")]
    Listen {
        /// The address tried.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The rule did not fire as often as expected in time.
    #[error(
        "fault proxy: {rule:?} fired {fired} of {expected} times within {waited:?}; seen so far: {record:?}"
    )]
    NotFired {
        /// Which rule.
        rule: RuleId,
        /// How often it fired.
        fired: u64,
        /// How often it was to fire.
        expected: u64,
        /// How long was waited.
        waited: Duration,
        /// Everything that happened.
        record: Box<Record>,
    },
    /// The proxy's task is gone.
    #[error("fault proxy: its task has ended; it must not outlive the runtime it was started in")]
    Gone,
}

// === impl FaultProxy ===

impl FaultProxy {
    /// A proxy for an HTTP/1 upstream. What turns out not to be HTTP passes untouched.
    pub async fn http(upstream: SocketAddr) -> Result<Self, ProxyError> {
        Self::start(upstream, Protocol::Http).await
    }

    /// A proxy for any upstream, which looks at nothing but bytes.
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
        let book = Arc::new(Book::new());
        let (doors, commands) = mpsc::channel(1);
        let task = tokio::spawn(accept(listener, commands, Arc::clone(&book), protocol, upstream));
        Ok(Self { address, book, doors, task })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a base URL without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds a rule, which holds from now on, also for responses under way.
    pub fn add(&self, rule: Rule) -> RuleId {
        self.book.add(rule)
    }

    /// Removes a rule.
    pub fn remove(&self, id: RuleId) {
        self.book.remove(|known| known != id);
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.book.remove(|_| false);
    }

    /// How often a rule has fired.
    pub fn fired(&self, id: RuleId) -> u64 {
        self.book.fired(id)
    }

    /// Waits until a rule has fired so many times.
    pub async fn wait_fired(&self, id: RuleId, times: u64, deadline: Duration) -> Result<(), ProxyError> {
        let mut firings = self.book.firings.subscribe();
        let enough = firings.wait_for(|_| self.book.fired(id) >= times);
        match tokio::time::timeout(deadline, enough).await {
            Ok(_) => Ok(()),
            Err(_) => Err(ProxyError::NotFired {
                rule: id,
                fired: self.book.fired(id),
                expected: times,
                waited: deadline,
                record: Box::new(self.book.record()),
            }),
        }
    }

    /// Everything that happened so far.
    pub fn record(&self) -> Record {
        self.book.record()
    }

    /// Ends all connections now.
    pub fn cut_all(&self, ending: Ending) {
        self.book.cuts.send_replace(Some(ending));
    }

    /// Lets all stalled responses go on.
    pub fn release(&self) {
        self.book.releases.send_modify(|count| *count += 1);
    }

    /// Stops listening: clients are refused by the system. Open connections live on.
    pub async fn close_door(&self) -> Result<(), ProxyError> {
        self.door(Door::Closed).await
    }

    /// Listens again on the same port.
    pub async fn open_door(&self) -> Result<(), ProxyError> {
        self.door(Door::Open).await
    }

    /// Ends the listener and all connections, and returns when they are gone.
    pub async fn shutdown(mut self) {
        self.task.abort();
        // Cancelled, as it was told to be.
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
    book: Arc<Book>,
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
                    // One client that is gone again, or no descriptors left, which takes a moment to get better.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                };
                if connections.len() >= CONNECTIONS {
                    continue;
                }
                number += 1;
                book.note_connection();
                connections.spawn(connection::serve(Arc::clone(&book), protocol, upstream, number, client));
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
                // Nobody waits any more: nobody is to be told.
                let _ = answer.send(moved);
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// With the door closed no client ever comes.
async fn next_client(listener: Option<&TcpListener>) -> std::io::Result<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.map(|(client, _)| client),
        None => std::future::pending().await,
    }
}
