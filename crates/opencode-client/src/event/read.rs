//! Reads an event: first its type, then its properties directly into their Rust type.

use super::{Delta, Event, Kind, PermissionAsk, QuestionAsk};
use crate::info::{AgentError, MessageInfo, SessionInfo, Status, Todo};
use crate::part::Part;
use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use turnstream_json::Lenient;

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EventVisitor)
    }
}

/// Reads the properties directly into their Rust type. opencode writes the type before them. Reading them
/// twice would double the cost of a delta.
struct EventVisitor;

impl<'de> Visitor<'de> for EventVisitor {
    type Value = Event;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a type and properties")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Event, A::Error> {
        let mut name: Option<Cow<'de, str>> = None;
        let mut early: Option<Box<RawValue>> = None;
        let mut found: Option<Event> = None;
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match &*key.0 {
                "type" => name = Some(map.next_value::<Text<'de>>()?.0),
                "properties" => match &name {
                    Some(name) => found = Some(map.next_value_seed(Properties(name))?),
                    None => early = Some(map.next_value()?),
                },
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if let (Some(name), Some(early)) = (&name, early) {
            found = Some(late(name, early.get()).map_err(de::Error::custom)?);
        }
        let without_properties = || name.map(|name| Event::of(None, other(&name)));
        found.or_else(without_properties).ok_or_else(|| de::Error::missing_field("type"))
    }
}

/// Reads properties that were written before the type.
#[cold]
fn late(name: &str, properties: &str) -> Result<Event, serde_json::Error> {
    let read =
        |json: &mut serde_json::Deserializer<_>| de::DeserializeSeed::deserialize(Properties(name), json);
    read(&mut serde_json::Deserializer::from_str(properties)).or_else(|error| {
        match Lenient::new(properties) {
            Some(mut json) => de::DeserializeSeed::deserialize(Properties(name), &mut json),
            None => Err(error),
        }
    })
}

/// A string that is borrowed if possible.
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

/// The types that do not matter to a turn, sorted. `session.next.*` belong to another API, which is not
/// used here.
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
