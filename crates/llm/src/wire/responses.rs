//! An event of the responses format. Message parts, and the items of a complete response, are parsed on
//! demand.

use super::{Count, Loose, Str};
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(crate) kind: Option<Str<'a>>,
    #[serde(default)]
    pub(crate) sequence_number: Option<u64>,
    #[serde(default)]
    pub(crate) output_index: Option<u32>,
    #[serde(borrow, default)]
    pub(crate) item_id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) delta: Option<Loose<'a>>,
    #[serde(borrow, default)]
    pub(crate) response: Option<Box<Response<'a>>>,
    #[serde(borrow, default)]
    pub(crate) item: Option<Box<Item<'a>>>,
    #[serde(borrow, default)]
    pub(crate) error: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Response<'a> {
    #[serde(borrow, default)]
    pub(crate) id: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) model: Option<Str<'a>>,
    #[serde(default)]
    pub(crate) created_at: Count,
    #[serde(borrow, default)]
    pub(crate) incomplete_details: Option<Details<'a>>,
    #[serde(borrow, default)]
    pub(crate) error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) output: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    pub(crate) usage: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Details<'a> {
    #[serde(borrow, default)]
    pub(crate) reason: Option<Str<'a>>,
}

/// The raw item of an event.
#[derive(Debug, Deserialize)]
pub(crate) struct RawItem<'a> {
    #[serde(borrow, default)]
    pub(crate) item: Option<&'a RawValue>,
}

/// The known members of an item. Members of unknown kinds may have any shape.
#[derive(Debug, Deserialize)]
pub(crate) struct Item<'a> {
    #[serde(borrow, rename = "type")]
    pub(crate) kind: Str<'a>,
    #[serde(borrow, default)]
    pub(crate) id: Option<Loose<'a>>,
    #[serde(borrow, default)]
    pub(crate) status: Option<Loose<'a>>,
    #[serde(borrow, default)]
    pub(crate) name: Option<Loose<'a>>,
    #[serde(borrow, default)]
    pub(crate) call_id: Option<Loose<'a>>,
    #[serde(borrow, default)]
    pub(crate) arguments: Option<Loose<'a>>,
    #[serde(borrow, default)]
    pub(crate) input: Option<Loose<'a>>,
    #[serde(borrow, default)]
    pub(crate) encrypted_content: Option<Loose<'a>>,
    #[serde(borrow, default)]
    pub(crate) content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) summary: Option<&'a RawValue>,
}

/// A part of a message or of reasoning.
#[derive(Debug, Deserialize)]
pub(crate) struct Part<'a> {
    #[serde(borrow, default)]
    pub(crate) text: Option<Str<'a>>,
    #[serde(borrow, default)]
    pub(crate) refusal: Option<Str<'a>>,
}

/// The text of a loose member; `None` if it is missing or empty.
pub(crate) fn text_of<'s>(member: &'s Option<Loose<'_>>) -> Option<&'s str> {
    let text = member.as_ref().and_then(|loose| loose.0.as_deref());
    text.filter(|text| !text.is_empty())
}
