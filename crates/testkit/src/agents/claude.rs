//! Claude Code over stdio, with stream-json in both directions.

use super::home::Home;
use super::process::AgentProcess;
use super::{Agent, AgentError, Process};
use serde_json::{Value, json};
use std::path::PathBuf;

/// The requested model. It is a real name, because Claude Code's requests depend on it.
const MODEL: &str = "claude-sonnet-4-5-20250929";

/// A Claude Code process with one session.
#[derive(Debug)]
pub struct Claude {
    // The order matters: the process ends before its home is removed.
    process: AgentProcess,
    home: Home,
}

impl Claude {
    /// Starts Claude Code with the Messages API at this base URL (without `/v1`).
    pub async fn start(base_url: &str) -> Result<Self, AgentError> {
        let home = Home::new(Agent::Claude)?;
        let mut command = home.command()?;
        command.args(["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
        command.args(["--include-partial-messages", "--permission-mode", "bypassPermissions"]);
        command.env("ANTHROPIC_BASE_URL", base_url);
        command.env("ANTHROPIC_API_KEY", "scripted").env("ANTHROPIC_MODEL", MODEL);
        for quiet in [
            "DISABLE_TELEMETRY",
            "DISABLE_AUTOUPDATER",
            "DISABLE_ERROR_REPORTING",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
            // Outside of a sandbox root may not use this mode, and containers run tests as root.
            "IS_SANDBOX",
        ] {
            command.env(quiet, "1");
        }
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
