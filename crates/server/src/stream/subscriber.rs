//! One reader of one session: a place in the log, and the frames after it.

use super::dialect::{Dialect, Encoder, encode};
use super::hub::{End, Hub, Hubs, State};
use super::open::{Kind, OpenStream};
use super::tail::Take;
use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::watch;
use turnstream_gateway::RequestError;
use turnstream_log::{Follow, Follower};
use turnstream_model::cursor::{Cursor, CursorOutcome, Generation, Seq};
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
            if let Some(end) = self.state.borrow_and_update().end().cloned() {
                return Piece::End(end);
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
                Take::NotYet(upto) => {
                    self.behind = None;
                    self.hub.want();
                    // The sender lives in the hub that this reader holds: waiting cannot fail.
                    let _ = self.state.wait_for(|state| state.is_past(upto)).await;
                }
            }
        }
    }

    /// The next frames out of the log. It has them: the hub is further.
    async fn read(&mut self) -> Result<Option<Bytes>, End> {
        let follower = match &mut self.behind {
            Some(follower) => follower,
            none => {
                let seq = Seq(self.next.0.saturating_sub(1));
                let cursor = Cursor { generation: Some(self.generation.clone()), seq };
                let follower = self.hubs.gateway().follow(&self.session, &cursor);
                none.insert(follower.map_err(|error| End::Failed(error.to_string()))?)
            }
        };
        match follower.next().await.map_err(|error| End::Failed(error.to_string()))? {
            Follow::Outcome(_) => Ok(None),
            Follow::Closed => Err(End::Closing),
            Follow::Events(events) => {
                let Some(last) = events.last() else { return Ok(None) };
                self.next = last.seq().next();
                let mut encoder = Encoder::new(self.dialect, &self.generation);
                Ok(Some(encode(&mut encoder, &events).0))
            }
        }
    }
}
