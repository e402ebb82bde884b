//! Claude Code as a configured agent: one process per session.

use crate::program::{CLAUDE, Origin, Program};
use std::ffi::OsString;
use std::path::PathBuf;
use turnstream_adapter::{Agent, ConnectError, Connecting, Description, Probing, Start, Stopping};
use turnstream_redact::Rules;

/// What the list of agents says about it.
const ABOUT: &str = "Claude Code, one process per session";

/// The configuration of Claude Code.
#[derive(Clone, Debug)]
pub struct ClaudeConfig {
    /// The program; a bare name is searched on `PATH`.
    pub command: PathBuf,
    /// Whether the configuration names it.
    pub origin: Origin,
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
    program: Program,
}

impl Claude {
    /// The agent of that name. Nothing is started yet.
    pub fn new(name: impl Into<String>, config: ClaudeConfig) -> Self {
        let program = Program::new(&CLAUDE, &config.command, config.origin, &config.env);
        Self { name: name.into(), config, program }
    }
}

impl Agent for Claude {
    fn describe(&self) -> Description {
        self.program.describe(Description::new(CLAUDE.kind, ABOUT))
    }

    fn probe(&self) -> Probing<'_> {
        Box::pin(self.program.probe(Description::new(CLAUDE.kind, ABOUT)))
    }

    fn connect(&self, start: Start) -> Connecting<'_> {
        let (_start, _config) = (start, &self.config);
        let (agent, native_id) = (self.name.clone(), String::new());
        Box::pin(std::future::ready(Err(ConnectError::Forgotten { agent, native_id })))
    }
    fn stop(&self) -> Stopping<'_> {
        self.program.stop();
        Box::pin(std::future::ready(Ok(())))
    }
}
