//! What is kept of every request to a model provider: a row that is durable before the request leaves, and the waits
//! between requests. Types and two traits; whoever asks providers writes through them, whoever has a disk implements
//! them.
//!
//! Providers honour no idempotency key, so every attempt may be billed. A row per attempt is the only way to know
//! afterwards what was asked and what came of it.

mod name;
mod parked;
mod row;

pub use name::{AttemptName, BadName};
pub use parked::{Parked, Spent};
pub use row::{Attempt, Begun, Completion, Count, Ended, Evidence, Findings, Loss, Tokens, Verdict};

use crate::id::{SessionId, TurnId};
use crate::time::Time;
use std::pin::Pin;

/// An answer of a [`Ledger`] or of [`Waits`], when it is durable.
pub type Answer<T> = Pin<Box<dyn Future<Output = Result<T, Unkept>> + Send>>;

/// Why something was not kept or not found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unkept {
    /// An attempt of that name began before.
    #[error("attempt {0} began before: an attempt is one request, and a repeated one needs the next number")]
    Repeated(AttemptName),
    /// Nobody began it.
    #[error("attempt {0} never began: its row has to be there before its request leaves")]
    NeverBegan(AttemptName),
    /// It has an end.
    #[error("attempt {0} has ended before; the first end stays")]
    Ended(AttemptName),
    /// The place where rows are kept failed.
    #[error("the ledger of attempts cannot be used: {0}")]
    Store(String),
    /// It was closed.
    #[error("the ledger of attempts is closed")]
    Closed,
}

/// Where attempts are written down.
///
/// An implementor owes: what is answered with success outlives a `kill -9` and a power cut; a row without an end whose
/// owner is gone reads [`Verdict::Unknown`]; the first end of a row stays.
pub trait Ledger: Send + Sync {
    /// Writes a row. The request may leave when this is answered, and not before.
    fn begin(&self, begun: Begun) -> Answer<()>;
    /// Writes how it ended, once.
    fn end(&self, name: AttemptName, ended: Ended) -> Answer<()>;
    /// The attempts of a session in the order in which they began, without their evidence.
    fn attempts(&self, session: SessionId) -> Answer<Vec<Attempt>>;
    /// The kept bytes of one that went wrong.
    fn evidence(&self, name: AttemptName) -> Answer<Option<Evidence>>;
}

/// Where long waits are written down. A turn waits for one thing at a time.
///
/// An implementor owes the same as for a [`Ledger`].
pub trait Waits: Send + Sync {
    /// Stores a wait; an earlier one of the same turn is replaced.
    fn park(&self, parked: Parked) -> Answer<()>;
    /// Replaces the wait of a turn if it is still there, and says whether it was: one that somebody removed stays removed.
    fn restate(&self, parked: Parked) -> Answer<bool>;
    /// Removes the wait of a turn. Says whether there was one: of two who ask, one is told yes.
    fn unpark(&self, session: SessionId, turn: TurnId) -> Answer<bool>;
    /// All waits, the soonest first.
    fn parked(&self) -> Answer<Vec<Parked>>;
}

/// What becomes of old rows, for those who own the place.
pub trait Retention: Send + Sync {
    /// Removes all rows, evidence and waits of a session; answers how many rows there were.
    fn forget(&self, session: SessionId) -> Answer<u64>;
    /// Removes rows that ended before this; answers how many. Waits stay.
    fn trim(&self, before: Time) -> Answer<u64>;
}
