//! How one session's log reaches many readers.
//!
//! The frames are a dialect's (`crates/dialects`); this carries them. Every reader is a cursor. Those at the tail share what a
//! [`hub::Hub`] has encoded, once for all of them; whoever is further behind reads the log at its own pace and encodes for
//! itself, until it has caught up. Both give the same bytes, so a reader goes over from one to the other at any event, without
//! a gap and without a repeat.
//!
//! A dialect that keeps state can go on only where its state is known: at the tail, behind a [`encoder::Checkpoint`], or at
//! the head. A reader that is elsewhere is shown the conversation at the head, and told so.

mod carrier;
mod dialects;
mod encoder;
mod framing;
mod heartbeat;
mod hub;
mod log_reader;
mod multiplex;
mod open_streams;
mod saved_checkpoints;
mod session_states;
mod sse;
mod subscriber;
mod tail;
mod websocket;

pub(crate) use carrier::Carrier;
pub(crate) use dialects::Offered;
pub(crate) use encoder::Form;
pub(crate) use hub::Hubs;
pub(crate) use multiplex::serve_sessions;
pub(crate) use open_streams::{Kind as StreamKind, OpenStreams};
pub(crate) use session_states::session_states_body;
pub(crate) use sse::{sse_body, sse_response};
pub(crate) use subscriber::Subscriber;
pub(crate) use websocket::serve_session;
