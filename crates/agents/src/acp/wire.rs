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
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Value")]
pub(super) struct RpcError {
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Option<Value>,
}

/// The members of a message's parameters, read as a value. Empty if they are no object.
pub(super) fn params(line: &[u8]) -> Map<String, Value> {
    let message: Option<Value> = turnstream_json::from_slice(line).ok();
    object(message.and_then(|mut message| message.get_mut("params").map(Value::take)))
}

/// A text member that is not empty.
pub(super) fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    members.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The members of an object without those that are known.
pub(super) fn others(object: &Value, known: &[&str]) -> Map<String, Value> {
    let members = object.as_object().into_iter().flatten();
    let others = members.filter(|(name, _)| !known.contains(&name.as_str()));
    others.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn object(value: Option<Value>) -> Map<String, Value> {
    match value {
        Some(Value::Object(members)) => members,
        Some(_) | None => Map::new(),
    }
}

fn take_text(members: &mut Map<String, Value>, name: &str) -> Option<String> {
    match members.remove(name) {
        Some(Value::String(text)) => Some(text),
        Some(_) | None => None,
    }
}

// === impl Message ===

impl Message<'_> {
    /// Reads a message. A member may have another type than in ACP, also one that belongs to an extension:
    /// the others are still read.
    pub(super) fn read(line: &[u8]) -> Option<Message<'_>> {
        turnstream_json::from_slice(line).ok().or_else(|| Self::read_loosely(line))
    }

    fn read_loosely(line: &[u8]) -> Option<Message<'static>> {
        let Ok(Value::Object(mut message)) = turnstream_json::from_slice(line) else { return None };
        let mut params = object(message.remove("params"));
        let mut update = object(params.remove("update"));
        let message_id = update.remove("messageId").filter(|id| !id.is_null()).map(|id| match id {
            Value::String(id) => id,
            other => other.to_string(),
        });
        let content = match update.remove("content") {
            Some(Value::Object(mut block)) => Content::Block(Block {
                kind: take_text(&mut block, "type").unwrap_or_default().into(),
                text: take_text(&mut block, "text").map(Piece::whole),
            }),
            Some(_) | None => Content::Other,
        };
        let update = Update {
            session_update: take_text(&mut update, "sessionUpdate").unwrap_or_default().into(),
            message_id: message_id.map(Cow::from),
            content,
        };
        let session_id = take_text(&mut params, "sessionId").unwrap_or_default().into();
        let mut member = |name: &str| message.remove(name).filter(|value| !value.is_null());
        Some(Message {
            id: member("id"),
            result: member("result"),
            error: member("error").map(RpcError::from),
            method: take_text(&mut message, "method").unwrap_or_default().into(),
            params: Some(Params { session_id, update }),
        })
    }
}

// === impl RpcError ===

impl From<Value> for RpcError {
    /// An error without a number or without a message is shown as it is.
    fn from(error: Value) -> Self {
        let code = error.get("code").and_then(Value::as_i64);
        let message = error.get("message").and_then(Value::as_str).filter(|_| code.is_some());
        let message = message.map_or_else(|| error.to_string(), str::to_owned);
        let data = error.get("data").filter(|data| !data.is_null()).cloned();
        Self { code: code.unwrap_or_default(), message, data }
    }
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
