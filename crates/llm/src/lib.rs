//! Provider streams of large language models, read so that a corrupted one can neither pass for a whole one nor run
//! a wrong tool call.
//!
//! A `Reader` takes the bytes of one response, in any split, and says what is in them ([`Said`]); at the end
//! it gives the [`Outcome`]. It knows three wire [`Format`]s and checks two things that usual clients do not: that all
//! events belong to one completion (identity), and that nothing of an item was lost before it is committed (taint).
//! Nothing here does I/O or looks at a clock.

mod attempt;
pub mod classify;
#[cfg(feature = "client")]
pub mod client;
pub mod delay;
pub mod evidence;
mod head;
mod profile;
pub mod retry;
pub mod wait;

pub use attempt::{
    Anomaly, AnomalyKind, Body, BodyKind, Call, CallKind, Delivered, Ended, Evidence, Finding, Finish,
    Furthest, Identity, Item, ItemNo, Kept, Meaning, Outcome, ProfileSays, ProviderError, Repair, Repairs,
    Residue, Said, Transport, Usage, Why, Withheld,
};
pub use head::{Format, Head};
pub use profile::{
    CallIndex, Constancy, DoneMarker, EmptyArguments, Opening, Pings, Profile, Sequence, Throttle,
};
