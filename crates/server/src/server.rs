//! Listening, and ending in good order.

use crate::app::App;
use crate::closing::Closing;
use crate::options::Options;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use turnstream_gateway::Gateway;

/// Bytes that may wait for one connection beside the chunk under way; also the most that the head of a request may have.
const BUFFER: usize = 16 * 1024;
/// How long the head of a request may take, and how long a connection may be idle between two.
const HEAD: Duration = Duration::from_secs(60);
/// How long clients may take to hear that the server ends.
const GOODBYE: Duration = Duration::from_millis(1_500);
/// How long nothing is accepted after the system refused to, for example because all file descriptors are in use.
const BREATH: Duration = Duration::from_millis(100);

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address is in use, or not one of this machine.
    #[error("cannot listen on {address}: {source}; {}", advice(source))]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Everybody who reaches the address could use the agents.
    #[error(
        "{0} can be reached from other machines, and no token is configured; listen on 127.0.0.1, or set a token that \
         clients have to show (`token` in the configuration, or TURNSTREAM_TOKEN)"
    )]
    Open(SocketAddr),
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another program has it; stop that one, or give this one another address",
        io::ErrorKind::AddrNotAvailable => "this machine does not have it; 127.0.0.1 is always there",
        io::ErrorKind::PermissionDenied => "ports below 1024 need a privilege; take a higher one",
        _ => "give another address",
    }
}

/// A server that listens. Connections wait until it runs.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    gateway: Gateway,
    options: Options,
}

impl Server {
    /// Listens on an address; port 0 takes a free one.
    pub async fn bind(address: SocketAddr, gateway: Gateway, options: Options) -> Result<Self, ListenError> {
        if !address.ip().is_loopback() && options.token.is_none() {
            return Err(ListenError::Open(address));
        }
        let bind = async {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = bind.await.map_err(|source| ListenError::Bind { address, source })?;
        Ok(Self { listener, address, gateway, options })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` returns; then everyone is told, and whoever does not listen is cut off. The gateway is closed at
    /// the same time, and all of it takes less than five seconds.
    /// Returns what could not be stopped.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Vec<String> {
        let Self { listener, address: _, gateway, options } = self;
        let closing = Closing::new();
        let app = App::new(gateway.clone(), options, closing.clone());
        let service = TowerToHyperService::new(app.router());
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                accepted = listener.accept() => match accepted {
                    Ok((socket, _)) => {
                        connections.spawn(converse(socket, service.clone(), closing.clone()));
                    }
                    Err(error) if is_of_one_connection(&error) => {}
                    Err(_) => tokio::time::sleep(BREATH).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
        drop(listener);
        closing.begin();
        let clients = async {
            let all = async { while connections.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(GOODBYE, all).await;
            connections.shutdown().await;
        };
        let ((), left) = tokio::join!(clients, gateway.close());
        left
    }
}

/// Listens and serves until `shutdown` returns.
pub async fn serve(
    address: SocketAddr,
    gateway: Gateway,
    options: Options,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ListenError> {
    Server::bind(address, gateway, options).await?.run(shutdown).await;
    Ok(())
}

/// The client went away before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn converse(socket: TcpStream, service: TowerToHyperService<axum::Router>, closing: Closing) {
    // Frames are small and each is wanted at once. Where it cannot be set they come all the same.
    let _ = socket.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(socket), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    // An error here is a client that went away or spoke no HTTP: hyper has answered what can be answered.
    tokio::select! {
        _ = &mut connection => return,
        () = closing.begun() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
