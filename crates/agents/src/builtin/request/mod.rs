//! Writes the request of a model call, in each wire format. Pure.

mod chat;
mod messages;
mod responses;

use super::history::Entry;
use serde_json::{Value, map};
use turnstream_adapter::RefusedBlock;
use turnstream_llm::Format;

/// The block types that the agent takes.
const TAKES: &[&str] = &["text", "image", "resource_link", "resource"];

/// What a request is made of.
pub(super) struct Request<'a> {
    pub(super) model: &'a str,
    pub(super) system: &'a str,
    pub(super) entries: &'a [Entry<'a>],
    /// The most tokens of the answer. The messages format needs a number.
    pub(super) most_output: Option<u64>,
}

/// One part of a prompt.
pub(super) enum PromptPart<'a> {
    Text(String),
    Image { mime: &'a str, data: &'a str },
}

impl Request<'_> {
    /// The body in this format.
    pub(super) fn body(&self, format: Format) -> Value {
        match format {
            Format::Chat => chat::body(self),
            Format::Responses => responses::body(self),
            Format::Messages => messages::body(self),
        }
    }
}

/// Refuses a content block that the agent cannot take.
pub(super) fn check_block(block: &Value) -> Result<(), RefusedBlock> {
    let kind = block["type"].as_str().unwrap_or_default().to_owned();
    let refused = RefusedBlock::Unsupported { agent: "builtin", kind, takes: TAKES };
    part(block).map(drop).ok_or(refused)
}

/// The parts of a prompt. Blocks were checked before the prompt was accepted.
fn parts(content: &[Value]) -> Vec<PromptPart<'_>> {
    content.iter().filter_map(part).collect()
}

fn part(block: &Value) -> Option<PromptPart<'_>> {
    let word = |member: &str| block[member].as_str();
    match word("type")? {
        "text" => word("text").map(|text| PromptPart::Text(text.to_owned())),
        "image" => Some(PromptPart::Image {
            mime: word("mimeType")?,
            data: word("data").filter(|data| !data.is_empty())?,
        }),
        "resource_link" => {
            let uri = word("uri")?;
            Some(PromptPart::Text(format!("[@{}]({uri})", word("name").unwrap_or(uri))))
        }
        "resource" => {
            let (uri, text) = (block["resource"]["uri"].as_str()?, block["resource"]["text"].as_str()?);
            Some(PromptPart::Text(format!("<resource uri=\"{uri}\">\n{text}\n</resource>")))
        }
        _ => None,
    }
}

/// Adds the members of JSON objects that were received beside an item. Members that are there stay.
fn add_unread(object: &mut Value, unread: &[String]) {
    for raw in unread {
        if let Ok(more) = turnstream_json::from_str(raw) {
            add_members(object, more);
        }
    }
}

/// Adds members that are not there, also inside of objects that both have, such as the function of a call.
fn add_members(object: &mut Value, more: Value) {
    let (Value::Object(members), Value::Object(more)) = (object, more) else { return };
    for (name, value) in more {
        match members.entry(name) {
            map::Entry::Occupied(mut there) => add_members(there.get_mut(), value),
            map::Entry::Vacant(free) => drop(free.insert(value)),
        }
    }
}
