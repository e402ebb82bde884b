//! The types of one attempt: the events of its stream, its items, its damage and its outcome.

mod anomaly;
mod failure;
mod item;
mod outcome;
mod stream_event;
mod usage;

pub use anomaly::{Anomaly, AnomalyKind, Repair, Repairs, SpliceEvidence, SpliceFinding};
pub use failure::{Body, BodyKind, ProfileRule, ProviderError};
pub use item::{Extra, Item, ItemNo, ReasoningData, ToolCall, ToolCallKind, WithheldCall, WithheldReason};
pub use outcome::{Delivered, Furthest, Identity, Outcome, Residue, StreamEnd, Transport};
pub use stream_event::StreamEvent;
pub use usage::{Finish, FinishMeaning, Usage};
