//! One turn as the event stream of one response. It ends when the turn ends or waits for a person. A
//! response that cannot go on is cut, because a clean end means success to clients.

use super::turn_state::{TurnState, Wanted};
use crate::access::Credential;
use crate::app::App;
use crate::limits::Guarded;
use crate::problem::{Kind, Problem};
use crate::stream::{
    Carrier, EventFrames, Framing, HeartbeatTimer, ReplayFrames, StreamKind, heartbeat_comment, sse_response,
};
use axum::body::Body;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use std::sync::Arc;
use turnstream_dialects::FrameSink;
use turnstream_gateway::RequestError;
use turnstream_log::{Committed, Follow, Follower};
use turnstream_model::Chain;
use turnstream_model::cursor::CursorOutcome;
use turnstream_model::event::{Body as EventBody, Event};
use turnstream_model::fold::State;
use turnstream_model::id::{PromptId, SessionId, TurnId};

/// What a response does after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The turn goes on.
    Running,
    /// The turn waits for a person.
    Waiting,
    /// The turn is over, and its end is written.
    Ended,
}

/// Writes one turn in the words of one kind of client. It is called in the order of these methods.
pub(crate) trait TurnWriter: Send + 'static {
    /// Writes what the client lacks before the turn of this prompt, which has not begun.
    fn queued(&mut self, _prompt: &PromptId, _state: &State, _out: &mut ReplayFrames<'_>) {}

    /// Writes what the client lacks of a turn that has begun. The state has the whole turn.
    fn catch_up(&mut self, state: &State, turn: &TurnId, out: &mut ReplayFrames<'_>) -> Progress;

    /// An event before the turn has begun. Nothing is written of it.
    fn passed(&mut self, _event: &Event) {}

    /// Writes an event after that. The first one may be the start of the turn; later ones may be of another
    /// turn, or of the session.
    fn event(&mut self, event: &Event, out: &mut EventFrames<'_>) -> Progress;

    /// Writes the end of a response whose turn waits for a person.
    fn pause(&mut self, out: &mut impl FrameSink);

    /// Writes that the prompt was withdrawn before a turn took it.
    fn withdrawn(&mut self, out: &mut EventFrames<'_>);
}

/// The connection is cut.
#[derive(Debug, thiserror::Error)]
#[error("the stream was cut")]
struct Cut;

/// A response in the making.
pub(crate) struct TurnResponse<W> {
    app: Arc<App>,
    session: SessionId,
    wanted: Wanted,
    writer: W,
    framing: Framing,
    follower: Follower,
    /// The turn, once it has begun.
    turn: Option<TurnId>,
    stage: Stage,
    timer: HeartbeatTimer,
}

enum Stage {
    /// The state is yet to be written.
    CatchUp(Box<TurnState>),
    Live,
    Ended,
}

impl<W: TurnWriter> TurnResponse<W> {
    /// Answers with a turn: what the client lacks of it, and then its events until it ends or waits. The
    /// writer is made from the state at which the response begins.
    pub(crate) async fn open(
        app: Arc<App>,
        credential: Credential,
        session: SessionId,
        wanted: Wanted,
        writer: impl FnOnce(&State) -> W,
    ) -> Result<Response, Problem> {
        let place = app.in_use.followers.join()?;
        let counted = app.streams.open(StreamKind::Sse);
        let read = TurnState::read(&app.gateway, &session, &wanted).await?;
        if let Some(turn) = read.turn.as_ref().filter(|turn| !read.has(turn)) {
            let detail = format!("there is no turn {turn} in session {session}, or not any more");
            return Err(Problem::new(Kind::TurnNotOpen, detail));
        }
        let writer = writer(&read.state);
        let follower = app.gateway.follow(&session, &read.cursor())?;
        let response = Self {
            framing: Framing::new(Carrier::Sse, "", &read.generation),
            timer: HeartbeatTimer::new(app.options.heartbeat),
            app: app.clone(),
            session,
            wanted,
            writer,
            follower,
            turn: read.turn.clone(),
            stage: Stage::CatchUp(Box::new(read)),
        };
        let pieces = stream::unfold(response, |mut response| async move {
            let piece = response.piece().await?;
            Some((piece, response))
        });
        // A stream whose token or ticket has ended is cut. One that has ended well is not polled again.
        let ended = async move { app.access.until_ended(credential).await };
        let pieces = pieces.map(Some).chain(stream::iter([None]));
        let allowed = pieces.take_until(Box::pin(ended)).chain(stream::iter([Some(Err(Cut))]));
        let until_end = allowed.scan((), |(), piece| std::future::ready(piece));
        Ok(Guarded::response(sse_response(Body::from_stream(until_end)), (place, counted)))
    }

    /// The next bytes. `None` after a clean end.
    async fn piece(&mut self) -> Option<Result<Bytes, Cut>> {
        match std::mem::replace(&mut self.stage, Stage::Live) {
            Stage::CatchUp(read) => {
                let bytes = self.catch_up(&read);
                if !bytes.is_empty() {
                    self.timer.sent();
                    return Some(Ok(bytes));
                }
            }
            Stage::Live => {}
            Stage::Ended => return None,
        }
        if matches!(self.stage, Stage::Ended) {
            return None;
        }
        let piece = self.live().await;
        self.timer.sent();
        Some(piece)
    }

    /// What the client lacks of the state.
    fn catch_up(&mut self, read: &TurnState) -> Bytes {
        let mut out = BytesMut::new();
        let progress = match &read.turn {
            Some(turn) => {
                let mut frames = self.framing.replay(read.state.seq, &mut out);
                let progress = self.writer.catch_up(&read.state, turn, &mut frames);
                // Clients drop a frame whose id they have seen, so the end must not have that of the replay.
                if progress == Progress::Waiting {
                    self.writer.pause(&mut frames);
                }
                frames.finish();
                progress
            }
            None if self.is_withdrawn(&read.state) => {
                self.writer.withdrawn(&mut self.framing.event(read.state.seq, &mut out));
                Progress::Ended
            }
            None => {
                if let Wanted::Prompt(prompt) = &self.wanted {
                    let mut frames = self.framing.replay(read.state.seq, &mut out);
                    self.writer.queued(prompt, &read.state, &mut frames);
                    frames.finish();
                }
                Progress::Running
            }
        };
        match progress {
            Progress::Running => {}
            Progress::Waiting | Progress::Ended => self.stage = Stage::Ended,
        }
        out.freeze()
    }

    fn is_withdrawn(&self, state: &State) -> bool {
        match &self.wanted {
            Wanted::Turn(_) => false,
            Wanted::Prompt(prompt) => state.queue.iter().all(|queued| queued.prompt != *prompt),
        }
    }

    /// The next frames, or a heartbeat.
    async fn live(&mut self) -> Result<Bytes, Cut> {
        loop {
            let step = tokio::select! {
                biased;
                step = self.follower.next() => step,
                () = self.timer.due() => return Ok(heartbeat_comment()),
                () = self.app.closing.begun() => return Err(self.cut()),
            };
            let bytes = match step {
                Ok(Follow::Events(events)) => self.events(&events).await?,
                Ok(Follow::Outcome(CursorOutcome::Replayed { .. } | CursorOutcome::CaughtUp { .. })) => {
                    continue;
                }
                // After a reset, events that the client has not got are gone.
                Ok(Follow::Outcome(CursorOutcome::Reset { .. }) | Follow::Closed | Follow::Deleted) => {
                    return Err(self.cut());
                }
                Err(error) => return Err(self.cut_by(&error)),
            };
            match self.stage {
                Stage::Live if bytes.is_empty() => {}
                Stage::Live | Stage::Ended => return Ok(bytes),
                // Another turn took the prompt, and is written with the next piece.
                Stage::CatchUp(_) => return Ok(heartbeat_comment()),
            }
        }
    }

    fn cut(&mut self) -> Cut {
        self.stage = Stage::Ended;
        Cut
    }

    fn cut_by(&mut self, error: &(dyn std::error::Error + 'static)) -> Cut {
        tracing::warn!(session = %self.session, error = %Chain(error), "a response is cut");
        self.cut()
    }

    /// The frames of these events, up to the end of the response.
    async fn events(&mut self, events: &[Committed]) -> Result<Bytes, Cut> {
        let mut out = BytesMut::new();
        for (index, committed) in events.iter().enumerate() {
            let event = match committed.event() {
                Ok(event) => event,
                Err(error) => return Err(self.cut_by(&error)),
            };
            let mut frames = self.framing.event(event.seq, &mut out);
            if self.turn.is_none() {
                match beginning(&self.wanted, &event) {
                    Beginning::NotYet => {
                        self.writer.passed(&event);
                        continue;
                    }
                    Beginning::Started(turn) => self.turn = Some(turn),
                    Beginning::Withdrawn => {
                        self.writer.withdrawn(&mut frames);
                        self.stage = Stage::Ended;
                        break;
                    }
                    // A turn that had begun before took the prompt.
                    Beginning::Joined => {
                        if let Err(error) = self.begin_again().await {
                            return Err(self.cut_by(&error));
                        }
                        break;
                    }
                }
            }
            match self.writer.event(&event, &mut frames) {
                Progress::Running => {}
                Progress::Waiting if is_settled_in(&events[index + 1..], &event) => {}
                Progress::Waiting => {
                    self.writer.pause(&mut frames);
                    self.stage = Stage::Ended;
                    break;
                }
                Progress::Ended => {
                    self.stage = Stage::Ended;
                    break;
                }
            }
        }
        Ok(out.freeze())
    }

    async fn begin_again(&mut self) -> Result<(), RequestError> {
        let read = TurnState::read(&self.app.gateway, &self.session, &self.wanted).await?;
        self.follower = self.app.gateway.follow(&self.session, &read.cursor())?;
        self.turn = read.turn.clone();
        self.stage = Stage::CatchUp(Box::new(read));
        Ok(())
    }
}

/// What an event says about the turn of a prompt.
enum Beginning {
    NotYet,
    Started(TurnId),
    Joined,
    Withdrawn,
}

fn beginning(wanted: &Wanted, event: &Event) -> Beginning {
    let Wanted::Prompt(wanted) = wanted else { return Beginning::NotYet };
    let body = &event.draft.body;
    if let (EventBody::TurnStarted { prompts, .. }, Some(turn)) = (body, &event.draft.turn)
        && prompts.contains(wanted)
    {
        return Beginning::Started(turn.clone());
    }
    if matches!(body, EventBody::PromptTaken { prompt } if prompt == wanted) {
        return Beginning::Joined;
    }
    if matches!(body, EventBody::PromptWithdrawn { prompt } if prompt == wanted) {
        return Beginning::Withdrawn;
    }
    Beginning::NotYet
}

/// Whether one of these events settles the ask of this one. A rule of the session answers at once.
fn is_settled_in(events: &[Committed], ask: &Event) -> bool {
    let settles = |event: Event| {
        let (asked, answered) = (&ask.draft.body, &event.draft.body);
        if let (
            EventBody::ApprovalRequested { approval, .. },
            EventBody::ApprovalResolved { approval: settled, .. },
        ) = (asked, answered)
        {
            return approval == settled;
        }
        matches!(
            (asked, answered),
            (
                EventBody::QuestionAsked { question, .. },
                EventBody::QuestionAnswered { question: settled, .. },
            ) if question == settled
        )
    };
    events.iter().any(|event| event.event().is_ok_and(settles))
}
