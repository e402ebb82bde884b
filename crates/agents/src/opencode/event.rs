//! The events of opencode 1.18.33 as it writes them on `/event`: what a consumer of a session needs, typed; the rest by
//! name. Unknown members are ignored, unknown types are kept by name, and a known type of another shape is an error.

use super::info::{AgentError, MessageInfo, SessionInfo, Status, Todo};
use super::part::Part;
use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;

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
    /// What was added.
    pub delta: String,
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
        serde_json::from_slice(data).map_err(|error| {
            let start = String::from_utf8_lossy(&data[..data.len().min(80)]).into_owned();
            EventError { problem: error.to_string(), start }
        })
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

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EventVisitor)
    }
}

/// Reads the properties straight into their type, which opencode names before them: reading them twice would double the
/// cost of a delta.
struct EventVisitor;

impl<'de> Visitor<'de> for EventVisitor {
    type Value = Event;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a type and properties")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Event, A::Error> {
        let mut name: Option<Cow<'de, str>> = None;
        let mut early: Option<Value> = None;
        let mut found: Option<Event> = None;
        let mut directory = None;
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match &*key.0 {
                "type" => name = Some(map.next_value::<Text<'de>>()?.0),
                "properties" => match &name {
                    Some(name) => found = Some(map.next_value_seed(Properties(name))?),
                    None => early = Some(map.next_value()?),
                },
                "payload" => found = Some(map.next_value()?),
                "directory" => directory = map.next_value()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if let (Some(name), Some(early)) = (&name, early) {
            found =
                Some(de::DeserializeSeed::deserialize(Properties(name), early).map_err(de::Error::custom)?);
        }
        // `/global/event` repeats durable events as "sync", without properties.
        let other = || name.map(|name| Event::of(None, other(&name)));
        let mut event = found.or_else(other).ok_or_else(|| de::Error::missing_field("type"))?;
        if directory.is_some() {
            event.directory = directory;
        }
        Ok(event)
    }
}

impl Event {
    fn of(session: Option<String>, kind: Kind) -> Self {
        Self { kind, session, directory: None }
    }
}

/// A string that is borrowed where it can be.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The properties of an event of this type.
struct Properties<'a>(&'a str);

impl<'de> de::DeserializeSeed<'de> for Properties<'_> {
    type Value = Event;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Event, D::Error> {
        let named = |error: D::Error| de::Error::custom(format!("{}: {error}", self.0));
        read(self.0, from).map_err(named)
    }
}

#[derive(Deserialize)]
struct Scoped {
    #[serde(rename = "sessionID")]
    session: Option<String>,
}

#[derive(Deserialize)]
struct WithInfo<T> {
    info: T,
}

#[derive(Deserialize)]
struct WithStatus {
    #[serde(rename = "sessionID")]
    session: Option<String>,
    status: Status,
}

#[derive(Deserialize)]
struct WithError {
    #[serde(rename = "sessionID")]
    session: Option<String>,
    error: Option<AgentError>,
}

#[derive(Deserialize)]
struct WithPart {
    part: Part,
}

#[derive(Deserialize)]
struct Removed {
    #[serde(rename = "sessionID")]
    session: Option<String>,
    #[serde(rename = "messageID")]
    message: String,
    #[serde(rename = "partID")]
    part: Option<String>,
}

#[derive(Deserialize)]
struct Replied {
    #[serde(rename = "sessionID")]
    session: Option<String>,
    #[serde(rename = "requestID")]
    request: String,
    reply: Option<String>,
    #[serde(default)]
    answers: Vec<Vec<String>>,
}

#[derive(Deserialize)]
struct WithTodos {
    #[serde(rename = "sessionID")]
    session: Option<String>,
    todos: Vec<Todo>,
}

