//! Streams: how one session's log reaches many readers.
//!
//! A dialect (`crates/dialects`) writes the frames, and this module carries them. Every reader is a cursor.
//! Readers at the tail share the frames that a [`hub::Hub`] encodes once. A reader that is further behind
//! reads the log and encodes for itself until it has caught up. Both ways give the same bytes, so a reader
//! can change over at any event without a gap or a repeat.
//!
//! A dialect with state can continue only where its state is known: at the tail, after a
//! [`encoder::ResumePoint`], or at the head. A reader at another place gets a reset and the conversation up
//! to the head.

mod carrier;
mod dialects;
mod encoder;
mod framing;
mod heartbeat;
mod hub;
mod log_reader;
mod multiplex;
mod open_streams;
mod saved_resume_points;
mod session_states;
mod sse;
mod subscriber;
mod tail;
mod websocket;

pub(crate) use carrier::{Carrier, heartbeat_comment};
pub(crate) use dialects::Offered;
pub(crate) use encoder::Form;
pub(crate) use framing::{EventFrames, Framing, ReplayFrames};
pub(crate) use heartbeat::HeartbeatTimer;
pub(crate) use hub::Hubs;
pub(crate) use multiplex::serve_sessions;
pub(crate) use open_streams::{Kind as StreamKind, OpenStreams};
pub(crate) use session_states::session_states_body;
pub(crate) use sse::{sse_body, sse_response};
pub(crate) use subscriber::Subscriber;
pub(crate) use websocket::serve_session;
