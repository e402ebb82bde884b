//! What a client is told about itself and about waiting.

use std::time::Duration;

/// How long a client waits for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Making a connection.
    pub connect: Duration,
    /// One request from its first byte to the last of its answer, repeated connects included.
    pub request: Duration,
    /// From the request for an event stream to its first event. Not long, for the same reason as a probe.
    pub stream_open: Duration,
    /// Silence on an event stream after which it is cut. opencode sends a heartbeat each 10 s (capture `x-heartbeat`).
    pub event_idle: Duration,
    /// One probe of a health check. Short, because a server that starts accepts connections for about 0.8 s
    /// without ever answering them.
    pub probe: Duration,
    /// How many probes a health check makes before it gives up.
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

/// Who the client is; it goes out as `User-Agent: NAME/VERSION`.
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
