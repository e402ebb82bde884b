//! A reader that is further behind than the shared tail: it reads the log and encodes for itself.

use super::carrier::Carrier;
use super::encoder::Encoder;
use super::hub::End;
use super::tail::{Place, start};
use bytes::Bytes;
use turnstream_log::{Follow, Follower};
use turnstream_model::cursor::{CursorOutcome, ResetReason};

/// A follower of the log, and the dialect at the follower's place. That place may be before the reader's.
pub(crate) struct LogReader {
    follower: Follower,
    encoder: Encoder,
}

/// What it found.
pub(crate) enum Step {
    /// Frames for the reader; may be none.
    Frames(Bytes),
    /// What the reader wanted is no longer kept; it goes on at the oldest event that is.
    Trimmed(CursorOutcome),
}

impl LogReader {
    pub(crate) fn new(follower: Follower, encoder: Encoder) -> Self {
        Self { follower, encoder }
    }

    /// The next step, and the reader's place after it. Safe to drop and call again.
    pub(crate) async fn next(&mut self, carrier: Carrier, place: &mut Place) -> Result<Step, End> {
        let nothing = Ok(Step::Frames(Bytes::new()));
        match self.follower.next().await.map_err(|error| End::Failed(error.to_string()))? {
            Follow::Outcome(CursorOutcome::Reset {
                generation,
                reason: reason @ ResetReason::Trimmed,
                oldest,
                head,
            }) => {
                *place = Place::at(oldest);
                Ok(Step::Trimmed(CursorOutcome::Reset { generation, reason, oldest, head }))
            }
            // Another session has its name by now.
            Follow::Outcome(CursorOutcome::Reset { .. }) => Err(End::Gone),
            Follow::Outcome(CursorOutcome::Replayed { .. } | CursorOutcome::CaughtUp { .. }) => nothing,
            Follow::Closed => Err(End::Closing),
            Follow::Deleted => Err(End::Gone),
            Follow::Events(events) => {
                let (Some(first), Some(last)) = (events.first(), events.last()) else { return nothing };
                let encoded = self.encoder.encode(&events).map_err(End::Failed)?;
                let start = start(carrier, first.seq(), &encoded.bytes, &encoded.ends, *place);
                if last.seq() >= place.next {
                    *place = Place::at(last.seq().next());
                }
                Ok(Step::Frames(encoded.bytes.freeze().slice(start..)))
            }
        }
    }
}
