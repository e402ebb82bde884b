//! What a subscriber of a bus is told.

use super::bus::Shared;
use super::error::ClientError;
use super::event::Event;
use super::queue::Queue;
use crate::counts::Counted;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// The events of one session and of those it made, and what happens to the stream they come on.
#[derive(Debug)]
pub struct Subscription {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    id: u64,
}

/// One thing a subscriber is told.
#[derive(Debug, Clone)]
pub enum BusItem {
    /// The stream is there: whatever happens from now on is seen. Prompt only after this.
    Connected {
        /// This subscriber was connected before and has missed what happened in between.
        gap: bool,
    },
    /// An event of the session or of one of its descendants, or an end that does not say whose it is.
    Event(Arc<Event>),
    /// A durable event of this session has this number; the event itself came before. Only on [`Stream::Global`].
    ///
    /// [`Stream::Global`]: super::Stream::Global
    Durable {
        /// The session.
        session: String,
        /// The number, for [`Client::sync_history`](super::Client::sync_history).
        seq: u64,
    },
    /// The stream is gone and will be opened again.
    Lost {
        /// What happened.
        reason: Loss,
        /// The coming attempt, counted from 1 since the stream was last healthy.
        attempt: u32,
    },
    /// Events of this subscriber were left out between the last item and now: ask the server for what it must know. Comes in the
    /// place of the first one.
    Lagged {
        /// Why.
        why: Lag,
    },
    /// Nothing comes any more; the client's next bus for this directory is a new one.
    Closed {
        /// What happened.
        reason: Closed,
    },
}

/// Why a stream is gone.
#[derive(Debug, Clone, Error)]
pub enum Loss {
    /// The server ended it in order; it does so when an instance is disposed (capture `v-instance-dispose`).
    #[error("the server ended the event stream")]
    Ended,
    /// The connection broke.
    #[error("the event stream broke: {0}")]
    Broke(String),
    /// Not even a heartbeat came.
    #[error("nothing came on the event stream for {0:?}")]
    Silent(Duration),
    /// It could not be opened.
    #[error("the event stream cannot be opened: {0}")]
    NotOpened(Arc<ClientError>),
}

/// Why events are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lag {
    /// The subscriber was slower than the stream by more than its queue holds.
    Slow,
    /// An event was too large or could not be read.
    Unreadable,
}

/// Why a bus is closed.
#[derive(Debug, Clone, Error)]
pub enum Closed {
    /// The stream was lost too often in a row.
    #[error("gave up after {attempts} attempts to open the event stream again: {last}")]
    GaveUp {
        /// How many attempts failed in a row.
        attempts: u32,
        /// The last loss.
        last: Loss,
    },
    /// The server refuses the password, and the source has no other.
    #[error("the event stream is refused: {0}")]
    Refused(Arc<ClientError>),
    /// The task that read it is gone: it panicked, or its runtime was shut down.
    #[error("the reader of the event stream is gone")]
    ReaderGone,
}

impl Closed {
    /// The request that failed, if it is closed because the stream could not be opened.
    pub(super) fn cause(&self) -> Option<&ClientError> {
        match self {
            Self::Refused(error) | Self::GaveUp { last: Loss::NotOpened(error), .. } => Some(error),
            Self::GaveUp { last: Loss::Ended | Loss::Broke(_) | Loss::Silent(_), .. } | Self::ReaderGone => {
                None
            }
        }
    }
}

impl Subscription {
    pub(super) fn new(shared: Arc<Shared>, queue: Arc<Queue>, id: u64) -> Self {
        Self { shared, queue, id }
    }

    /// The next item; waits for it. Safe to cancel. After [`BusItem::Closed`] it is that again.
    pub async fn next(&mut self) -> BusItem {
        let item = self.queue.take().await;
        if matches!(item, BusItem::Lagged { .. }) {
            self.shared.counters.count(Counted::EventsLeftOut);
        }
        item
    }

    /// Hears of this session and of those it makes as well: for children that the stream did not announce, because they
    /// are older than the subscription or were made in a gap.
    pub fn adopt(&self, child: &str) {
        self.shared.adopt(self.id, child);
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.shared.unsubscribe(self.id);
    }
}
