//! Codex app-server over stdio: JSON-RPC without the `jsonrpc` member, one message per line.

use super::home::{Home, LOOPBACK_ONLY};
use super::process::AgentProcess;
use super::{Agent, AgentError, Process};
use serde_json::{Value, json};
use std::ffi::OsString;
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

/// Home and environment of Codex, for tests that let a gateway start it. Removed on drop.
#[derive(Debug)]
pub struct CodexHome {
    home: Home,
}

impl Codex {
    /// Starts Codex with the Responses API at this base URL (with `/v1`), and starts a thread.
    pub async fn start(base_url: &str) -> Result<Self, AgentError> {
        let home = Home::new(Agent::Codex)?;
        home.write(".codex/config.toml", &config(base_url, "", 2, &home))?;
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

// === impl CodexHome ===

impl CodexHome {
    /// A home whose Codex asks the Responses API at this base URL (with `/v1`). A command that leaves the
    /// sandbox needs a permission. Others do not, and can only read.
    pub fn new(base_url: &str) -> Result<Self, AgentError> {
        let home = Home::new(Agent::Codex)?;
        let asks = "approval_policy = \"on-request\"\nsandbox_mode = \"read-only\"\n";
        // Retries of a request are not shown, those of a stream are.
        home.write(".codex/config.toml", &config(base_url, asks, 0, &home))?;
        Ok(Self { home })
    }

    /// The installed command: a script of Node.js, which starts the program.
    pub fn command(&self) -> Result<PathBuf, AgentError> {
        Agent::Codex.find()
    }

    /// The program itself, in a package for this machine.
    pub fn program(&self) -> Result<PathBuf, AgentError> {
        let script = self.command()?;
        let script = script.canonicalize().map_err(Agent::Codex.io(format!("find {}", script.display())))?;
        // Beside the package of the script, which is in `codex/bin`.
        let packages = script.ancestors().nth(3).unwrap_or(&script).to_owned();
        let mut folders = vec![packages];
        while let Some(folder) = folders.pop() {
            let entries = std::fs::read_dir(&folder);
            let entries = entries.map_err(Agent::Codex.io(format!("read {}", folder.display())))?;
            for path in entries.flatten().map(|entry| entry.path()) {
                if path.is_dir() {
                    folders.push(path);
                } else if path.ends_with("bin/codex") {
                    return Ok(path);
                }
            }
        }
        Err(AgentError::NotInstalled { agent: Agent::Codex, path: script })
    }

    /// The environment.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let codex =
            [("CODEX_HOME", self.codex_home().into()), ("SCRIPTED_KEY", "key-of-the-fake-provider".into())];
        let proxies = LOOPBACK_ONLY.map(|(name, value)| (name, value.into()));
        let general = self.home.environment().into_iter().chain(codex).chain(proxies);
        general.map(|(name, value)| (name.into(), value)).collect()
    }

    /// The home directory.
    pub fn home(&self) -> PathBuf {
        self.home.home()
    }

    /// The directory of Codex, with the threads below `sessions`.
    pub fn codex_home(&self) -> PathBuf {
        self.home().join(".codex")
    }
}

pub(super) fn config(base_url: &str, more: &str, request_retries: u32, home: &Home) -> String {
    format!(
        r#"model = "{MODEL}"
{more}model_provider = "scripted"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "Scripted"
base_url = "{base_url}"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = {request_retries}
stream_max_retries = 2

[projects."{}"]
trust_level = "trusted"
"#,
        home.work().display()
    )
}
