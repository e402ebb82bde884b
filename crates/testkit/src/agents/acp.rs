//! Agents that speak the Agent Client Protocol over stdio: their programs, homes and environments.

use super::claude;
use super::codex;
use super::home::{Home, LOOPBACK_ONLY};
use super::process::AgentProcess;
use super::{Agent, AgentError, OpencodeHome};
use serde_json::Value;
use std::ffi::OsString;
use std::path::PathBuf;

/// The folder of the adapters below the folder of the agents. Their own versions of Claude Code and Codex
/// must not replace the others.
const FOLDER: &str = "acp";

/// An installed ACP agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcpAgent {
    /// `claude-agent-acp`, with the Messages API.
    Claude,
    /// `codex-acp`, with the Responses API.
    Codex,
    /// `opencode acp`, with the chat completions API.
    Opencode,
}

/// Home and environment of an ACP agent. Removed on drop.
#[derive(Debug)]
pub struct AcpHome {
    agent: AcpAgent,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Adapter { home: Home, environment: Vec<(&'static str, OsString)> },
    Opencode(OpencodeHome),
}

/// A running ACP agent, for tests that are its client.
#[derive(Debug)]
pub struct AcpProcess(AgentProcess);

// === impl AcpAgent ===

impl AcpAgent {
    /// What the adapters write when they ask the model for the title of a session. A script can tell these
    /// requests by it. opencode asks [another model](super::Opencode::TITLE_MODEL).
    pub const TITLE_TEXTS: [&str; 2] = ["Write the title in the", "generate a very short title"];

    /// Its name and version, as docs show them.
    pub fn title(self) -> &'static str {
        match self {
            Self::Claude => "claude-agent-acp 0.99.1",
            Self::Codex => "codex-acp 2.6.0",
            Self::Opencode => "opencode acp 1.18.33",
        }
    }

    fn agent(self) -> Agent {
        match self {
            Self::Claude => Agent::ClaudeAcp,
            Self::Codex => Agent::CodexAcp,
            Self::Opencode => Agent::Opencode,
        }
    }
}

// === impl AcpHome ===

impl AcpHome {
    /// A home whose agent asks the provider at this base URL (without `/v1`).
    pub fn new(agent: AcpAgent, base_url: &str) -> Result<Self, AgentError> {
        let openai = format!("{base_url}/v1");
        let kind = match agent {
            AcpAgent::Claude => {
                let home = Home::new(Agent::ClaudeAcp)?;
                let mut environment = claude::environment(base_url);
                // After each turn it would ask the model what the user may want to say next.
                environment.push(("CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION", "false".into()));
                Kind::Adapter { home, environment }
            }
            AcpAgent::Codex => {
                let home = Home::new(Agent::CodexAcp)?;
                // A refused request is repeated like a broken stream, which is the only way that shows.
                home.write(".codex/config.toml", &codex::config(&openai, "", 0, &home))?;
                let mut environment = vec![
                    ("CODEX_HOME", home.home().join(".codex").into()),
                    ("SCRIPTED_KEY", "scripted".into()),
                    ("OPENAI_API_KEY", "scripted".into()),
                    // By default another model decides about what leaves the sandbox.
                    ("INITIAL_AGENT_MODE", "workspace-write".into()),
                ];
                environment.extend(LOOPBACK_ONLY.map(|(name, value)| (name, value.into())));
                Kind::Adapter { home, environment }
            }
            AcpAgent::Opencode => Kind::Opencode(OpencodeHome::new(&openai)?),
        };
        Ok(Self { agent, kind })
    }

    /// The installed program, and its arguments.
    pub fn command(&self) -> Result<(PathBuf, &'static [&'static str]), AgentError> {
        match self.agent {
            AcpAgent::Claude => Ok((Agent::ClaudeAcp.find_in(FOLDER)?, &[])),
            AcpAgent::Codex => Ok((Agent::CodexAcp.find_in(FOLDER)?, &[])),
            AcpAgent::Opencode => Ok((Agent::Opencode.find()?, &["acp"])),
        }
    }

    /// The environment.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        match &self.kind {
            Kind::Adapter { home, environment } => {
                let general = home.environment().into_iter().chain(environment.iter().cloned());
                general.map(|(name, value)| (name.into(), value)).collect()
            }
            Kind::Opencode(home) => home.environment(),
        }
    }

    /// The home directory.
    pub fn home(&self) -> PathBuf {
        match &self.kind {
            Kind::Adapter { home, .. } => home.home(),
            Kind::Opencode(home) => home.work().with_file_name("home"),
        }
    }

    /// A working directory.
    pub fn work(&self) -> PathBuf {
        match &self.kind {
            Kind::Adapter { home, .. } => home.work(),
            Kind::Opencode(home) => home.work(),
        }
    }

    /// Starts the agent, without a word to it.
    pub fn start(&self) -> Result<AcpProcess, AgentError> {
        let (program, arguments) = self.command()?;
        let mut command = tokio::process::Command::new(program);
        command.args(arguments).current_dir(self.work()).env_clear().envs(self.environment());
        AgentProcess::spawn(self.agent.agent(), command).map(AcpProcess)
    }
}

// === impl AcpProcess ===

impl AcpProcess {
    /// Writes one message.
    pub async fn say(&mut self, message: &Value) -> Result<(), AgentError> {
        self.0.say(message).await
    }

    /// The next message. `wanted` is the expectation, for errors.
    pub async fn next(&mut self, wanted: &str) -> Result<Value, AgentError> {
        self.0.json(wanted).await
    }
}
