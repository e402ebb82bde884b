//! Timeouts of a client, and its name.

use std::time::Duration;

/// Timeouts of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// To open a connection.
    pub connect: Duration,
    /// For one request with its whole answer and all retries.
    pub request: Duration,
    /// From the request for an event stream to its first event. Short, for the same reason as a probe.
    pub stream_open: Duration,
    /// Silence after which an event stream counts as lost. opencode sends a heartbeat every 10 s (capture
    /// `x-heartbeat`).
    pub event_idle: Duration,
    /// For one probe of a health check. Short, because a starting server accepts connections for about 0.8
    /// s and never answers them.
    pub probe: Duration,
    /// The most probes of a health check.
    pub probes: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            request: Duration::from_secs(30),
            stream_open: Duration::from_secs(5),
            event_idle: Duration::from_secs(60),
            probe: Duration::from_secs(2),
            probes: 10,
        }
    }
}

/// The name of the client, sent as `User-Agent: NAME/VERSION`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientInfo {
    /// The product that embeds the client.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl Default for ClientInfo {
    fn default() -> Self {
        Self { name: env!("CARGO_PKG_NAME").to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
    }
}
