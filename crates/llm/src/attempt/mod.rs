//! The words for one attempt: what its stream said, what went wrong in it, and how it ended.

mod anomaly;
mod failure;
mod item;
mod outcome;
mod said;
mod usage;

pub use anomaly::{Anomaly, AnomalyKind, Evidence, Finding, Repair, Repairs};
pub use failure::{Body, BodyKind, ProfileSays, ProviderError};
pub use item::{Call, CallKind, Item, ItemNo, Kept, Why, Withheld};
pub use outcome::{Delivered, Ended, Furthest, Identity, Outcome, Residue, Transport};
pub use said::Said;
pub use usage::{Finish, Meaning, Usage};
