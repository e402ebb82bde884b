//! The ledger of requests to model providers: a row that is durable before the request leaves, and the
//! stored waits between requests. The client of providers writes through these traits; a store implements
//! them.
//!
//! Providers honour no idempotency key, so every attempt may be billed. A row per attempt is the only way
//! to know afterwards what was requested and how it ended.

mod name;
mod parked;
mod row;

pub use name::{AttemptName, BadName};
pub use parked::{Parked, Spent};
pub use row::{
    AgentAttempt, Attempt, Begun, Completion, Count, Ended, Evidence, Findings, Loss, Tokens, Verdict,
};

use crate::id::{SessionId, TurnId};
use crate::shared_error::SharedError;
use crate::time::Time;
use std::pin::Pin;

/// An answer of a [`Ledger`] or of [`Waits`], when it is durable.
pub type Answer<T> = Pin<Box<dyn Future<Output = Result<T, Unkept>> + Send>>;

/// An error of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unkept {
    /// An attempt of that name began before.
    #[error("attempt {0} began before: an attempt is one request, and a repeated one needs the next number")]
    Repeated(AttemptName),
    /// No attempt of that name began.
    #[error("attempt {0} never began: its row has to be there before its request leaves")]
    NeverBegan(AttemptName),
    /// The attempt has already ended.
    #[error("attempt {0} has ended before; the first end stays")]
    Ended(AttemptName),
    /// The storage failed.
    #[error("the ledger of attempts cannot be used: {0}")]
    Store(#[source] SharedError),
    /// The ledger was closed.
    #[error("the ledger of attempts is closed")]
    Closed,
}

/// Stores attempts.
///
/// An implementor promises:
///
/// - What was answered with success survives a `kill -9` and a power cut.
/// - A row without an end whose owner is gone reads as [`Verdict::Unknown`].
/// - The first end of a row stays.
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

/// Stores long waits. A turn has at most one.
///
/// An implementor makes the same promises as for a [`Ledger`].
pub trait Waits: Send + Sync {
    /// Stores a wait; an earlier one of the same turn is replaced.
    fn park(&self, parked: Parked) -> Answer<()>;
    /// Replaces the wait of a turn if it still exists, and returns whether it did. A removed wait stays
    /// removed.
    fn restate(&self, parked: Parked) -> Answer<bool>;
    /// Removes the wait of a turn, and returns whether there was one. If two callers remove it, one gets
    /// true.
    fn unpark(&self, session: SessionId, turn: TurnId) -> Answer<bool>;
    /// All waits, the soonest first.
    fn parked(&self) -> Answer<Vec<Parked>>;
}

/// Removal of old rows.
pub trait Retention: Send + Sync {
    /// Removes all rows, evidence and waits of a session. Returns the number of rows.
    fn forget(&self, session: SessionId) -> Answer<u64>;
    /// Removes rows that ended before this time. Returns their number. Waits stay.
    fn trim(&self, before: Time) -> Answer<u64>;
}
