//! New connections to providers.
//!
//! A client that keeps connections must decide what to do when a request was written to a dead one. Some
//! clients repeat the request by themselves. One of them glued the second answer to the first (oven-sh/bun
//! #28706). So [`Client`](super::Client) makes a new connection for every attempt. The proxy keeps
//! connections, and repeats nothing ([`pool`](super::pool)).

use super::ClientError;
use super::address::{Address, Scheme};
use super::handshake;
use super::trust::Trust;
use super::tunnel;
use crate::classify::{Failure, Phase, Source, TimeoutKind, transport};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::error::Error;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower_service::Service;
use turnstream_model::event::ErrorClass;

/// TCP keep-alive. Models may be silent for minutes, and middleboxes drop connections that look idle.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// A connection, with TLS or without.
pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

/// Opens connections.
pub(super) struct Connector {
    tcp: HttpConnector,
    proxies: Matcher,
    trust: Trust,
    limit: Duration,
}

impl Connector {
    /// A connector without any connection.
    pub(super) fn new(limit: Duration, authorities: Option<&Path>) -> Result<Self, ClientError> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(limit));
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE));
        tcp.set_keepalive_retries(Some(3));
        Ok(Self { tcp, proxies: Matcher::from_env(), trust: Trust::new(authorities)?, limit })
    }

    /// Opens a connection, within the connect timeout.
    pub(super) async fn open(&self, address: &Address) -> Result<Box<dyn Socket>, Failure> {
        let dialled = tokio::time::timeout(self.limit, self.dial(address)).await;
        dialled
            .unwrap_or_else(|_| Err(named(&address.host, Failure::timeout(TimeoutKind::Connect, self.limit))))
    }

    async fn dial(&self, address: &Address) -> Result<Box<dyn Socket>, Failure> {
        if address.scheme == Scheme::Http {
            return Ok(Box::new(self.direct(address).await?));
        }
        let config = self.trust.config().await?;
        let name = ServerName::try_from(address.host.clone()).map_err(|error| {
            let message =
                format!("{} can have no certificate: {error}; correct the route's address", address.host);
            Failure::new(ErrorClass::InvalidRequest, Source::Ours, message)
        })?;
        let tcp = match self.proxies.intercept(&address.uri) {
            Some(proxy) => self.through_proxy(&proxy, address).await?,
            None => self.direct(address).await?,
        };
        let tls = TlsConnector::from(config).connect(name, tcp).await;
        Ok(Box::new(tls.map_err(|error| handshake::failure(address, &error))?))
    }

    async fn direct(&self, address: &Address) -> Result<TcpStream, Failure> {
        let connected = self.tcp.clone().call(address.uri.clone()).await;
        connected.map(TokioIo::into_inner).map_err(|error| unreachable(&address.host, &error))
    }

    /// Connects through the proxy of `HTTPS_PROXY` or `ALL_PROXY`.
    async fn through_proxy(&self, proxy: &Intercept, address: &Address) -> Result<TcpStream, Failure> {
        let uri = proxy.uri();
        if uri.scheme_str() != Some("http") {
            let message = format!(
                "the proxy for {} is not an http:// proxy, and no other kind is supported; correct HTTPS_PROXY, \
                 or name the host in NO_PROXY",
                address.host
            );
            return Err(Failure::new(ErrorClass::InvalidRequest, Source::Ours, message));
        }
        let name = format!("{} through the proxy {}", address.host, uri.host().unwrap_or_default());
        let connected = self.tcp.clone().call(uri.clone()).await;
        let mut tcp = connected.map(TokioIo::into_inner).map_err(|error| unreachable(&name, &error))?;
        let opened = tunnel::open(&mut tcp, address, proxy.basic_auth()).await;
        opened.map(|()| tcp).map_err(|failure| named(&name, failure))
    }
}

fn unreachable(name: &str, error: &(dyn Error + 'static)) -> Failure {
    named(name, transport(error, Phase::Connect))
}

/// Puts the host's name in front of the message.
fn named(name: &str, failure: Failure) -> Failure {
    Failure { message: format!("{name}: {}", failure.message), ..failure }
}
