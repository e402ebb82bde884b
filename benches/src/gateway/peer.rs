//! sandbox-agent, which proxies agents that speak ACP on stdio to HTTP and SSE.
//!
//! It starts only known agents. Its mock agent is started by a launcher file in its data folder, which is
//! replaced by one that starts the benchmark's agent.

use super::process::{self, Server};
use super::side::{Session, Side};
use super::{Load, http};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The launcher file below XDG_DATA_HOME, which `sandbox-agent install-agent mock` writes too.
const LAUNCHER: &str = "data/sandbox-agent/bin/agent_processes/mock-acp";
/// A prompt is answered at the end of the turn, if that takes at most 120 s.
const PATIENCE: Duration = Duration::from_secs(150);

/// The installed binary and the benchmark's agent.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) program: PathBuf,
    pub(crate) agent: PathBuf,
}

impl Side for Peer {
    const NAME: &'static str = "sandbox-agent";
    const QUIET: Duration = Duration::from_secs(3);

    fn start(&self, home: &Path) -> Result<Server, String> {
        let mut command = process::command(&self.program, home)?;
        write_launcher(&home.join(LAUNCHER), &self.agent)
            .map_err(|error| format!("cannot write the launcher {LAUNCHER}: {error}"))?;
        let address = process::free_address()?;
        command.args(["server", "--no-token", "--no-telemetry", "--host"]);
        command.arg(address.ip().to_string()).arg("--port").arg(address.port().to_string());
        Server::start(command, address, &home.join("said.txt"))
    }

    fn session(&self, server: &Server, number: usize) -> Result<Session, String> {
        let path = format!("/v1/acp/bench-{number}");
        let first = format!("{path}?agent=mock");
        call(server, &first, 1, "initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }))?;
        let new = call(server, &path, 2, "session/new", json!({ "cwd": server.work, "mcpServers": [] }))?;
        let native = new["sessionId"].as_str().ok_or_else(|| format!("session/new: {new}"))?.to_owned();
        Ok(Session { prompts: path.clone(), events: path, native })
    }

    fn prompt(&self, server: &Server, session: &Session, load: &Load) -> Result<(), String> {
        let text = serde_json::to_string(load).map_err(|error| error.to_string())?;
        let params = json!({ "sessionId": session.native, "prompt": [{ "type": "text", "text": text }] });
        call(server, &session.prompts, 3, "session/prompt", params).map(|_| ())
    }
}

fn call(server: &Server, path: &str, id: u32, method: &str, params: Value) -> Result<Value, String> {
    let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string();
    let (status, answer) = http::request(server.address, "POST", path, &body, PATIENCE)?;
    let said = || format!("{method}: status {status}: {}", String::from_utf8_lossy(&answer));
    if status != 200 {
        return Err(said());
    }
    let mut answer: Value = serde_json::from_slice(&answer).map_err(|_| said())?;
    if answer["result"].is_null() { Err(said()) } else { Ok(answer["result"].take()) }
}

fn write_launcher(path: &Path, agent: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(path.parent().unwrap_or(path))?;
    let agent = agent.display().to_string().replace('\'', r"'\''");
    std::fs::write(path, format!("#!/bin/sh\nexec '{agent}'\n"))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}
