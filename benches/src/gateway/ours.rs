//! `turnstream serve` with its durable log and the scripted agent.

use super::process::{self, Server};
use super::side::{Session, Side};
use super::{Load, http};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// The release binary.
#[derive(Debug)]
pub(crate) struct Ours {
    pub(crate) program: PathBuf,
    pub(crate) pieces: Pieces,
}

/// Whether the log may merge deltas that wait for the same commit, which it does by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pieces {
    /// Two messages alternate. Only neighbours of one message are merged, so each delta stays an event, as
    /// for the peer.
    Apart,
    Merged,
}

impl Side for Ours {
    const NAME: &'static str = "turnstream";
    /// It loses nothing, so this only limits a stall.
    const QUIET: Duration = Duration::from_secs(30);

    fn start(&self, home: &Path) -> Result<Server, String> {
        let mut command = process::command(&self.program, home)?;
        let address = process::free_address()?;
        let config = json!({ "listen": address.to_string(), "data": home.join("log"), "roots": [home.join("home")], "auth": "none" });
        let file = home.join("turnstream.toml");
        std::fs::write(&file, toml(&config))
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        // More sessions work at the same time, and more are created in a second, than are allowed by default.
        command.env("TURNSTREAM_LIMITS_LIVE_AGENTS", "10000").env("TURNSTREAM_DISCOVER", "false");
        command.env("TURNSTREAM_LIMITS_REQUESTS_PER_SECOND", "100000");
        command.args(["serve", "--config"]).arg(file);
        Server::start(command, address, &home.join("said.txt"))
    }

    fn session(&self, server: &Server, _number: usize) -> Result<Session, String> {
        let made = post(server, "/v1/sessions", &json!({ "agent": "scripted", "cwd": server.work }), 201)?;
        let id = made["id"].as_str().ok_or_else(|| format!("POST /v1/sessions: {made}"))?;
        Ok(Session {
            prompts: format!("/v1/sessions/{id}/prompts"),
            events: format!("/v1/sessions/{id}/events"),
            native: String::new(),
        })
    }

    fn prompt(&self, server: &Server, session: &Session, load: &Load) -> Result<(), String> {
        let mut burst = json!({ "do": "burst", "count": load.events, "bytes": load.bytes, "stamp": true });
        if self.pieces == Pieces::Apart {
            burst["messages"] = 2.into();
        }
        if let Some(rate) = load.rate {
            burst["per_second"] = rate.into();
        }
        let text = json!({ "script": [burst] }).to_string();
        post(server, &session.prompts, &json!({ "content": [{ "type": "text", "text": text }] }), 202)
            .map(|_| ())
    }
}

pub(crate) fn post(server: &Server, path: &str, body: &Value, wanted: u16) -> Result<Value, String> {
    let (status, answer) = http::request(server.address, "POST", path, &body.to_string(), PATIENCE)?;
    let said = || format!("POST {path}: status {status}: {}", String::from_utf8_lossy(&answer));
    if status != wanted {
        return Err(said());
    }
    serde_json::from_slice(&answer).map_err(|_| said())
}

/// Strings and arrays of strings have the same syntax in JSON and TOML.
fn toml(config: &Value) -> String {
    let members = config.as_object().into_iter().flatten();
    members.map(|(name, value)| format!("{name} = {value}\n")).collect()
}
