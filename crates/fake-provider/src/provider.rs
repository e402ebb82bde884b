//! The running provider and the handle a test holds.

use crate::connection::Connection;
use crate::record::{BODIES_CAP, Calls, Record, Request};
use crate::script::Script;
use crate::serve::Desk;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

/// Clients served at once; further ones wait in the backlog of the socket.
const CONNECTION_CAP: usize = 256;

/// A provider on loopback. Dropping it ends every connection.
#[derive(Debug)]
pub struct Provider {
    address: SocketAddr,
    record: Record,
    accepting: JoinHandle<()>,
}

/// Why a provider did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// Scripts answer anyone who asks, and their faults are for tests.
    #[error("a scripted provider serves loopback only, and {0} is not loopback; use 127.0.0.1")]
    NotLoopback(SocketAddr),
    /// The address is taken or not ours.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        error: io::Error,
    },
}

/// A condition did not come true in time.
#[derive(Debug, Error)]
#[error("waited {waited:?} for {wanted}, and saw {seen:#?}")]
pub struct Timeout {
    /// The time that was waited.
    pub waited: Duration,
    /// The condition that did not come true.
    pub wanted: String,
    /// The calls to a model until then: target, model, status, ending.
    pub seen: Vec<String>,
}

impl Provider {
    /// Starts a provider on a free port of 127.0.0.1.
    pub async fn start(script: Script) -> Result<Self, StartError> {
        Self::bind((Ipv4Addr::LOCALHOST, 0).into(), script).await
    }

    /// Starts a provider on this loopback address.
    pub async fn bind(address: SocketAddr, script: Script) -> Result<Self, StartError> {
        if !address.ip().is_loopback() {
            return Err(StartError::NotLoopback(address));
        }
        let listen = |error| StartError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let record = Record::new(BODIES_CAP);
        let accepting = tokio::spawn(accept(listener, Desk::new(script, record.clone())));
        Ok(Self { address, record, accepting })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT`, what Anthropic clients take as their base.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// `http://127.0.0.1:PORT/v1`, what OpenAI clients take as their base.
    pub fn openai_base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Every request so far, in the order of arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.record.all(|_| true)
    }

    /// The calls to a model so far: the requests without probes and lists.
    pub fn calls(&self) -> Vec<Request> {
        self.record.all(|request| request.format.is_some())
    }

    /// Waits until this many calls to a model have arrived, and returns all there are.
    pub async fn wait_for_requests(&self, count: usize, timeout: Duration) -> Result<Vec<Request>, Timeout> {
        let wanted = format!("{count} calls to arrive");
        self.wait(wanted, timeout, |calls| calls.arrived >= count).await
    }

    /// Waits until this many calls to a model have been answered to whatever end, and returns all there are.
    pub async fn wait_for_ends(&self, count: usize, timeout: Duration) -> Result<Vec<Request>, Timeout> {
        let wanted = format!("{count} calls to end");
        self.wait(wanted, timeout, |calls| calls.ended >= count).await
    }

    /// Ends every connection and waits until the port is free.
    pub async fn shutdown(mut self) {
        self.accepting.abort();
        // An aborted task always returns an error.
        drop((&mut self.accepting).await);
    }

    async fn wait(
        &self,
        wanted: String,
        timeout: Duration,
        enough: impl Fn(Calls) -> bool,
    ) -> Result<Vec<Request>, Timeout> {
        let mut changes = self.record.changes();
        let waiting = async {
            while !enough(self.record.calls()) {
                if changes.changed().await.is_err() {
                    // No change can come any more, so only the timeout is left.
                    std::future::pending::<()>().await;
                }
            }
        };
        let waited = tokio::time::timeout(timeout, waiting).await;
        let calls = self.calls();
        match waited {
            Ok(()) => Ok(calls),
            Err(_) => Err(Timeout { waited: timeout, wanted, seen: calls.iter().map(line).collect() }),
        }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn line(call: &Request) -> String {
    format!("{} {} {:?} {:?}", call.target, call.asked.model, call.status, call.ended)
}

/// Accepts until aborted; the set takes its connections with it.
async fn accept(listener: TcpListener, desk: Desk) {
    let places = Arc::new(Semaphore::new(CONNECTION_CAP));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let desk = desk.clone();
                connections.spawn(async move {
                    desk.serve(Connection::new(stream)).await;
                    drop(place);
                });
            }
            // Out of descriptors or a client that left at once: both pass.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}
