//! Counts open streams: each stream holds a guard while it is open.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The kind of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The log of one session as server-sent events.
    Sse,
    /// The same over a WebSocket.
    WebSocket,
    /// The states of all sessions.
    SessionStates,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Sse, Self::WebSocket, Self::SessionStates];

    /// Its label in the metrics.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Sse => "sse",
            Self::WebSocket => "websocket",
            Self::SessionStates => "board",
        }
    }
}

/// The streams of one server.
#[derive(Default)]
pub(crate) struct OpenStreams {
    sse: AtomicU64,
    websocket: AtomicU64,
    session_states: AtomicU64,
}

/// The guard of one open stream.
pub(crate) struct OpenStream {
    streams: Arc<OpenStreams>,
    kind: Kind,
}

impl OpenStreams {
    /// Counts a stream as open until the guard is dropped.
    pub(crate) fn open(self: &Arc<Self>, kind: Kind) -> OpenStream {
        self.cell(kind).fetch_add(1, Ordering::Relaxed);
        OpenStream { streams: self.clone(), kind }
    }

    pub(crate) fn count(&self, kind: Kind) -> u64 {
        self.cell(kind).load(Ordering::Relaxed)
    }

    fn cell(&self, kind: Kind) -> &AtomicU64 {
        match kind {
            Kind::Sse => &self.sse,
            Kind::WebSocket => &self.websocket,
            Kind::SessionStates => &self.session_states,
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.streams.cell(self.kind).fetch_sub(1, Ordering::Relaxed);
    }
}
