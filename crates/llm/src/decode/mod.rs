//! From payloads to what an attempt said: what all formats share, and one state machine for each.

pub(crate) mod attempt;
pub(crate) mod calls;
pub(crate) mod chat;
mod drive;
pub(crate) mod messages;
mod payload;
pub(crate) mod responses;
mod sequence;

pub(crate) use drive::{drive, finish};

use crate::attempt::{AnomalyKind, Evidence, Transport};
use attempt::Attempt;
use std::ops::Range;

/// An event's place and name, whatever its format.
#[derive(Debug, Clone)]
pub(crate) struct Place<'a> {
    /// The type that the event's own line gives, `message` if none.
    pub(crate) name: &'a str,
    /// The payload, for evidence.
    pub(crate) data: &'a str,
    /// Where the event is in the body.
    pub(crate) range: Range<u64>,
}

/// How an event stands to the completion that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    /// It names the same one.
    Same,
    /// It names another one, or opens one where one is open.
    Other(Evidence),
    /// It names none.
    Unknown,
}

/// One wire format.
pub(crate) trait Wire {
    /// An event as it is on the wire.
    type Event<'a>: serde::Deserialize<'a> + std::fmt::Debug;

    /// Reads an event that is one of the usual ones; the parser reads the others.
    fn quick(data: &str) -> Option<Self::Event<'_>>;

    /// Takes an event that is whole, and its texts out of it. Called only while the attempt is not over.
    fn apply(&mut self, event: &mut Self::Event<'_>, place: &Place<'_>, attempt: &mut Attempt);

    /// How an event stands to the completion so far.
    fn relation(&self, event: &Self::Event<'_>, attempt: &Attempt) -> Relation;

    /// Whether an event is the first one of a completion.
    fn opens(&self, event: &Self::Event<'_>) -> bool;

    /// Something was lost: taints what is open, and ends the attempt if nobody can tell whose the rest is.
    fn lost(&mut self, kind: AnomalyKind, range: Range<u64>, attempt: &mut Attempt);

    /// `[DONE]`, which only chat completions need.
    fn done(&mut self, place: &Place<'_>, attempt: &mut Attempt);

    /// The id of the completion that an event names.
    fn id(&self, event: &Self::Event<'_>) -> Option<String>;

    /// The body is over.
    fn end(&mut self, transport: Transport, attempt: &mut Attempt);

    /// Whether a body that ends in this rest of an event has lost nothing by it.
    fn ends_with(&self, rest: &[u8], attempt: &Attempt) -> bool;
}
