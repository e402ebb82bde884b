//! Turnstream's domain types, and the rules between them. Pure: no I/O, no randomness, and no clock but
//! [`time::Time::now`], which nothing in this crate calls.
//!
//! The main parts, in the order in which a session uses them:
//!
//! * [`signal::Signal`]: what an adapter *observed* at an agent.
//! * [`machine::Machine`]: decides what it *means*. Signals and commands in, event drafts out.
//! * [`event::Event`]: one line of a session's log, with exactly the JSON of the native wire.
//!   `event/table.rs` describes every type.
//! * [`fold::Fold`]: events in, session state out. A snapshot is a fold at a sequence number.
//!
//! [`check::Checker`] reads a log and reports every law it breaks. It shares no code with the machine, the
//! fold or the table of events, so that it can find their mistakes.

pub mod attempts;
pub mod check;
pub mod cursor;
mod error_chain;
pub mod event;
pub mod export;
pub mod fold;
pub mod id;
pub mod machine;
mod shared_error;
pub mod signal;
mod stable_hash;
pub mod time;
pub mod unattended;
mod words;

pub use error_chain::Chain;
pub use shared_error::SharedError;
pub use stable_hash::stable_hash;
