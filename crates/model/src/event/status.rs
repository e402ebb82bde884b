//! What the agent of a session is doing. On the wire its members stand in the event itself.

use super::describe::{MemberDescription, MemberKind, Presence, Redacted};
use super::json::{FlatMembers, Members, may};
use super::{ErrorClass, EventError};
use crate::time::Time;
use serde::de::Error as _;
use serde::ser::SerializeMap;

/// What the agent of a session is doing.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    /// No turn is open, and none is to come.
    Idle,
    /// A turn is open, or a prompt was sent and its turn is to come.
    Busy,
    /// A turn is open and waits for a person.
    Waiting,
    /// After a crash, the open turn is being settled.
    Recovering,
    /// A turn is open and waits to repeat a model call. Or no turn is open, and the session waits to continue
    /// one that has failed.
    Retrying {
        /// The number of the retry.
        attempt: Option<u32>,
        /// The class of the error that is retried.
        reason: Option<ErrorClass>,
        /// When the call is repeated.
        until: Option<Time>,
        /// The error in the agent's words.
        message: Option<String>,
    },
}

impl Status {
    /// The word on the wire.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Waiting => "waiting",
            Self::Recovering => "recovering",
            Self::Retrying { .. } => "retrying",
        }
    }
}

/// A member of `session.status`. Only `status` is always there; the others are of `retrying`.
const fn member(
    name: &'static str,
    presence: Presence,
    kind: MemberKind,
    redacted: Redacted,
) -> MemberDescription {
    MemberDescription { name, presence, kind, redacted, flat: &[] }
}

impl FlatMembers for Status {
    const DESCRIPTIONS: &'static [MemberDescription] = &[
        member("status", Presence::Must, MemberKind::Word, Redacted::Plain),
        member("attempt", Presence::May, MemberKind::Number, Redacted::Plain),
        member("reason", Presence::May, MemberKind::Word, Redacted::Plain),
        member("until", Presence::May, MemberKind::Number, Redacted::Plain),
        member("message", Presence::May, MemberKind::Text, Redacted::Here),
    ];

    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("status", self.as_str())?;
        match self {
            Self::Idle | Self::Busy | Self::Waiting | Self::Recovering => Ok(()),
            Self::Retrying { attempt, reason, until, message } => {
                may::write(map, "attempt", attempt)?;
                may::write(map, "reason", reason)?;
                may::write(map, "until", until)?;
                may::write(map, "message", message)
            }
        }
    }

    fn read(members: &mut Members) -> Result<Self, EventError> {
        let word: String = members.must("status")?;
        match word.as_str() {
            "idle" => Ok(Self::Idle),
            "busy" => Ok(Self::Busy),
            "waiting" => Ok(Self::Waiting),
            "recovering" => Ok(Self::Recovering),
            // Here `attempt` is the number of the retry, not the id of a model call.
            "retrying" => Ok(Self::Retrying {
                attempt: members.may("attempt")?,
                reason: members.may("reason")?,
                until: members.may("until")?,
                message: members.may("message")?,
            }),
            _ => Err(EventError::Malformed {
                r#type: members.r#type.clone(),
                member: "status",
                problem: serde_json::Error::custom(format!(
                    "{word:?} is not idle, busy, waiting, recovering or retrying"
                )),
            }),
        }
    }
}
