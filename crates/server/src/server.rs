//! The accept loop and the shutdown.

use crate::access::{Access, Connection, NoRandomness, Origin, TokenFileError};
use crate::app::{App, metrics_router};
use crate::closing::Closing;
use crate::limits::{Refusals, RefusedConnections, Slot, Socket};
use crate::options::Options;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use turnstream_gateway::Gateway;
use turnstream_model::Chain;

/// Buffer of one connection in bytes, beside the chunk that is being sent. Also the limit for the head of a
/// request.
const BUFFER: usize = 16 * 1024;
/// How long the head of a request may take, and how long a connection may be idle between two requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// How long connections may take to end at a shutdown before they are cut.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(1_500);
/// Pause after a failed accept, for example because all file descriptors are in use.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The system refused the address.
    #[error("cannot listen on {address}: {source}; {}", advice(source))]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The address is not loopback and no token is needed, so everybody could use the agents.
    #[error(
        "{0} can be reached from other machines, and auth = \"none\" would let everybody use the agents; listen on \
         127.0.0.1, or leave auth out so that a token is needed"
    )]
    Open(SocketAddr),
    /// A proxy brings requests from other machines, and no token is needed.
    #[error(
        "public_url = \"{0}\" says that a proxy brings requests from other machines, and auth = \"none\" would let them \
         use the agents; leave auth out so that a token is needed"
    )]
    OpenProxy(Origin),
    /// The address is not loopback and the token can be guessed.
    #[error(
        "other machines can reach the gateway at {0} or through public_url, and the token has less than 128 bits; leave \
         token out so that a strong one is made, or use one from `openssl rand -hex 16`"
    )]
    WeakToken(SocketAddr),
    /// The token cannot be read.
    #[error(transparent)]
    Token(#[from] TokenFileError),
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another program uses it; stop that program, or choose another address",
        io::ErrorKind::AddrNotAvailable => {
            "this machine does not have the address; 127.0.0.1 is always available"
        }
        io::ErrorKind::PermissionDenied => "ports below 1024 need a privilege; choose a higher one",
        _ => "choose another address",
    }
}

/// A server that listens. Connections are accepted when it runs.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    metrics: Option<TcpListener>,
    opencode: Option<TcpListener>,
    agents: Option<TcpListener>,
    gateway: Gateway,
    options: Options,
    access: Arc<Access>,
}

impl Server {
    /// Listens on an address; port 0 means any free port.
    pub async fn bind(address: SocketAddr, gateway: Gateway, options: Options) -> Result<Self, ListenError> {
        check_token(address, &options)?;
        let (listener, address) = listen(address).await?;
        let metrics = match options.metrics_listen {
            Some(address) => Some(listen(address).await?.0),
            None => None,
        };
        let opencode = match options.opencode_listen {
            Some(address) => {
                check_token(address, &options)?;
                Some(listen(address).await?.0)
            }
            None => None,
        };
        let access = Arc::new(Access::new(&options, address));
        Ok(Self { listener, address, metrics, opencode, agents: None, gateway, options, access })
    }

    /// Also serves the proxy for model providers on this socket, for agents that the gateway starts.
    ///
    /// # Errors
    ///
    /// An error of the operating system.
    pub fn serve_agents(&mut self, listener: std::net::TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        self.agents = Some(TcpListener::from_std(listener)?);
        Ok(())
    }

