//! Claude Code: one process per session, which speaks lines of JSON over its standard input and output.
//!
//! | part | what it does |
//! |---|---|
//! | `agent` | the configured agent: makes links, starts processes, tries again |
//! | `adapter` | the task of one link: commands and lines go in, observations and lines come out |
//! | `conversation` | pure: what the lines of Claude Code mean, and the lines that commands become |
//! | `transcript`, `stored_line` | pure: what Claude Code has stored of a session, for a recovery |
//! | `process`, `leftover`, `files` | the process, one that an earlier gateway left, and the files of a session |

mod adapter;
mod agent;
mod conversation;
mod files;
mod ids;
mod leftover;
mod mcp;
mod outcome;
mod plan;
mod process;
mod prompt_content;
mod stored_line;
mod tools;
mod transcript;
mod usage;
mod wire;

pub use agent::{Claude, ClaudeConfig};
pub use conversation::{Conversation, ConversationSettings};
