//! The events of the three formats, as types that borrow from the payload.
//!
//! Members of rare events are kept raw and parsed on demand, so that a delta costs one pass.

pub(crate) mod chat;
pub(crate) mod error;
mod loose;
mod members;
pub(crate) mod messages;
mod object;
pub(crate) mod quick;
pub(crate) mod responses;
mod short_list;
mod strict_value;
mod text;
pub(crate) mod unread;
pub(crate) mod usage;

pub(crate) use loose::{Count, Loose};
pub(crate) use object::{object, strict_object};
pub(crate) use short_list::ShortList;
pub(crate) use strict_value::StrictValue;
pub(crate) use text::{Str, filled, take_filled};
