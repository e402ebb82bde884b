//! Claude Code over stdio, with stream-json in both directions.

use super::home::Home;
use super::process::AgentProcess;
use super::{Agent, AgentError, Process};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::PathBuf;

/// The requested model. It is a real name, because Claude Code's requests depend on it.
const MODEL: &str = "claude-sonnet-4-5-20250929";

/// Settings for Claude Code: no requests but those to the model.
const QUIET: [&str; 4] = [
    "DISABLE_TELEMETRY",
    "DISABLE_AUTOUPDATER",
    "DISABLE_ERROR_REPORTING",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
];

/// An installed version of Claude Code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaudeVersion {
    /// The version of the captures.
    V2_1_197,
    /// A later one.
    V2_1_325,
}

/// A Claude Code process with one session.
#[derive(Debug)]
pub struct Claude {
    // The order matters: the process ends before its home is removed.
    process: AgentProcess,
    home: Home,
}

/// Home and environment of Claude Code, for tests that let a gateway start it. Removed on drop.
#[derive(Debug)]
pub struct ClaudeHome {
    home: Home,
    version: ClaudeVersion,
    base_url: String,
}

impl Claude {
    /// Starts Claude Code with the Messages API at this base URL (without `/v1`).
    pub async fn start(base_url: &str) -> Result<Self, AgentError> {
        let home = Home::new(Agent::Claude)?;
        let mut command = home.command()?;
        command.args(["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
        command.args(["--include-partial-messages", "--permission-mode", "bypassPermissions"]);
        // Outside of a sandbox root may not use this mode, and containers run tests as root.
        command.envs(environment(base_url)).env("IS_SANDBOX", "1");
        let process = AgentProcess::spawn(Agent::Claude, command)?;
        Ok(Self { process, home })
    }

    /// Sends a prompt. Claude Code prints nothing before the first one.
    pub async fn prompt(&mut self, text: &str) -> Result<(), AgentError> {
        let content = json!([{"type": "text", "text": text}]);
        let message = json!({"role": "user", "content": content});
        let line = json!({"type": "user", "message": message, "parent_tool_use_id": null, "session_id": ""});
        self.process.say(&line).await
    }

    /// The lines up to and including the `result` of a turn.
    pub async fn until_result(&mut self) -> Result<Vec<Value>, AgentError> {
        self.process.json_until("result line", |line| line["type"] == "result").await
    }

    /// The working directory.
    pub fn work(&self) -> PathBuf {
        self.home.work()
    }

    /// Its running processes: the agent and everything it started.
    pub fn family(&self) -> Vec<Process> {
        self.process.family()
    }
}

// === impl ClaudeVersion ===

impl ClaudeVersion {
    /// The number that `claude --version` prints.
    pub fn number(self) -> &'static str {
        match self {
            Self::V2_1_197 => "2.1.197",
            Self::V2_1_325 => "2.1.325",
        }
    }

    /// Its folder below the folder of the agents. All versions have the same command.
    fn folder(self) -> &'static str {
        match self {
            Self::V2_1_197 => "",
            Self::V2_1_325 => "claude-2.1.325",
        }
    }
}

// === impl ClaudeHome ===

impl ClaudeHome {
    /// A home for this version, which asks the Messages API at this base URL (without `/v1`).
    pub fn new(version: ClaudeVersion, base_url: &str) -> Result<Self, AgentError> {
        Ok(Self { home: Home::new(Agent::Claude)?, version, base_url: base_url.to_owned() })
    }

    /// The installed program.
    pub fn command(&self) -> Result<PathBuf, AgentError> {
        Agent::Claude.find_in(self.version.folder())
    }

    /// The environment.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let general = self.home.environment().into_iter().chain(environment(&self.base_url));
        general.map(|(name, value)| (name.into(), value)).collect()
    }

    /// The home directory, with the transcripts below `.claude/projects`.
    pub fn home(&self) -> PathBuf {
        self.home.home()
    }
}

pub(super) fn environment(base_url: &str) -> Vec<(&'static str, OsString)> {
    let provider =
        [("ANTHROPIC_BASE_URL", base_url), ("ANTHROPIC_API_KEY", "scripted"), ("ANTHROPIC_MODEL", MODEL)];
    let quiet = QUIET.into_iter().map(|name| (name, "1"));
    provider.into_iter().chain(quiet).map(|(name, value)| (name, value.into())).collect()
}
