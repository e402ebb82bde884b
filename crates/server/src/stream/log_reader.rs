//! Reads the log and encodes it for one reader that is behind the shared tail.

use super::carrier::Carrier;
use super::encoder::Encoder;
use super::hub::End;
use super::tail::{Place, start};
use bytes::Bytes;
use turnstream_gateway::RequestError;
use turnstream_log::{Follow, Follower};
use turnstream_model::cursor::{CursorOutcome, ResetReason};

/// A follower of the log, and the encoder at the follower's place. That place may be before the reader's.
pub(crate) struct LogReader {
    follower: Follower,
    encoder: Encoder,
}

/// One result of reading.
pub(crate) enum Step {
    /// Frames for the reader; may be empty.
    Frames(Bytes),
    /// Retention removed the next event. The reader continues at the oldest one.
    Trimmed(CursorOutcome),
}

impl LogReader {
    pub(crate) fn new(follower: Follower, encoder: Encoder) -> Self {
        Self { follower, encoder }
    }

    /// Reads on, and moves the reader's place. Safe to drop and call again.
    pub(crate) async fn next(&mut self, carrier: Carrier, place: &mut Place) -> Result<Step, End> {
        let nothing = Ok(Step::Frames(Bytes::new()));
        match self.follower.next().await.map_err(|error| End::Failed(RequestError::log(error)))? {
            Follow::Outcome(CursorOutcome::Reset {
                generation,
                reason: reason @ ResetReason::Trimmed,
                oldest,
                head,
            }) => {
                *place = Place::at(oldest);
                Ok(Step::Trimmed(CursorOutcome::Reset { generation, reason, oldest, head }))
            }
            // Another session has this id by now.
            Follow::Outcome(CursorOutcome::Reset { .. }) => Err(End::Gone),
            Follow::Outcome(CursorOutcome::Replayed { .. } | CursorOutcome::CaughtUp { .. }) => nothing,
            Follow::Closed => Err(End::Closing),
            Follow::Deleted => Err(End::Gone),
            Follow::Events(events) => {
                let (Some(first), Some(last)) = (events.first(), events.last()) else { return nothing };
                let encoded = self.encoder.encode(&events);
                let encoded = encoded.map_err(|error| End::Failed(RequestError::log(error)))?;
                let start = start(carrier, first.seq(), &encoded.bytes, &encoded.ends, *place);
                if last.seq() >= place.next {
                    *place = Place::at(last.seq().next());
                }
                Ok(Step::Frames(encoded.bytes.freeze().slice(start..)))
            }
        }
    }
}
