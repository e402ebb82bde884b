//! Codex: one `codex app-server` per session, which speaks JSON-RPC over a WebSocket on this machine. Over
//! its standard input a turn would end with the gateway; over a WebSocket it goes on.
//!
//! | part | what it does |
//! |---|---|
//! | `agent` | the configured agent: makes links, starts servers one at a time, tries again |
//! | `adapter` | the task of one link: commands and messages go in, observations and messages come out |
//! | `conversation` | pure: what the messages of Codex mean, and the requests that commands become |
//! | `server`, `socket`, `files` | the process, the connection to it, and the files of a session |

mod adapter;
mod agent;
mod conversation;
mod files;
mod limits;
mod mcp;
mod mode;
mod outcome;
mod prompt_content;
mod recorded_usage;
mod server;
mod socket;
mod tools;
mod usage;
mod wire;

pub use agent::{Codex, CodexConfig};
pub use conversation::{Conversation, ConversationSettings};
