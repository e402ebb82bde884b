//! opencode over HTTP on loopback.

use super::home::{Home, LOOPBACK_ONLY};
use super::process::AgentProcess;
use super::{Agent, AgentError, PATIENCE, Process};
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::PathBuf;

/// The user name for the password. Any other gets a 401 without a body (capture `p-errors`).
const USER: &str = "opencode";
/// The line that says that the server is ready. Before it, requests are accepted and never answered.
const READY: &str = "listening on ";

/// An opencode server in one directory.
#[derive(Debug)]
pub struct Opencode {
    // The order matters: the process ends before its home is removed.
    process: AgentProcess,
    home: Home,
    base_url: String,
    client: Client,
}

/// Home, configuration and environment of an opencode server, for tests that start one themselves. Removed
/// on drop.
#[derive(Debug)]
pub struct OpencodeHome {
    home: Home,
}

/// The events of the server's directory since the subscription.
#[derive(Debug)]
pub struct Events {
    response: Response,
    received: Vec<u8>,
}

impl Opencode {
    /// The model of turns.
    pub const MODEL: &str = "scripted-1";
    /// The model of title requests, so that a script can tell them apart.
    pub const TITLE_MODEL: &str = "scripted-title";
    /// A time of answers without the digits of a status. opencode 1.18.33 repeats a request if the text of a
    /// damaged chunk has 429, 500, 502, 503, 504 or 524 in it, so what it does depends on the hour.
    pub const QUIET_TIME: u64 = 1_700_000_000;

    /// The server's password; the user is `opencode`.
    pub const PASSWORD: &str = "scripted";

    /// Starts opencode with the chat completions API at this base URL (with `/v1`).
    pub async fn start(base_url: &str) -> Result<Self, AgentError> {
        let OpencodeHome { home } = OpencodeHome::new(base_url)?;
        let mut command = home.command()?;
        command.args(["serve", "--hostname", "127.0.0.1", "--port", "0"]);
        command.envs(environment(&home)).env("OPENCODE_SERVER_PASSWORD", Self::PASSWORD);
        let mut process = AgentProcess::spawn(Agent::Opencode, command)?;
        let base_url = loop {
            let line = process.line("listening line").await?;
            if let Some((_, url)) = line.split_once(READY) {
                break url.trim().to_owned();
            }
        };
        let client =
            Client::builder().no_proxy().build().map_err(|error| failed("an HTTP client", &error))?;
        Ok(Self { process, home, base_url, client })
    }

    /// The server's base URL, without a slash at the end.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Creates a session and returns its id.
    pub async fn session(&self) -> Result<String, AgentError> {
        let session = self.json(self.post("/session", &json!({}))).await?;
        let id = session["id"].as_str();
        id.map(str::to_owned).ok_or_else(|| unexpected("a session id", &session.to_string()))
    }

    /// Sends a prompt. The events report its progress.
    pub async fn prompt(&self, session: &str, text: &str) -> Result<(), AgentError> {
        let body = json!({"parts": [{"type": "text", "text": text}]});
        self.answer(self.post(&format!("/session/{session}/prompt_async"), &body)).await?;
        Ok(())
    }

    /// The messages of a session, from the API.
    pub async fn messages(&self, session: &str) -> Result<Value, AgentError> {
        let url = format!("{}/session/{session}/message", self.base_url);
        self.json(self.client.get(url)).await
    }

    /// Subscribes to the events of the directory.
    pub async fn events(&self) -> Result<Events, AgentError> {
        let url = format!("{}/event", self.base_url);
        let request = self.client.get(url).basic_auth(USER, Some(Opencode::PASSWORD));
        // For the response head only. Each event of the stream has its own deadline.
        let response = tokio::time::timeout(PATIENCE, request.send()).await;
        let response = response.map_err(|_| unexpected("an answer to GET /event", "nothing"))?;
        let response = response.map_err(|error| failed("GET /event", &error))?;
        Ok(Events { response, received: Vec::new() })
    }

    /// The working directory.
    pub fn work(&self) -> PathBuf {
        self.home.work()
    }

    /// Its running processes: the agent and everything it started.
    pub fn family(&self) -> Vec<Process> {
        self.process.family()
    }

    fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        self.client.post(format!("{}{path}", self.base_url)).json(body)
    }

    async fn json(&self, request: RequestBuilder) -> Result<Value, AgentError> {
        let text = self.answer(request).await?;
        turnstream_json::from_str(&text).map_err(|_| unexpected("JSON", &text))
    }

    async fn answer(&self, request: RequestBuilder) -> Result<String, AgentError> {
        let request = request.basic_auth(USER, Some(Opencode::PASSWORD)).timeout(PATIENCE);
        let response = request.send().await.map_err(|error| failed("an answer", &error))?;
        let (status, path) = (response.status(), response.url().path().to_owned());
        let text = response.text().await.map_err(|error| failed("the body of an answer", &error))?;
        if status.is_success() {
            return Ok(text);
        }
        Err(unexpected(&format!("success from {path}"), &format!("{status} {text}")))
    }
}

