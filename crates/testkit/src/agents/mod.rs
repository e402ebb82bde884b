//! Real agents in a temporary HOME: started against a provider on loopback, and ended with all they started.
//!
//! One file per agent; what they share (finding them, a home, a process group) is here. They run every tool
//! without asking, in a directory of their own that goes away with them.

mod claude;
mod codex;
mod family;
mod home;
mod opencode;
mod process;

pub use claude::Claude;
pub use codex::Codex;
pub use family::{Process, living};
pub use opencode::{Events, Opencode, OpencodeHome};

use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// How long an agent may take for anything a test waits for. Starting one took up to 4 s on two busy cores.
pub const PATIENCE: Duration = Duration::from_secs(400);

/// The folder `cargo xtask agents` installs into, when the tests are not told another.
const INSTALLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/agents");

/// An agent these launchers know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    /// `claude`, stream-json over stdio.
    Claude,
    /// `codex app-server`, JSON-RPC over stdio.
    Codex,
    /// `opencode serve`, HTTP on loopback.
    Opencode,
}

/// What went wrong with an agent. `stderr` is the end of what it printed there.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The tests need it installed.
    #[error("{agent} is not installed: there is no {}; run `cargo xtask agents`", path.display())]
    NotInstalled {
        /// Which.
        agent: Agent,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The system did not let us.
    #[error("{agent}: cannot {what}: {error}")]
    Io {
        /// Which.
        agent: Agent,
        /// To do what.
        what: String,
        /// Why not.
        error: io::Error,
    },
    /// It ended while something was waited for.
    #[error("{agent} ended while the test waited for {wanted}; its stderr ends with:\n{stderr}")]
    Ended {
        /// Which.
        agent: Agent,
        /// What was waited for.
        wanted: String,
        /// Its last words.
        stderr: String,
    },
    /// It did not do in time what was waited for.
    #[error("{agent}: no {wanted} within {PATIENCE:?}; its stderr ends with:\n{stderr}")]
    Late {
        /// Which.
        agent: Agent,
        /// What was waited for.
        wanted: String,
        /// Its last words.
        stderr: String,
    },
    /// It said something else than its protocol does.
    #[error("{agent}: {wanted} expected, and it said: {said}")]
    Unexpected {
        /// Which.
        agent: Agent,
        /// What was expected.
        wanted: String,
        /// What came.
        said: String,
    },
}

// === impl Agent ===

impl Agent {
    /// Its command below `node_modules/.bin`.
    pub fn command(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
        }
    }

    /// Where it is installed: below `TURNSTREAM_AGENTS`, else below `target/agents`.
    fn find(self) -> Result<PathBuf, AgentError> {
        let folder = std::env::var_os("TURNSTREAM_AGENTS").unwrap_or_else(|| INSTALLED.into());
        let path = PathBuf::from(folder).join("node_modules/.bin").join(self.command());
        if path.exists() { Ok(path) } else { Err(AgentError::NotInstalled { agent: self, path }) }
    }

    /// The error of something the system refused.
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
