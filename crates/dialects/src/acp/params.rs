//! Parameters of the `_turnstream/…` methods. Each begins with `sessionId`.

use super::asks::Question;
use super::event::{EndedItem, ItemNews, ItemNote, Notice, Revision};
use super::tag::entry;
use serde::ser::{Serialize, SerializeMap, Serializer};
use turnstream_model::event::Status;
use turnstream_model::id::{PromptId, TurnId};

/// The members after `sessionId`.
pub(super) trait Members {
    fn members<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

/// The params of one message.
pub(super) struct Params<'a, T> {
    pub(super) session: &'a str,
    pub(super) rest: &'a T,
}

impl<T: Members> Serialize for Params<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("sessionId", self.session)?;
        self.rest.members(&mut map)?;
        map.end()
    }
}

/// Nothing but the session.
pub(super) struct NoMembers;

impl Members for NoMembers {
    fn members<M: SerializeMap>(&self, _: &mut M) -> Result<(), M::Error> {
        Ok(())
    }
}

/// One member and its text.
pub(super) struct SingleMember<'a>(pub(super) &'static str, pub(super) &'a str);

impl Members for SingleMember<'_> {
    fn members<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry(self.0, self.1)
    }
}

/// A terminator, for clients that did not send the prompt.
pub(super) struct TurnEnded<'a, T> {
    pub(super) turn: Option<&'a TurnId>,
    pub(super) prompts: &'a [PromptId],
    /// `result` or `error`, as in the answer to a prompt.
    pub(super) member: &'static str,
    pub(super) value: &'a T,
}

impl<T: Serialize> Members for TurnEnded<'_, T> {
    fn members<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        entry(map, "turn", &self.turn)?;
        map.serialize_entry("prompts", self.prompts)?;
        map.serialize_entry(self.member, self.value)
    }
}

impl Members for Status {
    fn members<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("status", self.as_str())?;
        match self {
            Self::Idle | Self::Busy | Self::Waiting | Self::Recovering => Ok(()),
            Self::Retrying { attempt, reason, until, message } => {
                entry(map, "attempt", attempt)?;
                entry(map, "reason", reason)?;
                entry(map, "until", until)?;
                entry(map, "message", message)
            }
        }
    }
}

impl Members for Notice {
    fn members<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let Self { code, message, detail, turn, item } = self;
        map.serialize_entry("code", code)?;
        map.serialize_entry("message", message)?;
        entry(map, "detail", detail)?;
        entry(map, "turn", turn)?;
        entry(map, "item", item)
    }
}

impl Members for ItemNote {
    fn members<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let Self { item, kind, tag, news } = self;
        map.serialize_entry("item", item)?;
        map.serialize_entry("kind", kind)?;
        match news {
            ItemNews::Started => map.serialize_entry("news", "started")?,
            ItemNews::Moved => map.serialize_entry("news", "moved")?,
            ItemNews::Delta(text) => {
                map.serialize_entry("news", "delta")?;
                map.serialize_entry("text", text)?;
            }
            ItemNews::Replaced(text) => {
                map.serialize_entry("news", "replaced")?;
                map.serialize_entry("text", text)?;
            }
            ItemNews::Ended(ended) => {
                map.serialize_entry("news", "ended")?;
                map.serialize_entry("ended", ended)?;
            }
            ItemNews::Void(void) => {
                map.serialize_entry("news", "void")?;
                map.serialize_entry("void", void.as_str())?;
            }
        }
        entry(map, "_meta", &tag.to_meta())
    }
}

impl Members for Revision {
    fn members<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let Self { item, was, turn, state, text, tool, void } = self;
        map.serialize_entry("item", item)?;
        if let Some(EndedItem { kind, role, parent, state: _ }) = was {
            map.serialize_entry("kind", kind)?;
            entry(map, "role", role)?;
            entry(map, "parent", parent)?;
        }
        entry(map, "turn", turn)?;
        entry(map, "state", state)?;
        entry(map, "text", text)?;
        entry(map, "toolCall", tool)?;
        entry(map, "void", &void.map(|void| void.as_str()))
    }
}

impl Members for Question {
    fn members<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let Self { question, item, questions } = self;
        map.serialize_entry("question", question)?;
        entry(map, "toolCallId", item)?;
        map.serialize_entry("questions", questions)
    }
}
