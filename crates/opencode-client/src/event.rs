//! The events of opencode 1.18.33, as it writes them on `/event`.
//!
//! Events that matter to a session are typed, others are kept by name. Unknown members are ignored. A known
//! type with another shape is an error.

mod read;

use super::info::{AgentError, MessageInfo, SessionInfo, Status, Todo};
use super::part::Part;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::borrow::Cow;
use turnstream_json::Piece;

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// What happened.
    pub kind: Kind,
    /// Its session; `None` for an event of the whole server.
    session: Option<String>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "deltas are nearly all of them, and hold four strings anyway")]
pub enum Kind {
    /// The stream is open: all later events arrive.
    Connected,
    /// A heartbeat, every ten seconds.
    Heartbeat,
    /// The server disposed of the instance of this directory; the stream ends.
    Disposed,
    /// A session was created.
    SessionCreated(SessionInfo),
    /// A session changed; the whole session.
    SessionUpdated(SessionInfo),
    /// A session was deleted.
    SessionDeleted,
    /// The status of the session.
    Status(Status),
    /// The session is idle. Follows an idle status.
    Idle,
    /// An error in the session.
    Error(Option<AgentError>),
    /// A message is new or changed; the whole message without its parts.
    Message(MessageInfo),
    /// A message was removed.
    MessageRemoved {
        /// The message.
        message: String,
    },
    /// A part is new or changed; the whole part.
    Part(Part),
    /// A part was removed.
    PartRemoved {
        /// The part.
        part: String,
    },
    /// Text was added to a part.
    Delta(Delta),
    /// A permission was asked for.
    PermissionAsked(PermissionAsk),
    /// A permission was answered.
    PermissionReplied {
        /// The id of the permission or question.
        request: String,
        /// `once`, `always` or `reject`.
        reply: String,
    },
    /// A question was asked.
    QuestionAsked(QuestionAsk),
    /// A question was answered.
    QuestionReplied {
        /// The id of the permission or question.
        request: String,
        /// The chosen labels for each part of the question.
        answers: Vec<Vec<String>>,
    },
    /// A question was rejected.
    QuestionRejected {
        /// The id of the permission or question.
        request: String,
    },
    /// The whole to-do list.
    Todos(Vec<Todo>),
    /// A known type that does not matter to a turn.
    Other(Cow<'static, str>),
    /// An unknown type.
    Unknown(String),
}

impl Kind {
    /// The name of the type on the wire.
    pub fn name(&self) -> &str {
        match self {
            Self::Connected => "server.connected",
            Self::Heartbeat => "server.heartbeat",
            Self::Disposed => "server.instance.disposed",
            Self::SessionCreated(_) => "session.created",
            Self::SessionUpdated(_) => "session.updated",
            Self::SessionDeleted => "session.deleted",
            Self::Status(_) => "session.status",
            Self::Idle => "session.idle",
            Self::Error(_) => "session.error",
            Self::Message(_) => "message.updated",
            Self::MessageRemoved { .. } => "message.removed",
            Self::Part(_) => "message.part.updated",
            Self::PartRemoved { .. } => "message.part.removed",
            Self::Delta(_) => "message.part.delta",
            Self::PermissionAsked(_) => "permission.asked",
            Self::PermissionReplied { .. } => "permission.replied",
            Self::QuestionAsked(_) => "question.asked",
            Self::QuestionReplied { .. } => "question.replied",
            Self::QuestionRejected { .. } => "question.rejected",
            Self::Todos(_) => "todo.updated",
            Self::Other(name) => name,
            Self::Unknown(name) => name,
        }
    }
}

/// Text that was added to a part.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Delta {
    #[serde(rename = "sessionID")]
    session: String,
    /// The message.
    #[serde(rename = "messageID")]
    pub message: String,
    /// The part.
    #[serde(rename = "partID")]
    pub part: String,
    /// The member of the part: `text`, also for reasoning.
    pub field: String,
    /// The added text. A character may be cut between two deltas.
    #[serde(deserialize_with = "turnstream_json::owned")]
    pub delta: Piece<'static>,
}

/// The tool call that a permission or question belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AskedBy {
    /// The message of the tool call.
    #[serde(rename = "messageID")]
    pub message: String,
    /// The id of the tool call.
    #[serde(rename = "callID")]
    pub call: String,
}

