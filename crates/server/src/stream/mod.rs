//! How one session's log reaches many readers.
//!
//! Every reader is a cursor. Those at the tail share what a [`hub::Hub`] has encoded, once for all of them; whoever is further
//! behind reads the log at its own pace and encodes for itself, until it has caught up. Both give the same bytes, so a reader
//! goes over from one to the other at any event, without a gap and without a repeat.

mod board;
mod dialect;
mod hub;
mod open;
mod pulse;
mod several;
mod sse;
mod subscriber;
mod tail;
mod websocket;

pub(crate) use board::board_body;
pub(crate) use dialect::Dialect;
pub(crate) use hub::Hubs;
pub(crate) use open::{Kind as StreamKind, OpenStreams};
pub(crate) use several::carry;
pub(crate) use sse::{sse_body, sse_response};
pub(crate) use subscriber::Subscriber;
pub(crate) use websocket::speak;
