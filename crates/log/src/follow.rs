//! Following a session: the outcome of the cursor, then the events after it, then live events.

use crate::committed::Committed;
use crate::error::ReadError;
use crate::log::Inner;
use crate::session::{Progress, Session};
use std::sync::Arc;
use tokio::sync::watch;
use turnstream_model::cursor::{Cursor, CursorOutcome, ResetReason, Seq};

/// Bytes per batch. Apart from the shared tail, this is all the memory that a follower needs.
const BATCH_BYTES: usize = 64 * 1024;

/// One step of a follower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Follow {
    /// What became of the cursor. Always the first step. It comes again only as a reset, if events that the
    /// reader had not read yet were trimmed. The next event is then the oldest one that is kept.
    Outcome(CursorOutcome),
    /// The next events, in order, each exactly once.
    Events(Vec<Committed>),
    /// The log was closed, and every durable event has been delivered. This is the last step.
    Closed,
    /// The session was deleted, and the events still in memory have been delivered. This is the last step.
    Deleted,
}

/// A reader's position in one session. It holds at most one batch; a slow reader reads from the store.
pub struct Follower {
    log: Arc<Inner>,
    session: Arc<Session>,
    progress: watch::Receiver<Progress>,
    outcome: Option<CursorOutcome>,
    next: Seq,
}

impl Follower {
    pub(crate) fn new(log: Arc<Inner>, session: Arc<Session>, cursor: &Cursor) -> Self {
        let progress = session.watch();
        let outcome = CursorOutcome::decide(cursor, &session.generation, session.oldest(), session.head());
        let next = match &outcome {
            CursorOutcome::Replayed { from, .. } => *from,
            CursorOutcome::CaughtUp { head, .. } => head.next(),
            CursorOutcome::Reset { oldest, .. } => *oldest,
        };
        Self { log, session, progress, outcome: Some(outcome), next }
    }

    /// The next step. Waits for new events when it has caught up, until the log is closed. Cancel-safe.
    pub async fn next(&mut self) -> Result<Follow, ReadError> {
        if let Some(outcome) = self.outcome.take() {
            return Ok(Follow::Outcome(outcome));
        }
        loop {
            // Waiting cannot fail: the follower holds the session, and the session holds the sender.
            let next = self.next;
            drop(self.progress.wait_for(|now| now.head >= next || now.is_last).await);
            if self.session.head() < next {
                return Ok(if self.session.is_deleted() { Follow::Deleted } else { Follow::Closed });
            }
            if next < self.session.oldest() {
                return Ok(Follow::Outcome(self.reset()));
            }
            let events = match self.session.recent_from(next, BATCH_BYTES) {
                Some(events) if !events.is_empty() => events,
                _ => match self.read(next).await {
                    // The session was trimmed during the read.
                    Err(ReadError::Trimmed { .. }) => continue,
                    Err(ReadError::Unknown(_)) if self.session.is_deleted() => return Ok(Follow::Deleted),
                    read => read?,
                },
            };
            if let Some(last) = events.last() {
                self.next = last.seq().next();
            }
            return Ok(Follow::Events(events));
        }
    }

    async fn read(&self, next: Seq) -> Result<Vec<Committed>, ReadError> {
        self.log.clone().read_off_thread(self.session.clone(), next, BATCH_BYTES).await
    }

    /// Continues at the oldest event that is kept.
    fn reset(&mut self) -> CursorOutcome {
        let (oldest, head) = (self.session.oldest(), self.session.head());
        self.next = oldest;
        CursorOutcome::Reset {
            generation: self.session.generation.clone(),
            reason: ResetReason::Trimmed,
            oldest,
            head,
        }
    }
}
