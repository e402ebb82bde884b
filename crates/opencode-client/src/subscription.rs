//! A subscription to a bus: the events of one session, and the state of the stream they come on.

use super::bus::Shared;
use super::error::{ClientError, causes};
use super::event::Event;
use super::queue::Queue;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use turnstream_adapter::{AgentError, Counted};

/// A subscription to the events of one session and its descendants. Dropping it unsubscribes.
#[derive(Debug)]
pub struct Subscription {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    id: u64,
}

/// One item of a subscription.
#[derive(Debug, Clone)]
pub enum BusItem {
    /// The stream is open: all later events arrive. Send prompts only after this.
    Connected {
        /// This subscriber was connected before, and may have missed events in between.
        gap: bool,
    },
    /// An event of the session or of a descendant, or an idle or error that names no session.
    Event(Arc<Event>),
    /// The stream is lost and will be reconnected.
    Lost {
        /// Why it was lost.
        reason: Loss,
        /// The number of the next attempt, from 1 since the stream was last healthy.
        attempt: u32,
    },
    /// Events of this subscriber were dropped at this place. Ask the server for its current state.
    Lagged {
        /// The reason.
        why: Lag,
    },
    /// The last item. The client opens a new bus for this directory when asked for one.
    Closed {
        /// Why the bus is closed.
        reason: Closed,
    },
}

/// Why a stream was lost.
#[derive(Debug, Clone, Error)]
pub enum Loss {
    /// The server ended it, as it does when it disposes of an instance (capture `v-instance-dispose`).
    #[error("the server ended the event stream")]
    Ended,
    /// The connection broke.
    #[error("the event stream broke: {}", causes(.0))]
    Broke(#[source] Arc<reqwest::Error>),
    /// Nothing arrived, not even a heartbeat.
    #[error("nothing came on the event stream for {0:?}")]
    Silent(Duration),
    /// It could not be opened.
    #[error("the event stream cannot be opened: {0}")]
    NotOpened(#[source] Arc<ClientError>),
}

/// Why events were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lag {
    /// The queue of the subscriber was full.
    Slow,
    /// An event was too large or could not be read.
    Unreadable,
}

/// Why a bus is closed.
#[derive(Debug, Clone, Error)]
pub enum Closed {
    /// Reconnecting failed too often in a row.
    #[error("gave up after {attempts} attempts to open the event stream again: {last}")]
    GaveUp {
        /// How many attempts failed in a row.
        attempts: u32,
        /// The last loss.
        #[source]
        last: Loss,
    },
    /// The server refuses the password, and its source has no other.
    #[error("the event stream is refused: {0}")]
    Refused(#[source] Arc<ClientError>),
    /// The reading task is gone: it panicked, or its runtime was shut down.
    #[error("the reader of the event stream is gone")]
    ReaderGone,
}

impl Loss {
    /// The loss for a log line, without text of the server.
    pub(super) fn for_log(&self) -> String {
        match self {
            Self::NotOpened(error) => format!("the event stream cannot be opened: {}", error.for_log()),
            Self::Ended | Self::Broke(_) | Self::Silent(_) => self.to_string(),
        }
    }
}

impl Closed {
    /// The failed request, if the stream could not be opened.
    pub fn cause(&self) -> Option<&Arc<ClientError>> {
        match self {
            Self::Refused(error) | Self::GaveUp { last: Loss::NotOpened(error), .. } => Some(error),
            Self::GaveUp { last: Loss::Ended | Loss::Broke(_) | Loss::Silent(_), .. } | Self::ReaderGone => {
                None
            }
        }
    }
}

impl AgentError for Closed {
    fn for_log(&self) -> String {
        match self {
            Self::GaveUp { attempts, last } => {
                let last = last.for_log();
                format!("gave up after {attempts} attempts to open the event stream again: {last}")
            }
            Self::Refused(error) => format!("the event stream is refused: {}", error.for_log()),
            Self::ReaderGone => self.to_string(),
        }
    }
}

impl Subscription {
    pub(super) fn new(shared: Arc<Shared>, queue: Arc<Queue>, id: u64) -> Self {
        Self { shared, queue, id }
    }

    /// Waits for the next item. Safe to cancel. After [`BusItem::Closed`] it returns that again.
    pub async fn next(&mut self) -> BusItem {
        let item = self.queue.pop().await;
        if let BusItem::Lagged { why } = &item {
            if *why == Lag::Slow {
                tracing::warn!(directory = %self.shared.directory, "events dropped for a slow subscriber");
            }
            self.shared.counters.count(Counted::EventsLeftOut);
        }
        item
    }

    /// Adds a session and its descendants. For subagents that the stream did not announce: they are older
    /// than the subscription, or were created in a gap.
    pub fn adopt(&self, child: &str) {
        self.shared.adopt(self.id, child);
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.shared.unsubscribe(self.id);
    }
}
