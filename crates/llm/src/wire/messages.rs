//! An event of the messages format.

use super::members::read_members;
use super::{Str, filled};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(crate) kind: Option<Str<'a>>,
    #[serde(default)]
    pub(crate) index: Option<u32>,
    #[serde(borrow, default)]
    pub(crate) message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    pub(crate) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) error: Option<&'a RawValue>,
}

/// A delta of a block or of the message.
#[derive(Debug, Default)]
pub(crate) struct Delta<'a> {
    pub(crate) r#type: Option<Str<'a>>,
    pub(crate) text: Option<Str<'a>>,
    pub(crate) thinking: Option<Str<'a>>,
    pub(crate) signature: Option<Str<'a>>,
    pub(crate) partial_json: Option<Str<'a>>,
    pub(crate) stop_reason: Option<Str<'a>>,
    /// Whether an unknown member has content.
    pub(crate) has_unknown: bool,
}

read_members!(Delta { r#type, text, thinking, signature, partial_json, stop_reason } []);

impl Delta<'_> {
    /// Whether something with content is not read of the delta of a block.
    pub(crate) fn has_unread(&self) -> bool {
        let has_both = filled(&self.text).is_some() && filled(&self.thinking).is_some();
        self.has_unknown || has_both || filled(&self.stop_reason).is_some()
    }
}

/// The raw delta of an event.
#[derive(Debug, Deserialize)]
pub(crate) struct RawDelta<'a> {
    #[serde(borrow, default)]
    pub(crate) delta: Option<&'a RawValue>,
}

/// The message of `message_start`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Message<'a> {
    #[serde(borrow, default)]
    pub(crate) id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) model: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) usage: Option<&'a RawValue>,
}

/// The block of `content_block_start`.
#[derive(Debug, Deserialize)]
pub(crate) struct Block<'a> {
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Str<'a>,
    #[serde(borrow, default)]
    pub(crate) text: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) thinking: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) signature: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) data: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) name: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) input: Option<&'a RawValue>,
}
