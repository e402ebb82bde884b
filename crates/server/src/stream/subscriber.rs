//! One reader of one session: its place in the log, and the frames after it.

use super::carrier::Carrier;
use super::encoder::{Encoder, Form};
use super::hub::{End, Hub, Hubs, Joined, State, off_thread};
use super::log_reader::{LogReader, Step};
use super::open_streams::{Kind, OpenStream};
use super::tail::{Place, TailRead};
use bytes::{Bytes, BytesMut};
use std::sync::Arc;
use tokio::sync::watch;
use turnstream_gateway::RequestError;
use turnstream_log::{Follow, Follower};
use turnstream_model::Chain;
use turnstream_model::cursor::{Cursor, CursorOutcome, FrameCursor, Generation, ResetReason, Seq};
use turnstream_model::fold::State as Fold;
use turnstream_model::id::SessionId;

/// One result of [`Subscriber::next`].
pub(crate) enum Piece {
    /// The frames of the next events, each exactly once and in order.
    Frames(Bytes),
    /// The stream has ended.
    End(End),
}

/// A reader. It buffers no frames: they are shared with other readers at the same place, or encoded on
/// demand.
pub(crate) struct Subscriber {
    hubs: Arc<Hubs>,
    session: SessionId,
    generation: Generation,
    form: Form,
    hub: Arc<Hub>,
    state: watch::Receiver<State>,
    place: Place,
    /// Reads the log while this reader is behind the hub.
    behind: Option<LogReader>,
    /// The conversation so far, for a reader whose place cannot be continued.
    replay: Option<Bytes>,
    /// Set until a reader that lost its place has got the conversation again.
    lost: Option<ResetReason>,
    /// Counts the stream as open.
    _open: OpenStream,
}

impl Subscriber {
    /// Begins after the cursor, and returns the outcome of the cursor.
    pub(crate) async fn open(
        hubs: Arc<Hubs>,
        session: SessionId,
        cursor: &FrameCursor,
        form: Form,
    ) -> Result<(Self, CursorOutcome), RequestError> {
        let (follower, outcome) = begin(&hubs, &session, cursor).await?;
        let (generation, next, head) = match &outcome {
            CursorOutcome::Replayed { generation, from, to: _, head } => (generation, *from, *head),
            CursorOutcome::CaughtUp { generation, head } => (generation, head.next(), *head),
            CursorOutcome::Reset { generation, reason: _, oldest, head } => (generation, *oldest, *head),
        };
        let generation = generation.clone();
        let Joined { hub, fold } = hubs.join(&session, form, &generation, head).await?;
        let kind = match form.carrier {
            Carrier::Sse => Kind::Sse,
            Carrier::Lines => Kind::WebSocket,
        };
        let frames = match &outcome {
            CursorOutcome::Reset { .. } => 0,
            CursorOutcome::Replayed { .. } | CursorOutcome::CaughtUp { .. } => cursor.frames.unwrap_or(0),
        };
        let _open = hubs.streams().open(kind);
        let (state, place) = (hub.watch(), Place { next, frames });
        let (behind, replay, lost) = (None, None, None);
        let mut reader =
            Self { hubs, session, generation, form, hub, state, place, behind, replay, lost, _open };
        if !form.keeps_state() {
            let encoder = Encoder::resume(form, &reader.generation, &Fold::default());
            reader.behind = Some(LogReader::new(follower, encoder));
            return Ok((reader, outcome));
        }
        let outcome = reader.find_place(outcome, fold).await?;
        Ok((reader, outcome))
    }

