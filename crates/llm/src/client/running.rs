//! A call under way, as its consumer sees it.

use crate::attempt::{ItemNo, Outcome, Said};
use crate::classify::Failure;
use tokio::sync::{mpsc, watch};
use turnstream_model::attempts::{Spent, Unkept};
use turnstream_model::event::ErrorClass;
use turnstream_model::time::Time;

/// One thing that a consumer is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// An attempt begins: its row is durable, its request leaves.
    Began {
        /// Its number in the turn.
        attempt: u32,
    },
    /// An attempt is void, and so are these items of it: another one takes its place.
    Superseded {
        /// The one that is void.
        attempt: u32,
        /// The one in its place.
        by: u32,
        /// What was shown of it.
        items: Vec<ItemNo>,
    },
    /// Its stream said something.
    Said {
        /// The attempt.
        attempt: u32,
        /// What.
        said: Said,
    },
    /// It failed, and is tried again later. Told again with another time when the wall clock was set.
    Retrying {
        /// The number of the attempt that comes.
        attempt: u32,
        /// Why the last one failed.
        reason: ErrorClass,
        /// When.
        until: Time,
        /// How it is waited.
        wait: Wait,
        /// Why, in a sentence, redacted.
        message: String,
    },
    /// Something could not be written down. The answer is not worse for it; the row stays without an end.
    Unkept(Unkept),
    /// It is over. Nothing follows.
    Ended {
        /// How.
        ending: Box<Ending>,
        /// The number of the turn's last attempt.
        attempt: u32,
        /// What the turn's retries have used up, for its next call.
        spent: Spent,
    },
}

/// How a retry is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// In memory, for at most a minute.
    Slept,
    /// Stored: it goes on after a restart.
    Parked,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The answer came whole.
    Complete(Outcome),
    /// It broke after a call was whole. What may run is [`Outcome::runnable`]; the rest is void, and the next model call
    /// plans anew.
    Truncated {
        /// What came.
        outcome: Outcome,
        /// Why no more did.
        failure: Failure,
    },
    /// It failed for good.
    Failed {
        /// Why.
        failure: Failure,
        /// When it makes sense to try again, where that is known.
        retry_at: Option<Time>,
    },
    /// Somebody cancelled it.
    Cancelled,
    /// Nothing was asked, because it could not be written down first.
    Unkept(Unkept),
}

/// A call under way. Dropped, it stops: a request is given up, and a wait that is parked stays parked.
#[derive(Debug)]
pub struct Running {
    pub(super) told: mpsc::Receiver<Told>,
    pub(super) cancel: watch::Sender<bool>,
}

impl Running {
    /// The next thing; none after the end.
    pub async fn next(&mut self) -> Option<Told> {
        self.told.recv().await
    }

    /// Gives up the request or the wait, for good. The end follows.
    pub fn cancel(&self) {
        self.cancel.send_replace(true);
    }

    /// Something that can cancel it while somebody else reads.
    pub fn canceller(&self) -> Canceller {
        Canceller(self.cancel.clone())
    }
}

/// Cancels a call.
#[derive(Clone, Debug)]
pub struct Canceller(watch::Sender<bool>);

impl Canceller {
    /// Gives up the request or the wait, for good.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }
}