/// An open permission.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PermissionAsk {
    /// Its id.
    pub id: String,
    /// The session that asks. A subagent asks with its own session.
    #[serde(rename = "sessionID")]
    pub session: String,
    /// The name of the permission, for example `bash` or `edit`.
    pub permission: String,
    /// The patterns to allow.
    #[serde(default)]
    pub patterns: Vec<String>,
    /// More about it.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// The patterns that the answer `always` would allow.
    #[serde(default)]
    pub always: Vec<String>,
    /// The tool call.
    pub tool: Option<AskedBy>,
}

/// An open question, in one or more parts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct QuestionAsk {
    /// Its id.
    pub id: String,
    /// The session that asks.
    #[serde(rename = "sessionID")]
    pub session: String,
    /// Its parts. Answers are given by index.
    pub questions: Vec<QuestionInfo>,
    /// The tool call.
    pub tool: Option<AskedBy>,
}

/// One part of a question.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct QuestionInfo {
    /// The text.
    pub question: String,
    /// A short title.
    #[serde(default)]
    pub header: String,
    /// Offered answers.
    #[serde(default)]
    pub options: Vec<QuestionOption>,
    /// More than one option may be chosen.
    #[serde(default)]
    pub multiple: bool,
    /// Whether a free text is allowed; the default is yes.
    pub custom: Option<bool>,
}

/// One offered answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct QuestionOption {
    /// The text that is shown and sent back.
    pub label: String,
    /// More about it.
    #[serde(default)]
    pub description: String,
}

/// A payload that is not an event.
#[derive(Debug, thiserror::Error)]
#[error("not an event of opencode: {source}; it begins with {start:?}")]
pub struct EventError {
    source: serde_json::Error,
    /// The first bytes of the payload.
    start: String,
}

impl EventError {
    /// The kind of the error: syntax, end of input, or a wrong shape. It holds no text of the payload.
    pub fn category(&self) -> serde_json::error::Category {
        self.source.classify()
    }
}

impl Event {
    /// Reads one event: the data of one frame of `/event`.
    pub fn parse(data: &[u8]) -> Result<Self, EventError> {
        turnstream_json::from_slice(data).map_err(|source| {
            let start = String::from_utf8_lossy(&data[..data.len().min(80)]).into_owned();
            EventError { source, start }
        })
    }

    /// An event of that session.
    fn of(session: Option<String>, kind: Kind) -> Self {
        Self { kind, session }
    }

    /// Its session.
    pub fn session(&self) -> Option<&str> {
        match &self.kind {
            Kind::Delta(delta) => Some(&delta.session),
            _ => self.session.as_deref(),
        }
    }

    /// True for the idle event of this session.
    pub fn is_idle_of(&self, session: &str) -> bool {
        self.session() == Some(session) && matches!(self.kind, Kind::Idle)
    }

    /// A new session of a subagent: the child and its parent.
    pub fn new_child(&self) -> Option<(&str, &str)> {
        match &self.kind {
            Kind::SessionCreated(info) | Kind::SessionUpdated(info) => {
                Some((&info.id, info.parent.as_deref()?))
            }
            _ => None,
        }
    }

    /// A permission from a list, as an event.
    pub(crate) fn permission(ask: PermissionAsk) -> Self {
        Self::of(Some(ask.session.clone()), Kind::PermissionAsked(ask))
    }

    /// A question from a list, as an event.
    pub(crate) fn question(ask: QuestionAsk) -> Self {
        Self::of(Some(ask.session.clone()), Kind::QuestionAsked(ask))
    }

    /// True for an idle or error that names no session.
    pub fn is_terminal_without_session(&self) -> bool {
        let terminal = matches!(self.kind, Kind::Idle | Kind::Error(_) | Kind::Status(Status::Idle));
        terminal && self.session().is_none()
    }

    /// True for the first event of every stream.
    pub fn is_connected(&self) -> bool {
        self.kind == Kind::Connected
    }

    /// True for a status, error, permission or question. Kept for a subscriber whose queue is full.
    pub fn is_control(&self) -> bool {
        matches!(
            self.kind,
            Kind::Idle
                | Kind::Error(_)
                | Kind::Status(_)
                | Kind::SessionCreated(_)
                | Kind::PermissionAsked(_)
                | Kind::PermissionReplied { .. }
                | Kind::QuestionAsked(_)
                | Kind::QuestionReplied { .. }
                | Kind::QuestionRejected { .. }
        )
    }
}
