//! The proxy over real sockets, in front of the fake provider.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(clippy::disallowed_macros, reason = "tests print for those who look at them")]

mod faults;
mod harness;
mod limits;
mod many;
mod official;
mod pool;
#[path = "../../../llm/examples/recorded/providers.rs"]
mod providers;
mod reattach;
mod recordings;
mod requests;