fn read<'de, D: Deserializer<'de>>(name: &str, from: D) -> Result<Event, D::Error> {
    let event = match name {
        "message.part.delta" => Event::of(None, Kind::Delta(Delta::deserialize(from)?)),
        "message.part.updated" => {
            let part = WithPart::deserialize(from)?.part;
            Event::of(Some(part.session.clone()), Kind::Part(part))
        }
        "message.updated" => {
            let info = WithInfo::<MessageInfo>::deserialize(from)?.info;
            Event::of(Some(info.session.clone()), Kind::Message(info))
        }
        "session.status" => {
            let WithStatus { session, status } = Deserialize::deserialize(from)?;
            Event::of(session, Kind::Status(status))
        }
        "session.idle" => Event::of(Scoped::deserialize(from)?.session, Kind::Idle),
        "session.error" => {
            let WithError { session, error } = Deserialize::deserialize(from)?;
            Event::of(session, Kind::Error(error))
        }
        "session.created" | "session.updated" => {
            let info = WithInfo::<SessionInfo>::deserialize(from)?.info;
            let session = Some(info.id.clone());
            let made = name == "session.created";
            Event::of(session, if made { Kind::SessionCreated(info) } else { Kind::SessionUpdated(info) })
        }
        "session.deleted" => {
            Event::of(Some(WithInfo::<SessionInfo>::deserialize(from)?.info.id), Kind::SessionDeleted)
        }
        "message.removed" => {
            let Removed { session, message, .. } = Deserialize::deserialize(from)?;
            Event::of(session, Kind::MessageRemoved { message })
        }
        "message.part.removed" => {
            let Removed { session, part, .. } = Deserialize::deserialize(from)?;
            let part = part.ok_or_else(|| de::Error::missing_field("partID"))?;
            Event::of(session, Kind::PartRemoved { part })
        }
        "permission.asked" => {
            let ask = PermissionAsk::deserialize(from)?;
            Event::of(Some(ask.session.clone()), Kind::PermissionAsked(ask))
        }
        "permission.replied" => {
            let Replied { session, request, reply, .. } = Deserialize::deserialize(from)?;
            let reply = reply.ok_or_else(|| de::Error::missing_field("reply"))?;
            Event::of(session, Kind::PermissionReplied { request, reply })
        }
        "question.asked" => {
            let ask = QuestionAsk::deserialize(from)?;
            Event::of(Some(ask.session.clone()), Kind::QuestionAsked(ask))
        }
        "question.replied" => {
            let Replied { session, request, answers, .. } = Deserialize::deserialize(from)?;
            Event::of(session, Kind::QuestionReplied { request, answers })
        }
        "question.rejected" => {
            let Replied { session, request, .. } = Deserialize::deserialize(from)?;
            Event::of(session, Kind::QuestionRejected { request })
        }
        "todo.updated" => {
            let WithTodos { session, todos } = Deserialize::deserialize(from)?;
            Event::of(session, Kind::Todos(todos))
        }
        "server.connected" => ignore(from, Kind::Connected)?,
        "server.heartbeat" => ignore(from, Kind::Heartbeat)?,
        "server.instance.disposed" | "global.disposed" => ignore(from, Kind::Disposed)?,
        _ => {
            let session = Scoped::deserialize(from)?.session;
            Event::of(session, other(name))
        }
    };
    Ok(event)
}

fn ignore<'de, D: Deserializer<'de>>(from: D, kind: Kind) -> Result<Event, D::Error> {
    IgnoredAny::deserialize(from)?;
    Ok(Event::of(None, kind))
}

fn other(name: &str) -> Kind {
    match OTHERS.binary_search(&name) {
        Ok(index) => Kind::Other(Cow::Borrowed(OTHERS[index])),
        Err(_) if name.starts_with("session.next.") || name.starts_with("tui.") => {
            Kind::Other(Cow::Owned(name.to_owned()))
        }
        Err(_) => Kind::Unknown(name.to_owned()),
    }
}

/// The types that say nothing about a turn, sorted. `session.next.*` belong to the second API, which we do not use.
const OTHERS: &[&str] = &[
    "catalog.updated",
    "command.executed",
    "file.edited",
    "file.watcher.updated",
    "installation.update-available",
    "installation.updated",
    "integration.connection.updated",
    "integration.updated",
    "lsp.updated",
    "mcp.browser.open.failed",
    "mcp.tools.changed",
    "models-dev.refreshed",
    "permission.v2.asked",
    "permission.v2.replied",
    "plugin.added",
    "project.directories.updated",
    "project.updated",
    "pty.created",
    "pty.deleted",
    "pty.exited",
    "pty.updated",
    "question.v2.asked",
    "question.v2.rejected",
    "question.v2.replied",
    "reference.updated",
    "session.compacted",
    "session.diff",
    "sync",
    "vcs.branch.updated",
    "workspace.failed",
    "workspace.ready",
    "workspace.status",
    "worktree.failed",
    "worktree.ready",
];
