//! What waits for the next commit. Everything that arrives while one is under way goes into the next.

use crate::appender::Appender;
use crate::error::AppendError;
use crate::session::Session;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use turnstream_model::cursor::Seq;
use turnstream_model::event::Draft;
use turnstream_model::time::Time;

/// Events one appender wants in the log.
pub(crate) struct Append {
    pub(crate) session: Arc<Session>,
    pub(crate) epoch: u64,
    pub(crate) time: Time,
    /// When it was asked for.
    pub(crate) since: Instant,
    pub(crate) drafts: Vec<Draft>,
    /// About how many bytes they are.
    pub(crate) weight: usize,
    /// The part of the log's budget to give back when it is settled.
    pub(crate) permit: OwnedSemaphorePermit,
    pub(crate) done: oneshot::Sender<Result<Seq, AppendError>>,
}

#[derive(Default)]
struct State {
    appends: Vec<Append>,
    weight: usize,
    closed: bool,
}

/// Many callers put, the writer takes all at once.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
}

/// Why the writer was woken.
pub(crate) enum Taken {
    Work(Vec<Append>),
    /// Nothing came; a moment for housekeeping.
    Quiet,
    /// Closed, and everything that was put is taken.
    Closed,
}

impl State {
    fn take(&mut self) -> Vec<Append> {
        if self.weight <= Appender::MOST_BYTES {
            self.weight = 0;
            return std::mem::take(&mut self.appends);
        }
        let mut weight = 0;
        let too_much = |append: &Append| {
            weight += append.weight;
            weight >= Appender::MOST_BYTES
        };
        let fit = self.appends.iter().position(too_much).map_or(self.appends.len(), |last| last + 1);
        let rest = self.appends.split_off(fit);
        let taken = std::mem::replace(&mut self.appends, rest);
        self.weight -= taken.iter().map(|append| append.weight).sum::<usize>();
        taken
    }
}

impl Queue {
    /// Gives it back when the queue is closed.
    pub(crate) fn append(&self, append: Append) -> Result<(), Append> {
        let mut state = self.lock();
        if state.closed {
            return Err(append);
        }
        state.weight += append.weight;
        state.appends.push(append);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Everything that waits, as far as it fits into one commit, or a quiet moment after `patience`.
    pub(crate) fn take(&self, patience: Duration) -> Taken {
        let mut state = self.lock();
        if state.appends.is_empty() && !state.closed {
            let waited = self.arrived.wait_timeout(state, patience);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if !state.appends.is_empty() {
            Taken::Work(state.take())
        } else if state.closed {
            Taken::Closed
        } else {
            Taken::Quiet
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A push or a take cannot panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
