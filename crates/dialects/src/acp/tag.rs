//! What ACP has no member for: the object `_meta.turnstream` of an update.

use agent_client_protocol_schema::v1::Meta;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};
use turnstream_model::event::{Field, ItemState};
use turnstream_model::id::{ItemId, Key};

/// The key of our object in `_meta`.
pub(super) const KEY: &str = "turnstream";

/// `_meta.turnstream` of one update.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tag {
    /// The tool call whose subagent did this. A message with it is not part of the agent's own text.
    pub parent: Option<ItemId>,
    /// The agent's own id of the subagent's session.
    pub session: Option<Key>,
    /// The agent's own id of the session that the subagent works for.
    pub parent_session: Option<Key>,
    /// The agent wrote it in the user's name.
    pub synthetic: bool,
    /// Members of the call that ACP does not know.
    pub tool: Option<Box<Map<String, Value>>>,
    /// A change that ACP has no message for.
    pub mark: Option<Box<Mark>>,
}

/// A change that ACP has no message for.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// A text of a tool call grew.
    Delta {
        /// The text that grew.
        field: Field,
        /// What was added.
        text: String,
    },
    /// Everything of this text that was sent before is void: this is the whole.
    Replace {
        /// The text that is replaced.
        field: Field,
        /// The whole text.
        text: String,
    },
    /// The item is not part of the conversation any more.
    Void(Void),
    /// The item ended in another way than whole, or such an end was corrected.
    Ended(Ended),
}

/// The cause that made an item void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Void {
    /// Its model call was repeated.
    Superseded,
    /// The agent took it back.
    Removed,
}

/// How an item ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its state.
    pub state: ItemState,
    /// A short reason.
    pub reason: Option<String>,
    /// Some of it may be missing.
    pub incomplete: bool,
    /// The error class or event that caused the end.
    pub caused_by: Option<String>,
}

impl Tag {
    /// True when there is nothing to say.
    pub fn is_empty(&self) -> bool {
        let Self { parent, session, parent_session, synthetic, tool, mark } = self;
        parent.is_none()
            && session.is_none()
            && parent_session.is_none()
            && !synthetic
            && tool.is_none()
            && mark.is_none()
    }

    pub(super) fn marked(mut self, mark: Mark) -> Self {
        self.mark = Some(Box::new(mark));
        self
    }

    /// The whole `_meta`; none when there is nothing to say.
    pub(super) fn to_meta(&self) -> Option<Meta> {
        if self.is_empty() { None } else { meta(self) }
    }
}

/// `_meta` with this value under our key.
pub(super) fn meta(value: &impl Serialize) -> Option<Meta> {
    // Maps with string keys, strings and numbers: serde_json refuses none of them.
    let value = serde_json::to_value(value).ok()?;
    Some(Meta::from_iter([(KEY.to_owned(), value)]))
}

impl Void {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Superseded => "superseded",
            Self::Removed => "removed",
        }
    }
}

impl Ended {
    /// Nothing is missing and nothing went wrong.
    pub fn is_whole(&self) -> bool {
        self.state == ItemState::Completed && !self.incomplete
    }
}

impl Serialize for Tag {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { parent, session, parent_session, synthetic, tool, mark } = self;
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "parent", parent)?;
        entry(&mut map, "session", session)?;
        entry(&mut map, "parentSession", parent_session)?;
        if *synthetic {
            map.serialize_entry("synthetic", &true)?;
        }
        entry(&mut map, "tool", tool)?;
        match mark.as_deref() {
            None => {}
            Some(Mark::Delta { field, text }) => map.serialize_entry("delta", &FieldText { field, text })?,
            Some(Mark::Replace { field, text }) => {
                map.serialize_entry("replace", &FieldText { field, text })?;
            }
            Some(Mark::Void(void)) => map.serialize_entry("void", void.as_str())?,
            Some(Mark::Ended(ended)) => map.serialize_entry("ended", ended)?,
        }
        map.end()
    }
}

#[derive(serde::Serialize)]
struct FieldText<'a> {
    field: &'a Field,
    text: &'a str,
}

impl Serialize for Ended {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { state, reason, incomplete, caused_by } = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("state", state)?;
        entry(&mut map, "reason", reason)?;
        if *incomplete {
            map.serialize_entry("incomplete", &true)?;
        }
        entry(&mut map, "causedBy", caused_by)?;
        map.end()
    }
}

/// A member that is left out when it is not there.
pub(super) fn entry<M: SerializeMap, T: Serialize>(
    map: &mut M,
    member: &'static str,
    value: &Option<T>,
) -> Result<(), M::Error> {
    match value {
        Some(value) => map.serialize_entry(member, value),
        None => Ok(()),
    }
}
