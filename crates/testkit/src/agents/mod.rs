//! Launchers of real agents, each in a temporary home, with a provider on loopback.
//!
//! One file per agent. They run every tool without asking, in a temporary directory. Dropping a launcher
//! ends the agent and everything it started.

mod acp;
mod claude;
mod codex;
mod home;
mod opencode;
mod process;
mod process_tree;

pub use acp::{AcpAgent, AcpHome, AcpProcess};
pub use claude::{Claude, ClaudeHome, ClaudeVersion};
pub use codex::{Codex, CodexHome};
pub use opencode::{Events, Opencode, OpencodeHome};
pub use process_tree::{Process, living};

use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// The longest wait for an agent. Starting one took up to 4 s on two busy cores.
pub const PATIENCE: Duration = Duration::from_secs(400);

/// The default folder of `cargo xtask agents`.
const INSTALLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/agents");

/// A known agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    /// `claude`, stream-json over stdio.
    Claude,
    /// `claude-agent-acp`, ACP over stdio.
    ClaudeAcp,
    /// `codex app-server`, JSON-RPC over stdio or a WebSocket.
    Codex,
    /// `codex-acp`, ACP over stdio.
    CodexAcp,
    /// `opencode serve`, HTTP on loopback.
    Opencode,
}

/// An error of an agent. `stderr` is the end of its standard error.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The agent is not installed.
    #[error("{agent} is not installed: there is no {}; run `cargo xtask agents`", path.display())]
    NotInstalled {
        /// The agent.
        agent: Agent,
        /// The expected path.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("{agent}: cannot {what}: {error}")]
    Io {
        /// The agent.
        agent: Agent,
        /// The operation.
        what: String,
        /// The cause.
        error: io::Error,
    },
    /// The agent ended too early.
    #[error("{agent} ended while the test waited for {wanted}; its stderr ends with:\n{stderr}")]
    Ended {
        /// The agent.
        agent: Agent,
        /// The expectation.
        wanted: String,
        /// The end of its standard error.
        stderr: String,
    },
    /// The agent did not answer in time.
    #[error("{agent}: no {wanted} within {PATIENCE:?}; its stderr ends with:\n{stderr}")]
    Late {
        /// The agent.
        agent: Agent,
        /// The expectation.
        wanted: String,
        /// The end of its standard error.
        stderr: String,
    },
    /// The agent violated its protocol.
    #[error("{agent}: {wanted} expected, and it said: {said}")]
    Unexpected {
        /// The agent.
        agent: Agent,
        /// The expectation.
        wanted: String,
        /// What was received.
        said: String,
    },
}

// === impl Agent ===

impl Agent {
    /// Its command below `node_modules/.bin`.
    pub fn command(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::ClaudeAcp => "claude-agent-acp",
            Self::Codex => "codex",
            Self::CodexAcp => "codex-acp",
            Self::Opencode => "opencode",
        }
    }

    /// Its installed path, below `TURNSTREAM_AGENTS` or `target/agents`.
    fn find(self) -> Result<PathBuf, AgentError> {
        self.find_in("")
    }

    /// Its installed path in a folder of those.
    fn find_in(self, inner: &str) -> Result<PathBuf, AgentError> {
        let folder = std::env::var_os("TURNSTREAM_AGENTS").unwrap_or_else(|| INSTALLED.into());
        let path = PathBuf::from(folder).join(inner).join("node_modules/.bin").join(self.command());
        if path.exists() { Ok(path) } else { Err(AgentError::NotInstalled { agent: self, path }) }
    }

    /// The error of a failed system call.
    fn io(self, what: impl Into<String>) -> impl FnOnce(io::Error) -> AgentError {
        let what = what.into();
        move |error| AgentError::Io { agent: self, what, error }
    }
}

impl std::fmt::Display for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.command())
    }
}
