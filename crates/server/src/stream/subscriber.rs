//! One reader of one session: a place in the log, and the frames after it.

use super::dialect::{Dialect, Encoder, encode, outcome_in};
use super::hub::{End, Hub, Hubs, State};
use super::open::{Kind, OpenStream};
use super::tail::Take;
use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::watch;
use turnstream_gateway::RequestError;
use turnstream_log::{Follow, Follower};
use turnstream_model::cursor::{Cursor, CursorOutcome, Generation, ResetReason, Seq};
use turnstream_model::id::SessionId;

/// What a reader is handed.
pub(crate) enum Piece {
    /// The frames of the next events, each exactly once and in order.
    Frames(Bytes),
    /// Nothing more will come.
    End(End),
}

/// A reader. It holds no frames: what it is handed is shared with all at the same place, or made when it is asked for.
pub(crate) struct Subscriber {
    hubs: Arc<Hubs>,
    session: SessionId,
    generation: Generation,
    dialect: Dialect,
    hub: Arc<Hub>,
    state: watch::Receiver<State>,
    next: Seq,
    /// Reads the log while this is behind the hub.
    behind: Option<Follower>,
    /// It counts as open while it is there.
    _open: OpenStream,
}

impl Subscriber {
    /// Begins after the cursor, and tells what became of it.
    pub(crate) async fn open(
        hubs: Arc<Hubs>,
        session: SessionId,
        cursor: &Cursor,
        dialect: Dialect,
    ) -> Result<(Self, CursorOutcome), RequestError> {
        let mut follower = hubs.gateway().follow(&session, cursor)?;
        let outcome = match follower.next().await {
            Ok(Follow::Outcome(outcome)) => outcome,
            Ok(Follow::Closed) => return Err(RequestError::Closing),
            Ok(Follow::Deleted) => return Err(RequestError::UnknownSession(session)),
            Ok(Follow::Events(_)) => {
                return Err(RequestError::Log("a reader did not begin with its outcome".to_owned()));
            }
            Err(error) => return Err(RequestError::Log(error.to_string())),
        };
        let (generation, next, head) = match &outcome {
            CursorOutcome::Replayed { generation, from, to: _, head } => (generation, *from, *head),
            CursorOutcome::CaughtUp { generation, head } => (generation, head.next(), *head),
            CursorOutcome::Reset { generation, reason: _, oldest, head } => (generation, *oldest, *head),
        };
        let generation = generation.clone();
        let hub = hubs.join(&session, dialect, &generation, head)?;
        let state = hub.watch();
        let behind = Some(follower);
        let kind = match dialect {
            Dialect::Sse => Kind::Sse,
            Dialect::Lines => Kind::WebSocket,
        };
        let _open = hubs.streams().open(kind);
        Ok((Self { hubs, session, generation, dialect, hub, state, next, behind, _open }, outcome))
    }

    /// The next frames; waits until there are some. Safe to drop and call again.
    pub(crate) async fn next(&mut self) -> Piece {
        loop {
            let end = self.state.borrow_and_update().end().cloned();
            match &end {
                Some(end @ (End::Closing | End::Failed(_))) => return Piece::End(end.clone()),
                Some(End::Behind) => match self.begin_anew() {
                    Ok(()) => continue,
                    Err(end) => return Piece::End(end),
                },
                // What is still there is handed out first.
                Some(End::Gone) | None => {}
            }
            match self.hub.take(self.next) {
                Take::Frames(bytes, next) => {
                    self.behind = None;
                    self.next = next;
                    return Piece::Frames(bytes);
                }
                Take::Older => match self.read().await {
                    Ok(Some(bytes)) => return Piece::Frames(bytes),
                    Ok(None) => {}
                    Err(end) => return Piece::End(end),
                },
                Take::NotYet(_) if end.is_some() => return Piece::End(End::Gone),
                Take::NotYet(upto) => {
                    self.behind = None;
                    self.hub.want();
                    // The sender lives in the hub that this reader holds: waiting cannot fail.
                    let _ = self.state.wait_for(|state| state.is_past(upto)).await;
                }
            }
        }
    }

    /// Joins the session where it is now. What this reader misses it reads for itself.
    fn begin_anew(&mut self) -> Result<(), End> {
        let now = self.hubs.gateway().session(&self.session).map_err(failed)?;
        if now.generation != self.generation {
            return Err(End::Gone);
        }
        let joined = self.hubs.join(&self.session, self.dialect, &self.generation, now.head);
        self.hub = joined.map_err(failed)?;
        self.state = self.hub.watch();
        Ok(())
    }

    /// The next frames out of the log. It has them: the hub is further.
    async fn read(&mut self) -> Result<Option<Bytes>, End> {
        let follower = match &mut self.behind {
            Some(follower) => follower,
            none => {
                let seq = Seq(self.next.0.saturating_sub(1));
                let cursor = Cursor { generation: Some(self.generation.clone()), seq };
                let follower = self.hubs.gateway().follow(&self.session, &cursor);
                none.insert(follower.map_err(failed)?)
            }
        };
        match follower.next().await.map_err(|error| End::Failed(error.to_string()))? {
            // It was so far behind that what it had not read is gone: the client is told, and goes on at the oldest.
            Follow::Outcome(CursorOutcome::Reset {
                generation,
                reason: ResetReason::Trimmed,
                oldest,
                head,
            }) => {
                self.next = oldest;
                let reset = CursorOutcome::Reset { generation, reason: ResetReason::Trimmed, oldest, head };
                Ok(Some(outcome_in(self.dialect, &reset)))
            }
            // Another session has its name by now.
            Follow::Outcome(CursorOutcome::Reset { .. }) => Err(End::Gone),
            Follow::Outcome(CursorOutcome::Replayed { .. } | CursorOutcome::CaughtUp { .. }) => Ok(None),
            Follow::Closed => Err(End::Closing),
            Follow::Deleted => Err(End::Gone),
            Follow::Events(events) => {
                let Some(last) = events.last() else { return Ok(None) };
                self.next = last.seq().next();
                let mut encoder = Encoder::new(self.dialect, &self.generation);
                Ok(Some(encode(&mut encoder, &events).0))
            }
        }
    }
}

/// Why a reader ends that cannot find its place again.
fn failed(error: RequestError) -> End {
    match error {
        RequestError::UnknownSession(_) => End::Gone,
        other => End::Failed(other.to_string()),
    }
}
