//! Idle connections to providers.
//!
//! A connection is kept only if the answer on it was read to its end, and if hyper says that it can carry
//! another request. A request that was written is never written again: if its connection breaks, the caller
//! gets the failure, and whoever owns the retries decides (L11). Only a request of which no byte was written
//! goes to another connection, because the provider had closed the first one while it was idle.

use super::address::{Address, Scheme};
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

/// How long a connection may be idle. Servers close them after a minute or later.
const IDLE: Duration = Duration::from_secs(30);
/// Idle connections to one provider.
const MOST_IDLE: usize = 64;
/// How long a connection may take until it can carry another request.
const READY: Duration = Duration::from_secs(1);

/// The server of a connection.
type Server = (Scheme, String, u16);

/// Idle connections.
#[derive(Default)]
pub(super) struct Pool(Mutex<State>);

#[derive(Default)]
struct State {
    idle: HashMap<Server, Vec<Idle>>,
    /// A task closes those that are idle for too long.
    is_swept: bool,
}

struct Idle {
    connection: Connection,
    since: Instant,
}

/// A connection, with the task that drives it. Dropping it closes it.
pub(super) struct Connection {
    pub(super) sender: SendRequest<Full<Bytes>>,
    task: AbortHandle,
}

/// Where a connection goes when its answer was read to the end.
pub(super) struct Home {
    pool: Arc<Pool>,
    server: Server,
}

impl Connection {
    pub(super) fn new(sender: SendRequest<Full<Bytes>>, task: AbortHandle) -> Self {
        Self { sender, task }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Pool {
    /// The place of connections to this server.
    pub(super) fn home(self: &Arc<Self>, address: &Address) -> Home {
        Home { pool: self.clone(), server: (address.scheme, address.host.clone(), address.port) }
    }

    /// Closes what is idle for too long, until there is nothing left.
    async fn sweep(&self) {
        loop {
            tokio::time::sleep(IDLE / 2).await;
            let mut state = self.lock();
            state.idle.retain(|_, idle| {
                idle.retain(|idle| idle.since.elapsed() < IDLE && !idle.connection.sender.is_closed());
                !idle.is_empty()
            });
            if state.idle.is_empty() {
                state.is_swept = false;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Home {
    /// A connection that can carry a request: the one that was used last.
    pub(super) fn take(&self) -> Option<Connection> {
        let mut state = self.pool.lock();
        let idle = state.idle.get_mut(&self.server)?;
        while let Some(Idle { connection, since }) = idle.pop() {
            if since.elapsed() < IDLE && connection.sender.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection whose answer was read to the end.
    pub(super) fn give_back(self, mut connection: Connection) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if !matches!(timeout(READY, connection.sender.ready()).await, Ok(Ok(()))) {
                return;
            }
            {
                let mut state = self.pool.lock();
                let idle = state.idle.entry(self.server).or_default();
                if idle.len() >= MOST_IDLE {
                    return;
                }
                idle.push(Idle { connection, since: Instant::now() });
                if std::mem::replace(&mut state.is_swept, true) {
                    return;
                }
            }
            self.pool.sweep().await;
        });
    }
}