// === impl OpencodeHome ===

impl OpencodeHome {
    /// A home with a configuration for the chat completions API at this base URL (with `/v1`).
    pub fn new(base_url: &str) -> Result<Self, AgentError> {
        let home = Home::new(Agent::Opencode)?;
        home.write(".config/opencode/opencode.json", &config(base_url).to_string())?;
        Ok(Self { home })
    }

    /// The installed program.
    pub fn command(&self) -> Result<PathBuf, AgentError> {
        Agent::Opencode.find()
    }

    /// The environment, without the password.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let general = self.home.environment().into_iter().chain(environment(&self.home));
        general.map(|(name, value)| (name.into(), value)).collect()
    }

    /// The working directory.
    pub fn work(&self) -> PathBuf {
        self.home.work()
    }
}

/// Settings for opencode: its own directories, and no requests to its vendor.
fn environment(home: &Home) -> Vec<(&'static str, OsString)> {
    let places = [
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_DATA_HOME", ".local/share"),
        ("XDG_STATE_HOME", ".local/state"),
        ("XDG_CACHE_HOME", ".cache"),
    ];
    let quiet = [
        "OPENCODE_DISABLE_AUTOUPDATE",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS",
        "OPENCODE_DISABLE_EXTERNAL_SKILLS",
        "OPENCODE_DISABLE_LSP_DOWNLOAD",
        "OPENCODE_DISABLE_MODELS_FETCH",
        "OPENCODE_DISABLE_SHARE",
    ];
    let places = places.into_iter().map(|(name, folder)| (name, home.home().join(folder).into()));
    let quiet = quiet.into_iter().map(|name| (name, "1".into()));
    let loopback = LOOPBACK_ONLY.into_iter().map(|(name, value)| (name, value.into()));
    places.chain(quiet).chain(loopback).collect()
}

// === impl Events ===

impl Events {
    /// The events up to and including the `session.idle` of this session.
    ///
    /// A successful turn has one idle (captures `a-plain`, `b-reasoning`, `c-multistep`), and a retry has
    /// none (`j1-cut-midstream`).
    pub async fn until_idle(&mut self, session: &str) -> Result<Vec<Value>, AgentError> {
        let mut events = Vec::new();
        loop {
            let event = self.next().await?;
            let idle = event["type"] == "session.idle" && event["properties"]["sessionID"] == session;
            events.push(event);
            if idle {
                return Ok(events);
            }
        }
    }

    /// The next event. opencode writes each event as one `data:` line.
    pub async fn next(&mut self) -> Result<Value, AgentError> {
        loop {
            while let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                if let Some(data) = line.strip_prefix(b"data: ") {
                    let event = turnstream_json::from_slice(data);
                    return event.map_err(|_| unexpected("an event", &String::from_utf8_lossy(data)));
                }
            }
            let chunk = tokio::time::timeout(PATIENCE, self.response.chunk()).await;
            let chunk = chunk.map_err(|_| unexpected("an event", "nothing"))?;
            match chunk.map_err(|error| failed("an event", &error))? {
                Some(chunk) => self.received.extend_from_slice(&chunk),
                None => return Err(unexpected("an event", "the end of the stream")),
            }
        }
    }
}

fn failed(wanted: &str, error: &reqwest::Error) -> AgentError {
    unexpected(wanted, &format!("{error:?}"))
}

fn unexpected(wanted: &str, said: &str) -> AgentError {
    AgentError::Unexpected { agent: Agent::Opencode, wanted: wanted.to_owned(), said: said.to_owned() }
}

fn config(base_url: &str) -> Value {
    let model =
        |name: &str| json!({"name": name, "tool_call": true, "limit": {"context": 200_000, "output": 8_000}});
    json!({
        "model": format!("scripted/{}", Opencode::MODEL),
        "small_model": format!("scripted/{}", Opencode::TITLE_MODEL),
        "enabled_providers": ["scripted"],
        "provider": {
            "scripted": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "Scripted",
                "options": {"baseURL": base_url, "apiKey": "scripted"},
                "models": {
                    Opencode::MODEL: model(Opencode::MODEL),
                    Opencode::TITLE_MODEL: model(Opencode::TITLE_MODEL),
                },
            },
        },
        "permission": {"edit": "allow", "bash": "allow", "webfetch": "deny"},
        "autoupdate": false,
        "share": "disabled",
        "lsp": false,
    })
}
