//! Dialects: pure encodings of a session's log, one for each kind of client. No clock, no I/O, no transport.
//!
//! Each dialect is a folder and implements [`Dialect`]. The server finds it by its name.
//!
//! - [`native`] is Turnstream's own wire. It copies the committed bytes.
//! - [`acp`] is the Agent Client Protocol. `docs/acp.md` has the mapping of every event.
//!
//! [`markdown`] writes a page for people and does not implement [`Dialect`]. It groups the items of a turn
//! and ends with totals, so it is written once, from a finished state.

pub mod acp;
mod dialect;
pub mod markdown;
pub mod native;

pub use dialect::{Dialect, FrameSink, Repeats};
