//! Dialects: pure encodings of a session's log for the clients that exist. No clock, no I/O, no transport.
//!
//! [`acp`] is the Agent Client Protocol. What it makes of every event is in `docs/acp.md`. [`markdown`] is a page for people.

pub mod acp;
pub mod markdown;
