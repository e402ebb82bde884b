//! Codex app-server over stdio: JSON-RPC without the `jsonrpc` member, one message per line.

use super::home::Home;
use super::process::AgentProcess;
use super::{Agent, AgentError, Process};
use serde_json::{Value, json};
use std::path::PathBuf;

/// The requested model. Codex chooses its tools by the name. The captures used this one.
const MODEL: &str = "gpt-5.5";

/// A Codex process with one thread.
#[derive(Debug)]
pub struct Codex {
    // The order matters: the process ends before its home is removed.
    process: AgentProcess,
    home: Home,
    thread: String,
    last_id: u64,
}

impl Codex {
    /// Starts Codex with the Responses API at this base URL (with `/v1`), and starts a thread.
    pub async fn start(base_url: &str) -> Result<Self, AgentError> {
        let home = Home::new(Agent::Codex)?;
        home.write(".codex/config.toml", &config(base_url, &home))?;
        let mut command = home.command()?;
        command.arg("app-server").env("CODEX_HOME", home.home().join(".codex"));
        command.env("SCRIPTED_KEY", "scripted");
        Home::keep_on_loopback(&mut command);
        let process = AgentProcess::spawn(Agent::Codex, command)?;
        let mut codex = Self { process, home, thread: String::new(), last_id: 0 };
        codex.open_thread().await?;
        Ok(codex)
    }

    /// Starts a turn. Its notifications follow.
    pub async fn start_turn(&mut self, text: &str) -> Result<(), AgentError> {
        let input = json!([{"type": "text", "text": text, "text_elements": []}]);
        self.call("turn/start", json!({"threadId": self.thread, "input": input})).await?;
        Ok(())
    }

    /// The messages up to and including `turn/completed`.
    pub async fn until_completed(&mut self) -> Result<Vec<Value>, AgentError> {
        self.process.json_until("turn/completed", |line| line["method"] == "turn/completed").await
    }

    /// The working directory.
    pub fn work(&self) -> PathBuf {
        self.home.work()
    }

    /// Its running processes: the agent and everything it started.
    pub fn family(&self) -> Vec<Process> {
        self.process.family()
    }

    async fn open_thread(&mut self) -> Result<(), AgentError> {
        let client =
            json!({"name": "turnstream", "title": "Turnstream", "version": env!("CARGO_PKG_VERSION")});
        let capabilities = json!({"experimentalApi": false, "requestAttestation": false});
        self.call("initialize", json!({"clientInfo": client, "capabilities": capabilities})).await?;
        self.process.say(&json!({"method": "initialized"})).await?;
        let started = self
            .call(
                "thread/start",
                json!({"cwd": self.home.work(), "approvalPolicy": "never", "sandbox": "danger-full-access"}),
            )
            .await?;
        let thread = started["thread"]["id"].as_str();
        self.thread = thread.ok_or_else(|| unexpected("a thread id", &started))?.to_owned();
        Ok(())
    }

    /// Sends a request and waits for its response. Notifications in between do not belong to the new turn:
    /// in all 74 starts of the captures those follow the response.
    async fn call(&mut self, method: &str, params: Value) -> Result<Value, AgentError> {
        self.last_id += 1;
        let id = self.last_id;
        self.process.say(&json!({"id": id, "method": method, "params": params})).await?;
        let wanted = format!("response to {method}");
        let mut messages = self.process.json_until(&wanted, |line| line["id"] == id).await?;
        let mut response = messages.pop().unwrap_or_default();
        match response["result"].take() {
            Value::Null => Err(unexpected(&wanted, &response)),
            result => Ok(result),
        }
    }
}

fn unexpected(wanted: &str, said: &Value) -> AgentError {
    AgentError::Unexpected { agent: Agent::Codex, wanted: wanted.to_owned(), said: said.to_string() }
}

pub(super) fn config(base_url: &str, home: &Home) -> String {
    format!(
        r#"model = "{MODEL}"
model_provider = "scripted"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "Scripted"
base_url = "{base_url}"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 2
stream_max_retries = 2

[projects."{}"]
trust_level = "trusted"
"#,
        home.work().display()
    )
}
