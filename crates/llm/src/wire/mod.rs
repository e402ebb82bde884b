//! The events of the three formats as types that borrow from the payload. Members that only matter in rare events
//! are kept raw and parsed when they do, so that a delta costs one pass.

pub(crate) mod chat;
pub(crate) mod error;
mod few;
mod loose;
pub(crate) mod messages;
mod object;
pub(crate) mod quick;
mod readable;
pub(crate) mod responses;
mod text;
pub(crate) mod usage;

pub(crate) use few::Few;
pub(crate) use loose::{Count, Loose};
pub(crate) use object::{object, sound_object};
pub(crate) use readable::Readable;
pub(crate) use text::{Str, filled, taken};