    /// Finds where a dialect with state can continue: at this place, or else at the head after a replay.
    async fn find_place(
        &mut self,
        outcome: CursorOutcome,
        fold: Option<Arc<Fold>>,
    ) -> Result<CursorOutcome, RequestError> {
        let reason = match &outcome {
            CursorOutcome::Reset { reason, .. } => Some(*reason),
            CursorOutcome::Replayed { .. } | CursorOutcome::CaughtUp { .. } => {
                if self.hub.has(self.place) || self.hub.encoder_before(self.place.last()).is_some() {
                    return Ok(outcome);
                }
                // A reader at the beginning has nothing to forget, so a replay is not a reset.
                let has_nothing = self.place == Place::at(Seq(1));
                (!has_nothing).then_some(ResetReason::OlderTurn)
            }
        };
        let fold = match fold {
            Some(fold) => fold,
            None => Arc::new(self.hubs.fold(&self.session, &self.generation).await?),
        };
        let head = fold.seq;
        let bytes = self.replay_at(fold).await?;
        self.replay = Some(bytes);
        let generation = self.generation.clone();
        Ok(match reason {
            Some(reason) => CursorOutcome::Reset { generation, reason, oldest: head.next(), head },
            None if head == Seq(0) => CursorOutcome::CaughtUp { generation, head },
            None => CursorOutcome::Replayed { generation, from: Seq(1), to: head, head },
        })
    }

    /// The frames of the conversation so far. The reader continues after it.
    async fn replay_at(&mut self, fold: Arc<Fold>) -> Result<Bytes, RequestError> {
        let (form, generation, last) = (self.form, self.generation.clone(), fold.seq);
        let follower = self.follow(last)?;
        let (encoder, bytes) = off_thread(move || Encoder::replay(form, &generation, &fold)).await?;
        self.place = Place::at(last.next());
        self.lost = None;
        self.behind = Some(LogReader::new(follower, encoder));
        Ok(bytes)
    }

    /// The next frames; waits until there are some. Safe to drop and call again.
    pub(crate) async fn next(&mut self) -> Piece {
        if let Some(bytes) = self.replay.take() {
            return Piece::Frames(bytes);
        }
        loop {
            let end = self.state.borrow_and_update().end().cloned();
            match &end {
                Some(end @ (End::Closing | End::Failed(_))) => return Piece::End(end.clone()),
                Some(End::Behind) => match self.join_again().await {
                    Ok(()) => continue,
                    Err(end) => return Piece::End(self.logged(end)),
                },
                // Frames that are still in the tail come first.
                Some(End::Gone) | None => {}
            }
            let taken = if self.lost.is_some() { TailRead::Older } else { self.hub.read_from(self.place) };
            match taken {
                TailRead::Frames(bytes, next) => {
                    self.behind = None;
                    self.place = Place::at(next);
                    if !bytes.is_empty() {
                        return Piece::Frames(bytes);
                    }
                }
                TailRead::Older => match self.read().await {
                    Ok(bytes) if bytes.is_empty() => {}
                    Ok(bytes) => return Piece::Frames(bytes),
                    Err(end) => return Piece::End(self.logged(end)),
                },
                TailRead::NotYet(_) if end.is_some() => return Piece::End(End::Gone),
                TailRead::NotYet(upto) => {
                    self.behind = None;
                    self.hub.want();
                    // Fails only without a sender, and the sender is in `hub`.
                    drop(self.state.wait_for(|state| state.is_past(upto)).await);
                }
            }
        }
    }

    /// Logs an error of this reader. Errors of the hub are logged there, once for all its readers.
    fn logged(&self, end: End) -> End {
        if let End::Failed(error) = &end {
            tracing::warn!(session = %self.session, error = %Chain(error), "a session cannot be followed");
        }
        end
    }

    /// Joins a new hub at the session's head. The reader reads the events in between from the log.
    async fn join_again(&mut self) -> Result<(), End> {
        let now = self.hubs.gateway().session(&self.session).map_err(failed)?;
        if now.generation != self.generation {
            return Err(End::Gone);
        }
        let joined = self.hubs.join(&self.session, self.form, &self.generation, now.head).await;
        self.hub = joined.map_err(failed)?.hub;
        self.state = self.hub.watch();
        Ok(())
    }

