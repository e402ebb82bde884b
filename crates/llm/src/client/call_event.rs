//! The events and the outcome of one model call.

use crate::attempt::{ItemNo, Outcome, StreamEvent};
use crate::classify::Failure;
use turnstream_model::attempts::{Spent, Unkept};
use turnstream_model::event::ErrorClass;
use turnstream_model::time::Time;

/// One event of a model call. [`CallEvent::Ended`] is the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallEvent {
    /// An attempt starts: its ledger row is durable, its request is about to be sent.
    AttemptStarted {
        /// The number of the attempt in the turn.
        attempt: u32,
    },
    /// An earlier attempt is void, and so are the items that were shown of it.
    Superseded {
        /// The void attempt.
        attempt: u32,
        /// The attempt that replaces it.
        by: u32,
        /// The items that were shown.
        items: Vec<ItemNo>,
    },
    /// An event of the attempt's stream.
    Stream {
        /// The attempt.
        attempt: u32,
        /// The event.
        event: StreamEvent,
    },
    /// The attempt failed, and the next one follows later.
    ///
    /// Sent again with another time if the wall clock was set meanwhile.
    Retrying {
        /// The number of the next attempt.
        attempt: u32,
        /// The error class of the failed attempt.
        reason: ErrorClass,
        /// When the next attempt starts.
        until: Time,
        /// Whether the wait is stored.
        wait: Wait,
        /// What went wrong, in one redacted sentence.
        message: String,
    },
    /// The ledger or a stored wait could not be written. The answer is not affected.
    NotRecorded(Unkept),
    /// The call is over. Nothing follows.
    Ended {
        /// How it ended.
        outcome: Box<CallOutcome>,
        /// The number of the turn's last attempt.
        attempt: u32,
        /// The retry budget that the turn has used, for its next call.
        spent: Spent,
    },
}

/// How the next attempt is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// In memory, for at most a minute.
    Slept,
    /// Stored: the wait continues after a restart.
    Parked,
}

/// How a model call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// The answer is complete.
    Complete(Outcome),
    /// The answer broke off after a tool call was complete.
    ///
    /// [`Outcome::runnable`] lists the calls that may run. Everything else is void, and the next model call
    /// plans anew.
    Truncated {
        /// What was received.
        outcome: Outcome,
        /// Why it broke off.
        failure: Failure,
    },
    /// The call failed, and no attempt follows.
    Failed {
        /// The failure of the last attempt.
        failure: Failure,
        /// When another call makes sense, where that is known.
        retry_at: Option<Time>,
    },
    /// The call was cancelled.
    Cancelled,
    /// No request was sent, because the ledger row or the wait could not be stored.
    NotRecorded(Unkept),
}
