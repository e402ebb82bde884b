//! What the REST routes answer: typed where it is needed to find one's way, raw where the decoder of events reads it.

use super::directory::Directory;
use super::error::ClientError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A session and where it works: what a request about it needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionRef {
    /// opencode's id.
    pub id: String,
    /// Where it works.
    pub directory: Directory,
}

/// A session as the server tells it. There is no state in it: ask for the status.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// Where it works, symbolic links resolved by the server.
    pub directory: String,
    /// The session whose tool call made it.
    #[serde(rename = "parentID")]
    pub parent_id: Option<String>,
    /// Its title.
    #[serde(default)]
    pub title: String,
    /// The version of opencode that made it.
    #[serde(default)]
    pub version: String,
    /// When.
    pub time: SessionTime,
}

/// The times of a session, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct SessionTime {
    /// It was made.
    pub created: f64,
    /// It last changed.
    pub updated: f64,
}

/// A session that is there now, and whether it had to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Ensured {
    /// What requests about it need. Its id may be another than was asked for: write it back.
    pub at: SessionRef,
    /// What the server says of it.
    pub session: Session,
    /// True when it was made now: the agent knows nothing of an earlier conversation.
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

/// A permission or a question that waits for an answer. An aborted turn leaves its permissions in the list for ever
/// (captures `d5-permission-abort`, `m3-subagent-abort-parent`).
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    /// The request to answer.
    pub id: String,
    /// The session that asks; of a subagent its own.
    pub session: String,
    /// All of it: the properties of `permission.asked` or `question.asked`.
    pub body: Value,
}

/// The answer to a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PermissionReply {
    /// This time.
    Once,
    /// Now and whenever the patterns match again.
    Always,
    /// No.
    Reject,
}

/// A durable event from the server's history.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SyncEvent {
    /// Its id, the same as on the stream.
    pub id: String,
    /// The session.
    #[serde(rename = "aggregate_id")]
    pub session: String,
    /// Its number in the session, without gaps.
    pub seq: u64,
    /// The type of the event with a version behind it: `message.updated.1`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The properties of the event.
    pub data: Value,
}

/// What a healthy server says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Health {
    /// Its version.
    pub version: String,
}

// === impl SessionRef ===

impl SessionRef {
    /// Checks the id.
    pub fn new(id: impl Into<String>, directory: Directory) -> Result<Self, ClientError> {
        let id = id.into();
        check_id(&id, "ses")?;
        Ok(Self { id, directory })
    }
}

// === impl Pending ===

impl Pending {
    /// Reads one of a list; `None` when it lacks an id.
    pub(super) fn new(body: Value) -> Option<Self> {
        let text = |name: &str| body[name].as_str().map(str::to_owned);
        Some(Self { id: text("id")?, session: text("sessionID")?, body })
    }
}

/// Ids go into paths. One of another form would ask for something else, or make the server fail (an id without its
/// prefix is answered with 500, capture `p-errors`).
pub(super) fn check_id(id: &str, prefix: &'static str) -> Result<(), ClientError> {
    let plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if plain && id.starts_with(prefix) {
        return Ok(());
    }
    Err(ClientError::Id { id: super::error::excerpt(id), prefix })
}