    /// The next frames from the log; may be empty. The hub is ahead, so the log has them.
    async fn read(&mut self) -> Result<Bytes, End> {
        if let Some(reason) = self.lost {
            return self.start_over(reason).await;
        }
        let behind = match &mut self.behind {
            Some(behind) => behind,
            none => {
                let Some((encoder, last)) = encoder_for(&self.hub, self.form, &self.generation, self.place)
                else {
                    return self.start_over(ResetReason::OlderTurn).await;
                };
                let cursor = Cursor { generation: Some(self.generation.clone()), seq: last };
                let follower = self.hubs.gateway().follow(&self.session, &cursor).map_err(failed)?;
                none.insert(LogReader::new(follower, encoder))
            }
        };
        match behind.next(self.form.carrier, &mut self.place).await? {
            Step::Frames(bytes) => Ok(bytes),
            // Retention removed events that the reader did not have. The client is told, and continues.
            Step::Trimmed(reset) => {
                tracing::warn!(session = %self.session, "a slow reader was overtaken by retention");
                if self.form.keeps_state() {
                    return self.start_over(ResetReason::Trimmed).await;
                }
                Ok(self.form.carrier.outcome(&reset))
            }
        }
    }

    /// A reset, followed by the conversation so far.
    async fn start_over(&mut self, reason: ResetReason) -> Result<Bytes, End> {
        // If this future is dropped, the next call starts over again.
        self.lost = Some(reason);
        let fold = self.hubs.fold(&self.session, &self.generation).await.map_err(failed)?;
        let (head, generation) = (fold.seq, self.generation.clone());
        let shown = self.replay_at(Arc::new(fold)).await.map_err(failed)?;
        let reset = CursorOutcome::Reset { generation, reason, oldest: head.next(), head };
        let mut bytes = BytesMut::from(self.form.carrier.outcome(&reset));
        bytes.extend_from_slice(&shown);
        Ok(bytes.freeze())
    }

    fn follow(&self, last: Seq) -> Result<Follower, RequestError> {
        let cursor = Cursor { generation: Some(self.generation.clone()), seq: last };
        self.hubs.gateway().follow(&self.session, &cursor)
    }
}

/// A follower of the log, and the outcome of the cursor.
async fn begin(
    hubs: &Hubs,
    session: &SessionId,
    cursor: &FrameCursor,
) -> Result<(Follower, CursorOutcome), RequestError> {
    if cursor.frames.is_some() {
        // The cursor names a frame of an event. Whether that event exists is checked with the event's own
        // number.
        let Cursor { generation, seq } = cursor.cursor.clone();
        let named = Cursor { generation, seq: seq.next() };
        let begun = first(hubs, session, &named).await?;
        if let CursorOutcome::Reset { .. } = begun.1 {
            return Ok(begun);
        }
    }
    first(hubs, session, &cursor.cursor).await
}

async fn first(
    hubs: &Hubs,
    session: &SessionId,
    cursor: &Cursor,
) -> Result<(Follower, CursorOutcome), RequestError> {
    let mut follower = hubs.gateway().follow(session, cursor)?;
    match follower.next().await {
        Ok(Follow::Outcome(outcome)) => Ok((follower, outcome)),
        Ok(Follow::Closed) => Err(RequestError::Closing),
        Ok(Follow::Deleted) => Err(RequestError::UnknownSession(session.clone())),
        Ok(Follow::Events(_)) => Err(RequestError::log("a follower did not begin with its outcome")),
        Err(error) => Err(RequestError::log(error)),
    }
}

/// An encoder for a reader at this place, and the event after which the encoder begins.
fn encoder_for(hub: &Hub, form: Form, generation: &Generation, place: Place) -> Option<(Encoder, Seq)> {
    if form.keeps_state() {
        hub.encoder_before(place.last())
    } else {
        Some((Encoder::resume(form, generation, &Fold::default()), place.last()))
    }
}

/// The end of a reader that cannot continue.
fn failed(error: RequestError) -> End {
    match error {
        RequestError::UnknownSession(_) => End::Gone,
        other => End::Failed(other),
    }
}
