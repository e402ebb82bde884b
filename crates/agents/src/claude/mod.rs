//! Claude Code: one process per session, which speaks lines of JSON over its standard input and output.

mod agent;

pub use agent::{Claude, ClaudeConfig};
