//! The answers of the REST routes. Messages and asks stay raw JSON: the event decoder reads them.

use super::directory::Directory;
use super::error::ClientError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A session and its directory, which every request about it needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionRef {
    /// opencode's id of the session.
    pub id: String,
    /// The directory it works in.
    pub directory: Directory,
}

/// A session as the server describes it. It holds no status: see [`Client::status`](super::Client::status).
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// The directory it works in, with symbolic links resolved by the server.
    pub directory: String,
    /// The session whose tool call created it.
    #[serde(rename = "parentID")]
    pub parent_id: Option<String>,
    /// Its title.
    #[serde(default)]
    pub title: String,
    /// The version of opencode that created it.
    #[serde(default)]
    pub version: String,
    /// When it was created and changed.
    pub time: SessionTime,
}

/// The times of a session, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct SessionTime {
    /// When it was created.
    pub created: f64,
    /// When it last changed.
    pub updated: f64,
}

/// The result of [`Client::ensure_session`](super::Client::ensure_session).
#[derive(Debug, Clone, PartialEq)]
pub struct Ensured {
    /// The session to use. Its id may differ from the one that was asked for: store it.
    pub at: SessionRef,
    /// The server's description.
    pub session: Session,
    /// True when it was created just now: it knows nothing of an earlier conversation.
    pub created: bool,
}

/// A message with its parts, as the server stores them. The text of a part that is still streaming is empty
/// (capture `t-snapshot-midstream`).
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct StoredMessage {
    /// What `message.updated` carries.
    pub info: Value,
    /// What `message.part.updated` carries.
    pub parts: Vec<Value>,
}

/// An open permission or question. The permissions of an aborted turn stay in the list for ever
/// (captures `d5-permission-abort`, `m3-subagent-abort-parent`).
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    /// The request to answer.
    pub id: String,
    /// The session that asks. A subagent asks with its own session.
    pub session: String,
    /// The properties of `permission.asked` or `question.asked`.
    pub body: Value,
}

/// The answer to a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PermissionReply {
    /// Allow this time.
    Once,
    /// Allow now, and whenever the patterns match again.
    Always,
    /// Refuse.
    Reject,
}

/// A command of the server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct CommandInfo {
    /// Its name, without a slash.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
}

/// The answer of the health check.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Health {
    /// The version of the server.
    pub version: String,
}

// === impl SessionRef ===

impl SessionRef {
    /// A session by its id, which is checked.
    pub fn new(id: impl Into<String>, directory: Directory) -> Result<Self, ClientError> {
        let id = id.into();
        check_id(&id, "ses")?;
        Ok(Self { id, directory })
    }
}

// === impl Pending ===

impl Pending {
    /// Reads one entry of a list; `None` when it lacks an id.
    pub(super) fn new(body: Value) -> Option<Self> {
        let text = |name: &str| body[name].as_str().map(str::to_owned);
        Some(Self { id: text("id")?, session: text("sessionID")?, body })
    }
}

/// Checks an id before it goes into a path: another form would request something else. opencode answers an id
/// without its prefix with 500 (capture `p-errors`).
pub(super) fn check_id(id: &str, prefix: &'static str) -> Result<(), ClientError> {
    let plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if plain && id.starts_with(prefix) {
        return Ok(());
    }
    Err(ClientError::Id { id: super::error::excerpt(id), prefix })
}
