//! Any agent that speaks the Agent Client Protocol (version 1) over its standard input and output: one
//! process per session.
//!
//! | part | what it does |
//! |---|---|
//! | `agent` | the configured agent: makes links, starts processes, tries again |
//! | `adapter` | the task of one link: commands and lines go in, observations and lines come out |
//! | `conversation` | pure: what the lines of the agent mean, and the lines that commands become |
//! | `calls` | serves the agent's requests for files and terminals |
//! | `process`, `files` | the process with its session, and what is noted of it |

mod adapter;
mod agent;
mod calls;
mod conversation;
mod files;
mod outcome;
mod process;
mod prompt_content;
mod tools;
mod wire;

pub use agent::{Acp, AcpConfig};
pub use conversation::{Conversation, ConversationSettings};
