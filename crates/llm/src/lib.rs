//! Provider streams of large language models, read so that a corrupted one can neither pass for a whole one nor run
//! a wrong tool call.
//!
//! A [`Reader`] takes the bytes of one response, in any split, and says what is in them ([`Said`]); at the end
//! it gives the [`Outcome`]. It knows three wire [`Format`]s and checks two things that usual clients do not: that all
//! events belong to one completion (identity), and that nothing of an item was lost before it is committed (taint).
//! Nothing of that does I/O or looks at a clock.
//!
//! What becomes of an attempt that failed is decided in [`classify`] and [`retry`], as pure; [`delay`] and [`wait`] have the
//! time of it, [`evidence`] what may be kept of its bytes. With the feature `client` there is one who asks: `client`.

mod attempt;
mod body;
mod decode;
mod head;
mod profile;
mod reader;
mod wire;

pub mod account;
pub mod classify;
#[cfg(feature = "client")]
pub mod client;
pub mod delay;
pub mod evidence;
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
pub use reader::Reader;
