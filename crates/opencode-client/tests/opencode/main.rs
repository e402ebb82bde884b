//! opencode, played from captures of the real server.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod acp;
mod answers;
mod away;
mod capture;
mod captures;
mod compaction;
mod desk;
mod halves;
mod history;
mod matrix;
mod meanwhile;
mod playback;
mod prompts;
mod server;
mod slow;
mod stage;
mod stops;
mod transcript;
mod unreadable;
mod untimely;

/// A client of the Agent Client Protocol, and the protocol's schema as its judge, as the dialect's own
/// tests have them.
#[path = "../../../dialects/tests/it/client.rs"]
#[allow(dead_code, reason = "only what captures need is used here")]
mod client;
#[path = "../../../dialects/tests/it/judge.rs"]
#[allow(dead_code, reason = "only what captures need is used here")]
mod judge;