    /// The address for opencode's API, if it has one of its own.
    pub fn opencode_address(&self) -> Option<SocketAddr> {
        // It fails only for a descriptor that is no socket.
        self.opencode.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// The address for metrics, if they have one of their own.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        // It fails only for a descriptor that is no socket.
        self.metrics.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// An address for a browser, with a login code that can be used once within ten minutes.
    pub fn login_link(&self) -> Result<String, NoRandomness> {
        self.access.login_link()
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` returns. Then streams are told, connections that do not end are cut, and the
    /// gateway is closed, all within five seconds. Returns what could not be stopped.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Vec<String> {
        let metrics_address = self.metrics_address().unwrap_or(self.address);
        let Self { listener, address: _, metrics, opencode, agents, gateway, options, access } = self;
        let closing = Closing::new();
        let app = App::new(gateway.clone(), options, access, closing.clone());
        let metrics_service = TowerToHyperService::new(metrics_router(app.clone(), metrics_address));
        let opencode_service = TowerToHyperService::new(app.clone().opencode_router());
        let agents_service = TowerToHyperService::new(app.clone().agents_router());
        let service = TowerToHyperService::new(app.clone().router());
        let refused = RefusedConnections::new(&app.in_use.connections);
        let mut reports = tokio::time::interval(Refusals::REPORT_EVERY);
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        // One line for a series of failures, which may come ten times a second.
        let mut is_failing = false;
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                accepted = listener.accept() => accepted.map(|(socket, peer)| (socket, peer, &service)),
                accepted = accept(metrics.as_ref()) => {
                    accepted.map(|(socket, peer)| (socket, peer, &metrics_service))
                }
                accepted = accept(opencode.as_ref()) => {
                    accepted.map(|(socket, peer)| (socket, peer, &opencode_service))
                }
                accepted = accept(agents.as_ref()) => {
                    accepted.map(|(socket, peer)| (socket, peer, &agents_service))
                }
                Some(ended) = connections.join_next() => {
                    log_panic(ended);
                    continue;
                }
                _ = reports.tick() => {
                    app.report_refusals();
                    continue;
                }
            };
            match accepted {
                Ok((socket, peer, service)) => {
                    is_failing = false;
                    match app.in_use.connections.admit(peer.ip()).await {
                        Ok(slot) => {
                            let (service, closing) = (service.clone(), closing.clone());
                            connections.spawn(serve_connection(socket, peer, slot, service, closing));
                        }
                        Err(reason) => {
                            app.in_use.refusals.count(reason.limit());
                            refused.answer(socket, reason);
                        }
                    }
                }
                Err(error) if is_of_one_connection(&error) => {
                    tracing::debug!(%error, "a client went away before it was accepted");
                }
                Err(error) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        tracing::error!(%error, "connections cannot be accepted");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop((listener, metrics, opencode, agents));
        closing.begin();
        let ((), unstopped) = tokio::join!(close_connections(&mut connections), gateway.close());
        app.report_refusals();
        unstopped
    }
}

/// Refuses an address that others reach, if they need no token or one that can be guessed.
fn check_token(address: SocketAddr, options: &Options) -> Result<(), ListenError> {
    match (options.auth.token()?, &options.public_url) {
        (None, _) if !address.ip().is_loopback() => Err(ListenError::Open(address)),
        (None, Some(url)) => Err(ListenError::OpenProxy(url.clone())),
        (Some(token), url) if !token.is_strong() && (url.is_some() || !address.ip().is_loopback()) => {
            Err(ListenError::WeakToken(address))
        }
        (Some(_), _) | (None, None) => Ok(()),
    }
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ListenError> {
    let bind = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    bind.await.map_err(|source| ListenError::Bind { address, source })
}

/// Accepts a connection. Waits for ever without a listener.
async fn accept(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

/// Waits until connections have ended, and cuts those that do not.
async fn close_connections(connections: &mut JoinSet<()>) {
    let all = async {
        while let Some(ended) = connections.join_next().await {
            log_panic(ended);
        }
    };
    if tokio::time::timeout(SHUTDOWN_GRACE, all).await.is_err() {
        let cut = connections.len();
        tracing::warn!(connections = cut, "connections were cut: their clients do not read");
    }
    connections.shutdown().await;
}

fn log_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(error = %Chain(&error), "a connection's task panicked");
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

/// Whether the error is about one client that went away before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn serve_connection(
    socket: TcpStream,
    peer: SocketAddr,
    slot: Arc<Slot>,
    service: TowerToHyperService<axum::Router>,
    closing: Closing,
) {
    // Unknown only for a connection that is gone.
    let Ok(local) = socket.local_addr() else { return };
    // Frames are small and should not wait for each other. Without it they are only slower.
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY cannot be set");
    }
    let socket = TokioIo::new(Socket::new(socket, slot.clone()));
    let of_requests = slot.clone();
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(Connection { peer, local });
        // The access check makes the connection active, when it lets the request pass.
        request.extensions_mut().insert(of_requests.clone());
        service.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER)
        .serve_connection(socket, service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        // It is idle, and another one gets its place.
        () = slot.evicted() => return,
        () = closing.begun() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    // The client went away or did not speak HTTP. Hyper has answered where that is possible.
    if let Err(error) = ended {
        tracing::debug!(error = %Chain(&error), "a connection ended with an error");
    }
}
