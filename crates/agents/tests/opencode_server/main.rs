//! The opencode client and supervisor with the real `opencode serve` against the scripted provider.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod bus;
mod client;
mod serve;
mod support;
mod turns;
