//! Claude Code: one process per session, which speaks lines of JSON over its standard input and output.

mod agent;
#[cfg_attr(not(test), expect(dead_code, reason = "the transport of the adapter is the first to use it"))]
mod conversation;
mod outcome;
mod plan;
#[cfg_attr(not(test), expect(dead_code, reason = "the adapter is the first to use the check"))]
mod prompt_content;
mod tools;
#[cfg_attr(not(test), expect(dead_code, reason = "the recovery of the adapter is the first to use it"))]
mod transcript;
mod usage;
mod wire;

pub use agent::{Claude, ClaudeConfig};
