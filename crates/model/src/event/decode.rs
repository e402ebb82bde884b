//! JSON to event. Unknown types and members are kept; a known member that is missing or malformed is an
//! error by name.

use super::json::Members;
use super::{Actor, Body, Draft, Event, Known};
use crate::time::Time;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::{Map, Value};

/// A line that is not an event.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// It is not a JSON object.
    #[error("not a JSON object: {0}")]
    NotAnObject(#[source] serde_json::Error),
    /// A member that this type of event must have is not there.
    #[error("{type}: member \"{member}\" is missing")]
    Missing {
        /// The event's type; empty when that is what is missing.
        r#type: String,
        /// The member's name.
        member: &'static str,
    },
    /// A member is there and cannot be read.
    #[error("{type}: member \"{member}\": {problem}")]
    Malformed {
        /// The event's type.
        r#type: String,
        /// The member's name.
        member: &'static str,
        /// What is wrong with it.
        #[source]
        problem: serde_json::Error,
    },
}

impl Event {
    /// Reads one line of a log.
    pub fn from_json(line: &str) -> Result<Self, EventError> {
        Self::from_members(turnstream_json::from_str(line).map_err(EventError::NotAnObject)?)
    }

    /// Reads an event from an object that was parsed already.
    pub fn from_members(members: Map<String, Value>) -> Result<Self, EventError> {
        let mut members = Members { r#type: String::new(), members };
        // The id of a frame, which a WebSocket adds to the event: no event has a member of this name.
        members.members.remove("id");
        members.r#type = members.must("type")?;
        let seq = members.must("seq")?;
        let time: Time = members.must("time")?;
        Ok(read_draft(members)?.at(seq, time))
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_members(Map::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

fn read_draft(mut members: Members) -> Result<Draft, EventError> {
    let Some(known) = Known::from_word(&members.r#type) else {
        let Members { r#type, members } = members;
        return Ok(Draft { extra: members, ..Draft::new(Body::Unknown { r#type }) });
    };
    for member in known.description().needs {
        // The envelope holds its ids as options, so that they are judged here.
        if members.members.get(*member).is_none_or(Value::is_null) {
            return Err(EventError::Missing { r#type: members.r#type, member });
        }
    }
    let body = Body::read_members(known, &mut members)?;
    // Every type that is known has a body.
    let body = body.unwrap_or_else(|| Body::Unknown { r#type: members.r#type.clone() });
    Ok(Draft {
        turn: members.may("turn")?,
        attempt: members.may("attempt")?,
        item: members.may("item")?,
        parent: members.may("parent")?,
        native: members.may("native")?,
        actor: read_actor(&mut members.members),
        body,
        extra: members.members,
    })
}

/// The member `actor`, if it is one. Earlier versions kept any value of this name as an unknown member, and
/// their logs stay readable.
fn read_actor(members: &mut Map<String, Value>) -> Option<Actor> {
    let actor = members.get("actor").and_then(Value::as_str).and_then(Actor::new)?;
    members.remove("actor");
    Some(actor)
}

#[cfg(test)]
mod tests {
    use super::Event;
    use std::error::Error;

    #[test]
    fn a_line_that_is_not_an_event_keeps_the_error_of_the_parser() {
        for line in ["{", r#"{"seq":"one","time":1,"type":"notice"}"#] {
            let error = Event::from_json(line).expect_err(line);
            let cause = error.source().and_then(|cause| cause.downcast_ref::<serde_json::Error>());
            assert!(cause.is_some(), "{error:?}");
        }
    }
}
