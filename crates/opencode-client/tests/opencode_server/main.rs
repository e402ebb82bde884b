//! The opencode client and supervisor with the real `opencode serve` against the scripted provider.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod asks;
mod bus;
mod client;
mod drops;
mod ends;
mod gaps;
mod halves;
mod killed;
mod lab;
mod limits;
mod retries;
mod seen;
mod serve;
mod stops;
mod subagents;
mod support;
mod turns;

/// The protocol's schema, as the dialect's own tests ask it.
#[path = "../../../dialects/tests/it/judge.rs"]
mod judge;

/// A client that reads what the dialect writes.
#[path = "../../../dialects/tests/it/client.rs"]
#[allow(dead_code, reason = "there is no fold to compare with here")]
mod screen;
