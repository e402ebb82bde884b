//! Reading a session: a cursor that begins with what became of it, replays, and goes on live without a joint.

use crate::committed::Committed;
use crate::error::ReadError;
use crate::log::Inner;
use crate::session::{Progress, Session};
use std::sync::Arc;
use tokio::sync::watch;
use turnstream_model::cursor::{Cursor, CursorOutcome, ResetReason, Seq};

/// Bytes handed out at a time; with the shared tail this is all a follower costs.
const BATCH_BYTES: usize = 64 * 1024;

/// One step of a follower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Follow {
    /// What became of the cursor. Always first. It comes again only as a reset, to a reader that was so far behind that what
    /// it had not read is no longer kept; the next event is then the oldest that is.
    Outcome(CursorOutcome),
    /// The next events, in order, each exactly once.
    Events(Vec<Committed>),
    /// The log was closed, and everything that is durable has been handed out. Nothing else will come.
    Closed,
    /// The session was deleted, and what was still in memory has been handed out. Nothing else will come.
    Deleted,
}

/// A reader's place in one session. It holds at most one batch; a slow one reads the store at its own pace.
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

    /// The next step. Waits for new events when it has seen all there are, until the log is closed; safe to drop and
    /// call again.
    pub async fn next(&mut self) -> Result<Follow, ReadError> {
        if let Some(outcome) = self.outcome.take() {
            return Ok(Follow::Outcome(outcome));
        }
        loop {
            // The sender lives in the session that this follower holds: waiting cannot fail.
            let next = self.next;
            let _ = self.progress.wait_for(|now| now.head >= next || now.is_last).await;
            if self.session.head() < next {
                return Ok(if self.session.is_deleted() { Follow::Deleted } else { Follow::Closed });
            }
            if next < self.session.oldest() {
                return Ok(Follow::Outcome(self.reset()));
            }
            let events = match self.session.recent_from(next, BATCH_BYTES) {
                Some(events) if !events.is_empty() => events,
                _ => match self.read(next).await {
                    // It was trimmed while it was read.
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

    /// Goes on at the oldest event there is.
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
