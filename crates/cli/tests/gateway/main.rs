//! `turnstream serve`, `run`, `sessions`, `search` and `tail` as a person runs them: real processes on a real directory.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod choice;
mod configuration;
#[cfg(target_os = "linux")]
mod disk;
#[cfg(feature = "real-agents")]
mod history;
#[cfg(feature = "real-agents")]
mod opencode;
mod reach;
mod removal;
mod search;
mod serve;
mod support;
mod terminal;
mod transfer;
mod turns;
mod verbs;
