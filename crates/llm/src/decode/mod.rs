//! Decodes the payloads of a stream into events: one state machine per format, and what they share.

pub(crate) mod attempt;
pub(crate) mod calls;
pub(crate) mod chat;
mod frames;
pub(crate) mod messages;
mod payload;
pub(crate) mod responses;
mod sequence;

pub(crate) use frames::{feed, finish};
pub(crate) use payload::repaired;

use crate::attempt::{AnomalyKind, SpliceEvidence, Transport};
use attempt::Attempt;
use std::ops::Range;

/// An event's name, payload and place in the body.
#[derive(Debug, Clone)]
pub(crate) struct Place<'a> {
    /// The value of its `event:` line; `message` without one.
    pub(crate) name: &'a str,
    /// The payload, for error objects.
    pub(crate) data: &'a str,
    /// Its place in the body, in bytes.
    pub(crate) range: Range<u64>,
}

/// Whether an event belongs to the completion that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    /// It names the same completion.
    Same,
    /// It names or opens another completion.
    Other(SpliceEvidence),
    /// It names no completion.
    Unknown,
}

/// One wire format.
pub(crate) trait Wire {
    /// An event of this format.
    type Event<'a>: serde::Deserialize<'a> + std::fmt::Debug;

    /// Reads one of the most frequent events; the parser reads the others.
    fn quick(data: &str) -> Option<Self::Event<'_>>;

    /// Applies a complete event and moves its texts out. Called only while the attempt is not over.
    fn apply(&mut self, event: &mut Self::Event<'_>, place: &Place<'_>, attempt: &mut Attempt);

    /// Whether an event belongs to the completion so far.
    fn relation(&self, event: &Self::Event<'_>, attempt: &Attempt) -> Relation;

    /// Whether an event is the first event of a completion.
    fn opens(&self, event: &Self::Event<'_>) -> bool;

    /// Records a loss: taints the open items, and ends the attempt if the rest cannot be attributed.
    fn lost(&mut self, kind: AnomalyKind, range: Range<u64>, attempt: &mut Attempt);

    /// Handles `[DONE]`, which only chat completions need.
    fn done(&mut self, place: &Place<'_>, attempt: &mut Attempt);

    /// The id of the completion that an event names.
    fn id(&self, event: &Self::Event<'_>) -> Option<String>;

    /// Handles the end of the body.
    fn end(&mut self, transport: Transport, attempt: &mut Attempt);

    /// Whether a body that ends with this partial event has lost nothing.
    fn ends_with(&self, rest: &[u8], attempt: &Attempt) -> bool;
}
