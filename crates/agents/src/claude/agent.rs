//! Claude Code as a configured agent: one process per session.

use std::ffi::OsString;
use std::path::PathBuf;
use turnstream_adapter::{Agent, ConnectError, Connecting, Description, Start};
use turnstream_redact::Rules;

/// The configuration of Claude Code.
#[derive(Clone, Debug)]
pub struct ClaudeConfig {
    /// The program; a bare name is searched on `PATH`.
    pub command: PathBuf,
    /// Its environment, besides PATH, HOME, LANG and TMPDIR of this process.
    pub env: Vec<(OsString, OsString)>,
    /// A directory for the records of its processes and for what they print.
    pub state: PathBuf,
    /// The redaction rules for what its processes print to standard error.
    pub secrets: Rules,
}

/// The agent.
pub struct Claude {
    name: String,
    config: ClaudeConfig,
}

impl Claude {
    /// The agent of that name. Nothing is started yet.
    pub fn new(name: impl Into<String>, config: ClaudeConfig) -> Self {
        Self { name: name.into(), config }
    }
}

impl Agent for Claude {
    fn describe(&self) -> Description {
        Description {
            kind: "claude",
            about: "Claude Code, one process per session".to_owned(),
            version: None,
            problem: None,
            scripted: false,
        }
    }

    fn connect(&self, start: Start) -> Connecting<'_> {
        let (_start, _config) = (start, &self.config);
        let (agent, native_id) = (self.name.clone(), String::new());
        Box::pin(std::future::ready(Err(ConnectError::Forgotten { agent, native_id })))
    }
}
