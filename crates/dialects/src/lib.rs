//! Dialects: pure encodings of a session's log for the clients that exist. No clock, no I/O, no transport.
//!
//! A [`Dialect`] is a folder here. [`native`] is the wire of this project and copies what was committed. [`acp`] is the Agent
//! Client Protocol; what it makes of every event is in `docs/acp.md`. The server carries them, by the name they declare.
//!
//! [`markdown`] is a page for people, and not a [`Dialect`]: it is written once from a finished fold, groups the items of a
//! turn and ends with sums, so there is no frame of an event that a later one does not change.

pub mod acp;
mod dialect;
pub mod markdown;
pub mod native;

pub use dialect::{Dialect, Frames, Repeats};
