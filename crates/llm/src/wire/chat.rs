//! A chunk of chat completions, with members that compatible APIs add.

use super::members::read_members;
use super::{Count, Loose, ShortList, Str};
use serde::Deserialize;
use serde::de::{
    Deserializer, Error, IgnoredAny, SeqAccess, Unexpected, Visitor, value::SeqAccessDeserializer,
};
use serde_json::value::RawValue;
use std::fmt;
use turnstream_json::PIECE;

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(crate) id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) object: Option<Str<'a>>,
    #[serde(default)]
    pub(crate) created: Count,
    #[serde(borrow, default)]
    pub(crate) model: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) system_fingerprint: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) choices: Choices<'a>,
    #[serde(borrow, default)]
    pub(crate) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) x_groq: Option<Box<XGroq<'a>>>,
    #[serde(borrow, default)]
    pub(crate) error: Option<&'a RawValue>,
}

/// Empty and null both mean that there is no delta (cline #8384). Only null is counted as a repair.
#[derive(Debug, Default)]
pub(crate) enum Choices<'a> {
    #[default]
    Absent,
    Null,
    Of(ShortList<Choice<'a>>),
}

#[derive(Debug, Deserialize)]
pub(crate) struct XGroq<'a> {
    #[serde(borrow, default)]
    pub(crate) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) error: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Choice<'a> {
    #[serde(default)]
    pub(crate) index: Option<u32>,
    #[serde(borrow, default)]
    pub(crate) delta: Option<Delta<'a>>,
    /// Present in an answer that is not streamed.
    #[serde(default)]
    pub(crate) message: Option<IgnoredAny>,
    /// Present in completions of the API before chat.
    #[serde(borrow, default)]
    pub(crate) text: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) finish_reason: Option<Str<'a>>,
    /// Moonshot puts the usage here.
    #[serde(borrow, default)]
    pub(crate) usage: Option<&'a RawValue>,
}

#[derive(Debug, Default)]
pub(crate) struct Delta<'a> {
    pub(crate) role: Option<Str<'a>>,
    pub(crate) content: Option<Content<'a>>,
    pub(crate) reasoning_content: Option<Str<'a>>,
    pub(crate) reasoning: Option<Str<'a>>,
    pub(crate) reasoning_details: Option<&'a RawValue>,
    pub(crate) refusal: Option<Str<'a>>,
    pub(crate) tool_calls: Option<ShortList<ToolDelta<'a>>>,
    /// The predecessor of `tool_calls`.
    pub(crate) function_call: Option<Box<FunctionDelta<'a>>>,
    /// Whether an unknown member has content.
    pub(crate) has_unknown: bool,
}

/// Text, or a list of parts. Mistral sends reasoning as parts.
#[derive(Debug)]
pub(crate) enum Content<'a> {
    Text(Str<'a>),
    Parts(ShortList<Part<'a>>),
}

#[derive(Debug, Default)]
pub(crate) struct Part<'a> {
    pub(crate) text: Option<Str<'a>>,
    pub(crate) thinking: Option<Content<'a>>,
    /// Whether its kind is unknown, or an unknown member has content.
    pub(crate) has_unknown: bool,
}

#[derive(Debug, Default)]
pub(crate) struct ToolDelta<'a> {
    pub(crate) index: Option<u32>,
    pub(crate) id: Option<Str<'a>>,
    pub(crate) function: Option<FunctionDelta<'a>>,
    /// Whether an unknown member has content.
    pub(crate) has_unknown: bool,
}

#[derive(Debug, Default)]
pub(crate) struct FunctionDelta<'a> {
    pub(crate) name: Option<Str<'a>>,
    pub(crate) arguments: Option<Str<'a>>,
    /// Whether an unknown member has content.
    pub(crate) has_unknown: bool,
}

/// One entry of `reasoning_details`: the members that are shown.
#[derive(Debug, Deserialize)]
pub(crate) struct Detail<'a> {
    #[serde(borrow, default)]
    pub(crate) text: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) summary: Option<Str<'a>>,
}

impl<'a> Choices<'a> {
    pub(crate) fn list(&self) -> &[Choice<'a>] {
        match self {
            Self::Absent | Self::Null => &[],
            Self::Of(choices) => choices.as_slice(),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Choices<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self::Null, Self::Of))
    }
}

impl Delta<'_> {
    /// Whether something with content is not read, in the delta, its parts or its calls.
    pub(crate) fn has_unread(&self) -> bool {
        let calls = self.tool_calls.as_ref().map_or(&[][..], ShortList::as_slice);
        self.has_unknown
            || self.content.as_ref().is_some_and(Content::has_unread)
            || calls.iter().any(ToolDelta::has_unread)
            || self.function_call.as_ref().is_some_and(|function| function.has_unknown)
    }
}

impl Content<'_> {
    /// Whether something with content is not read of its parts.
    pub(crate) fn has_unread(&self) -> bool {
        match self {
            Self::Text(_) => false,
            Self::Parts(parts) => parts.as_slice().iter().any(Part::has_unread),
        }
    }
}

impl ToolDelta<'_> {
    fn has_unread(&self) -> bool {
        self.has_unknown || self.function.as_ref().is_some_and(|function| function.has_unknown)
    }
}

impl Part<'_> {
    fn has_unread(&self) -> bool {
        self.has_unknown || self.thinking.as_ref().is_some_and(Content::has_unread)
    }
}

read_members!(Delta {
    role, content, reasoning_content, reasoning, reasoning_details, refusal, tool_calls, function_call,
} []);
read_members!(Part { text, thinking } [r#type: is_known_kind]);
read_members!(FunctionDelta { name, arguments } []);
read_members!(ToolDelta { index, id, function } [r#type: |_| true]);

/// Whether the `type` of a part is known. A part without one is known by its members.
fn is_known_kind(kind: &Option<Loose<'_>>) -> bool {
    match kind {
        Some(Loose(kind)) => matches!(kind.as_deref(), Some("text" | "thinking")),
        None => true,
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentVisitor;

        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = Content<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of parts")
            }

            #[inline]
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Content::Text(Str::whole(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Content::Text(Str::whole(text.to_owned())))
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
                let text = Str::from_wtf8(bytes).map(Content::Text);
                text.ok_or_else(|| E::invalid_value(Unexpected::Bytes(bytes), &self))
            }

            #[inline]
            fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Self::Value, D::Error> {
                inner.deserialize_any(self)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                Ok(Content::Parts(ShortList::deserialize(SeqAccessDeserializer::new(seq))?))
            }
        }

        deserializer.deserialize_newtype_struct(PIECE, ContentVisitor)
    }
}
