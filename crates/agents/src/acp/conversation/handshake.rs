//! The beginning of a conversation: `initialize`, and then the session, which is new, resumed or loaded.

use super::Conversation;
use super::commands::Request;
use crate::acp::outcome::shorten;
use crate::acp::wire::RpcError;
use serde_json::{Value, json};
use turnstream_model::event::SessionPatch;
use turnstream_model::signal::Signal;

/// The version of the protocol that the gateway speaks.
const PROTOCOL: u64 = 1;
/// ACP: the agent needs a login.
const AUTH_REQUIRED: i64 = -32000;
/// ACP: there is no such session.
const NOT_FOUND: i64 = -32002;

/// Whether there is a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::acp) enum SessionState {
    /// The agent was asked for it.
    Opening,
    /// It can be prompted.
    Open,
    /// The agent has refused.
    Refused(Refusal),
}

/// Why there is no session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::acp) enum Refusal {
    #[error("it speaks version {0} of the Agent Client Protocol, and the gateway speaks version {PROTOCOL}")]
    Protocol(String),
    #[error("it needs a login: {0}")]
    Auth(String),
    /// It does not go on with the session. Agents have no common code for that, so another try may succeed.
    #[error("it no longer has the session: {reason}")]
    Forgotten { reason: String, may_pass: bool },
    #[error("it refuses {method}: {message}")]
    Error { method: &'static str, message: String },
}

/// What the agent says it can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::acp) struct Capabilities {
    pub(in crate::acp) version: Option<String>,
    pub(in crate::acp) image: bool,
    pub(in crate::acp) audio: bool,
    pub(in crate::acp) embedded: bool,
    pub(in crate::acp) mcp_http: bool,
    pub(in crate::acp) mcp_sse: bool,
    pub(in crate::acp) load: bool,
    pub(in crate::acp) resume: bool,
}

impl Capabilities {
    fn of(initialized: &Value) -> Self {
        let agent = &initialized["agentCapabilities"];
        let is = |value: &Value| value.as_bool() == Some(true);
        let has = |value: &Value| !value.is_null() && *value != json!(false);
        let (prompt, mcp) = (&agent["promptCapabilities"], &agent["mcpCapabilities"]);
        Self {
            version: initialized["agentInfo"]["version"].as_str().map(str::to_owned),
            image: is(&prompt["image"]),
            audio: is(&prompt["audio"]),
            embedded: is(&prompt["embeddedContext"]),
            mcp_http: is(&mcp["http"]),
            mcp_sse: is(&mcp["sse"]),
            load: is(&agent["loadSession"]),
            resume: has(&agent["sessionCapabilities"]["resume"]),
        }
    }
}

impl Conversation {
    /// The first request. Files and terminals are served by the gateway, questions are asked by forms.
    pub(super) fn initialize(&mut self) {
        let client =
            json!({"name": "turnstream", "title": "Turnstream", "version": env!("CARGO_PKG_VERSION")});
        let capabilities = json!({
            "fs": {"readTextFile": true, "writeTextFile": true},
            "terminal": true,
            "elicitation": {"form": {}},
        });
        let params =
            json!({"protocolVersion": PROTOCOL, "clientInfo": client, "clientCapabilities": capabilities});
        self.request("initialize", params, Request::Initialize);
    }

    pub(super) fn initialized(&mut self, result: Result<Value, RpcError>) {
        let initialized = match result {
            Ok(initialized) => initialized,
            Err(error) => return self.refused("initialize", &error),
        };
        let version = &initialized["protocolVersion"];
        if version.as_u64() != Some(PROTOCOL) {
            return self.refuse_session(Refusal::Protocol(version.to_string()));
        }
        self.capabilities = Capabilities::of(&initialized);
        let (cwd, mcp) = (&self.settings.cwd, self.mcp());
        match self.settings.native_id.clone() {
            None => {
                let params = json!({"cwd": cwd, "mcpServers": mcp});
                self.request("session/new", params, Request::NewSession);
            }
            Some(session) => {
                let params = json!({"sessionId": session, "cwd": cwd, "mcpServers": mcp});
                if self.capabilities.resume {
                    self.request("session/resume", params, Request::OldSession("session/resume"));
                } else if self.capabilities.load {
                    self.history.loads();
                    self.request("session/load", params, Request::OldSession("session/load"));
                } else {
                    let reason = "it can neither resume nor load sessions".to_owned();
                    self.refuse_session(Refusal::Forgotten { reason, may_pass: false });
                }
            }
        }
    }

    /// The servers in the form of ACP, which leaves out the type of a command.
    fn mcp(&self) -> Vec<Value> {
        let mut servers = self.settings.mcp.clone();
        for server in servers.iter_mut().filter_map(Value::as_object_mut) {
            if server.get("type").is_some_and(|kind| kind == "stdio") {
                server.remove("type");
            }
        }
        servers
    }

    /// The agent has answered to `session/new`.
    pub(super) fn new_session(&mut self, result: Result<Value, RpcError>) {
        match result {
            Ok(session) => match session["sessionId"].as_str() {
                Some(id) => {
                    self.settings.native_id = Some(id.to_owned());
                    self.opened(&session);
                }
                None => {
                    let message = "its answer has no sessionId".to_owned();
                    self.refuse_session(Refusal::Error { method: "session/new", message });
                }
            },
            Err(error) => self.refused("session/new", &error),
        }
    }

    /// The agent has answered to `session/resume` or `session/load`. What it says of the conversation until
    /// the next prompt is known already.
    pub(super) fn old_session(&mut self, method: &'static str, result: Result<Value, RpcError>) {
        match result {
            Ok(session) => self.opened(&session),
            Err(error) if error.code == AUTH_REQUIRED => self.refused(method, &error),
            Err(error) => {
                let (reason, may_pass) = (describe(&error), error.code != NOT_FOUND);
                self.refuse_session(Refusal::Forgotten { reason, may_pass });
            }
        }
    }

    fn opened(&mut self, session: &Value) {
        self.session = SessionState::Open;
        self.options.read(session);
        let native_id = self.settings.native_id.clone();
        let patch = SessionPatch { native_id, ..self.options.patch() };
        self.signal(Signal::Session(patch));
        let (model, mode) = (self.settings.model.take(), self.settings.mode.take());
        let model = model.filter(|model| self.options.model() != Some(model));
        let mode = mode.filter(|mode| self.options.mode() != Some(mode));
        self.change(model, mode);
    }

    fn refused(&mut self, method: &'static str, error: &RpcError) {
        let message = describe(error);
        self.refuse_session(if error.code == AUTH_REQUIRED {
            Refusal::Auth(message)
        } else {
            Refusal::Error { method, message }
        });
    }

    fn refuse_session(&mut self, refusal: Refusal) {
        self.session = SessionState::Refused(refusal);
    }

    /// Whether there is a session.
    pub(in crate::acp) fn session(&self) -> &SessionState {
        &self.session
    }

    /// What the agent can do.
    pub(in crate::acp) fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// The agent's id of the session, once it is known.
    pub(in crate::acp) fn native_id(&self) -> Option<&str> {
        self.settings.native_id.as_deref()
    }
}

/// An error in one line, with the details that agents put beside it.
pub(super) fn describe(error: &RpcError) -> String {
    let details = error.data.as_ref().and_then(|data| {
        let text = |member: &str| data.get(member).and_then(Value::as_str);
        data.as_str().or_else(|| text("details")).or_else(|| text("message"))
    });
    let message = match details.filter(|details| !error.message.contains(details)) {
        Some(details) => format!("{}: {details}", error.message),
        None => error.message.clone(),
    };
    shorten(&message)
}
