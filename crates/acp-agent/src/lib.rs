//! An Agent Client Protocol (version 1) agent for editors, whose sessions are those of a Turnstream gateway.
//!
//! [`serve`] speaks JSON-RPC over a pair of pipes. One task reads the messages of the editor. Each open
//! session has a task of its own, which follows the gateway's log, encodes it with the dialect `acp`, and
//! answers the prompts that the editor sent. `docs/acp.md` describes the protocol as editors see it.

mod capabilities;
mod connection;
mod listing;
mod output;
mod problem;
mod rpc;
mod session;

pub use connection::serve;

use std::time::Duration;

/// What the person who starts the agent decides.
#[derive(Clone, Debug)]
pub struct Options {
    /// The agent of new sessions.
    pub agent: DefaultAgent,
    /// What happens to requests for permission in new sessions: `ask`, `allow` or `deny`.
    pub permissions: &'static str,
    /// What happens to the MCP servers that the editor names.
    pub mcp: McpServers,
    /// How long the answer to a prompt waits for a gateway that is away. Then the prompt is given up.
    pub patience: Duration,
    /// The version of this program.
    pub version: &'static str,
}

/// The agent of new sessions.
#[derive(Clone)]
pub enum DefaultAgent {
    /// This one.
    Named(String),
    /// Chosen for each session from the answer of `GET /v1/agents`. An error says in words why none can be
    /// chosen.
    Chosen(fn(&serde_json::Value) -> Result<String, String>),
}

impl std::fmt::Debug for DefaultAgent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Named(name) => f.debug_tuple("Named").field(name).finish(),
            Self::Chosen(_) => f.write_str("Chosen(…)"),
        }
    }
}

/// What happens to the MCP servers that an editor names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum McpServers {
    /// The agent gets them, or the session is refused in words.
    PassOn,
    /// They are left out.
    LeaveOut,
}
