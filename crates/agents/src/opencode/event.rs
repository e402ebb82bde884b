//! The events of opencode 1.18.33 as it writes them on `/event`: what a consumer of a session needs, typed; the rest by
//! name. Unknown members are ignored, unknown types are kept by name, and a known type of another shape is an error.

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
    /// The session it belongs to; an event of the whole server has none.
    session: Option<String>,
    /// Where it happened; only `/global/event` says so.
    directory: Option<String>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "deltas are nearly all of them, and hold four strings anyway")]
pub enum Kind {
    /// The stream is there: what happens from now on is seen.
    Connected,
    /// Nothing happened, every ten seconds.
    Heartbeat,
    /// The server gave this directory up; the stream ends.
    Disposed,
    /// A session was made.
    SessionCreated(SessionInfo),
    /// A session changed; all of it.
    SessionUpdated(SessionInfo),
    /// A session was deleted.
    SessionDeleted,
    /// What the session does.
    Status(Status),
    /// The session is idle; follows a status that says so too.
    Idle,
    /// Something went wrong in the session.
    Error(Option<AgentError>),
    /// A message is there or changed; all of it but its parts.
    Message(MessageInfo),
    /// A message was taken back.
    MessageRemoved {
        /// The message.
        message: String,
    },
    /// A part is there or changed; all of it.
    Part(Part),
    /// A part was taken back.
    PartRemoved {
        /// The part.
        part: String,
    },
    /// A part grew.
    Delta(Delta),
    /// The agent waits for a permission.
    PermissionAsked(PermissionAsk),
    /// The permission was given or refused.
    PermissionReplied {
        /// The ask.
        request: String,
        /// `once`, `always` or `reject`.
        reply: String,
    },
    /// The agent waits for answers.
    QuestionAsked(QuestionAsk),
    /// The questions were answered.
    QuestionReplied {
        /// The ask.
        request: String,
        /// For each question the chosen labels.
        answers: Vec<Vec<String>>,
    },
    /// Nobody will answer.
    QuestionRejected {
        /// The ask.
        request: String,
    },
    /// The to-do list; all of it.
    Todos(Vec<Todo>),
    /// A type of this version that says nothing about a turn.
    Other(Cow<'static, str>),
    /// A type that this version does not have.
    Unknown(String),
}

impl Kind {
    /// The type as opencode writes it.
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

/// A piece of a part's text.
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
    /// The member of the part that grew: `text`, for reasoning too.
    pub field: String,
    /// What was added. A character may be cut between two of them.
    #[serde(deserialize_with = "turnstream_json::owned")]
    pub delta: Piece<'static>,
}

/// The call an ask belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AskedBy {
    /// The message of the call.
    #[serde(rename = "messageID")]
    pub message: String,
    /// The call.
    #[serde(rename = "callID")]
    pub call: String,
}

/// A permission that is asked for.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PermissionAsk {
    /// The ask.
    pub id: String,
    /// The session that asks: a subagent's own.
    #[serde(rename = "sessionID")]
    pub session: String,
    /// `bash`, `edit` and so on.
    pub permission: String,
    /// What is to be allowed.
    #[serde(default)]
    pub patterns: Vec<String>,
    /// More about it.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// What an answer for always would allow.
    #[serde(default)]
    pub always: Vec<String>,
    /// The call.
    pub tool: Option<AskedBy>,
}

/// Questions to a person.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct QuestionAsk {
    /// The ask.
    pub id: String,
    /// The session that asks.
    #[serde(rename = "sessionID")]
    pub session: String,
    /// The questions, answered by their place.
    pub questions: Vec<QuestionInfo>,
    /// The call.
    pub tool: Option<AskedBy>,
}

/// One question.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct QuestionInfo {
    /// What is asked.
    pub question: String,
    /// A word for it.
    #[serde(default)]
    pub header: String,
    /// Offered answers.
    #[serde(default)]
    pub options: Vec<QuestionOption>,
    /// Several may be chosen.
    #[serde(default)]
    pub multiple: bool,
    /// Another answer may be given; so it is unless this says no.
    pub custom: Option<bool>,
}

/// One offered answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct QuestionOption {
    /// What is chosen and sent back.
    pub label: String,
    /// More about it.
    #[serde(default)]
    pub description: String,
}

/// Why a payload is no event.
#[derive(Debug, thiserror::Error)]
#[error("not an event of opencode: {problem}; it begins with {start:?}")]
pub struct EventError {
    /// What is wrong with it.
    problem: String,
    /// Its first bytes.
    start: String,
}

impl Event {
    /// Reads one event: the data of one frame of `/event` or `/global/event`.
    pub fn parse(data: &[u8]) -> Result<Self, EventError> {
        turnstream_json::from_slice(data).map_err(|error| {
            let start = String::from_utf8_lossy(&data[..data.len().min(80)]).into_owned();
            EventError { problem: error.to_string(), start }
        })
    }

    /// An event of that session, or of none.
    fn of(session: Option<String>, kind: Kind) -> Self {
        Self { kind, session, directory: None }
    }

    /// The session it belongs to.
    pub fn session(&self) -> Option<&str> {
        match &self.kind {
            Kind::Delta(delta) => Some(&delta.session),
            _ => self.session.as_deref(),
        }
    }

    /// Where it happened, if it says so.
    pub fn directory(&self) -> Option<&str> {
        self.directory.as_deref()
    }

    /// Says that this session rests.
    pub fn is_idle_of(&self, session: &str) -> bool {
        self.session() == Some(session) && matches!(self.kind, Kind::Idle)
    }

    /// A session that another one made: the child and its parent.
    pub fn new_child(&self) -> Option<(&str, &str)> {
        match &self.kind {
            Kind::SessionCreated(info) | Kind::SessionUpdated(info) => {
                Some((&info.id, info.parent.as_deref()?))
            }
            _ => None,
        }
    }

    /// A permission that waits, as a list of them has it.
    pub(crate) fn permission(ask: PermissionAsk) -> Self {
        Self::of(Some(ask.session.clone()), Kind::PermissionAsked(ask))
    }

    /// Questions that wait, as a list of them has them.
    pub(crate) fn question(ask: QuestionAsk) -> Self {
        Self::of(Some(ask.session.clone()), Kind::QuestionAsked(ask))
    }

    /// It may be the end of a turn, and does not say whose.
    pub fn is_terminal_without_session(&self) -> bool {
        let terminal = matches!(self.kind, Kind::Idle | Kind::Error(_) | Kind::Status(Status::Idle));
        terminal && self.session().is_none()
    }

    /// The first event of every stream: from now on everything is seen.
    pub fn is_connected(&self) -> bool {
        self.kind == Kind::Connected
    }

    /// It says what a session does or waits for, and is not content: kept for a subscriber that has fallen behind.
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
