//! The JSON-RPC messages of an ACP agent, as far as the adapter reads them at first sight. Text chunks are by
//! far the most frequent message, so they are read without a copy. Everything else is read again as a value.

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;
use turnstream_json::Piece;

/// One message: a request, a notification, or a response.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Message<'a> {
    pub(super) id: Option<Value>,
    #[serde(borrow)]
    pub(super) method: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) params: Option<Params<'a>>,
    pub(super) result: Option<Value>,
    pub(super) error: Option<RpcError>,
}

/// The parameters of a `session/update`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Params<'a> {
    #[serde(borrow)]
    pub(super) session_id: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) update: Update<'a>,
}

/// What a `session/update` says, if it is a text chunk.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Update<'a> {
    #[serde(borrow)]
    pub(super) session_update: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) message_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) content: Content<'a>,
}

/// The content of an update.
#[derive(Default)]
pub(super) enum Content<'a> {
    /// A content block.
    Block(Block<'a>),
    /// Something else, for example the list of a tool call.
    #[default]
    Other,
}

/// A content block.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Block<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) text: Option<Piece<'a>>,
}

/// The error of a response.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RpcError {
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Option<Value>,
}

/// The members of a message's parameters, read as a value. Empty if they are no object.
pub(super) fn params(line: &[u8]) -> Map<String, Value> {
    match turnstream_json::from_slice::<Value>(line) {
        Ok(mut message) => match message.get_mut("params").map(Value::take) {
            Some(Value::Object(params)) => params,
            Some(_) | None => Map::new(),
        },
        Err(_) => Map::new(),
    }
}

/// A text member that is not empty.
pub(super) fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    members.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

// === impl Content ===

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a content block, or a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, block: A) -> Result<Content<'de>, A::Error> {
        Block::deserialize(MapAccessDeserializer::new(block)).map(Content::Block)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Content<'de>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Content::Other)
    }

    fn visit_unit<E: Error>(self) -> Result<Content<'de>, E> {
        Ok(Content::Other)
    }

    fn visit_str<E: Error>(self, _text: &str) -> Result<Content<'de>, E> {
        Ok(Content::Other)
    }
}
