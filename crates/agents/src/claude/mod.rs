//! Claude Code: one process per session, which speaks lines of JSON over its standard input and output.

mod agent;
mod conversation;
mod outcome;
mod plan;
mod prompt_content;
mod tools;
mod usage;
mod wire;

pub use agent::{Claude, ClaudeConfig};
