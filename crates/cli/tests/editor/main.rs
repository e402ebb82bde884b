//! `turnstream acp` as editors use it: real processes, real pipes, real gateways. Every message of both sides
//! is judged by the protocol's published schema.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(clippy::disallowed_macros, reason = "tests print for those who look at them")]

mod asks;
#[cfg(feature = "real-agents")]
mod clients;
mod driver;
mod handshake;
mod hosting;
mod judge;
mod nested;
mod restart;
mod sessions;
#[allow(dead_code, reason = "the tests of other commands use the rest")]
#[path = "../gateway/support.rs"]
mod support;
mod turns;
