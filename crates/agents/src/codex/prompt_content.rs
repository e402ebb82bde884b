//! Converts the ACP content blocks of a prompt into the input of Codex.

use serde_json::{Value, json};
use turnstream_adapter::RefusedBlock;

/// The block types that Codex takes.
const TAKES: &[&str] = &["text", "image", "resource_link", "resource"];

/// The content of a prompt in the agent's form.
pub(super) fn input(blocks: &[Value]) -> Result<Vec<Value>, RefusedBlock> {
    blocks.iter().map(block).collect()
}

/// Refuses a content block that Codex cannot take.
pub(super) fn check(content: &Value) -> Result<(), RefusedBlock> {
    block(content).map(drop)
}

fn block(block: &Value) -> Result<Value, RefusedBlock> {
    let word = |member: &str| block[member].as_str();
    let kind = word("type").unwrap_or_default();
    let input = match kind {
        "text" => word("text").map(text),
        "image" => match (word("data").filter(|data| !data.is_empty()), word("mimeType")) {
            (Some(data), Some(mime)) => Some(image(mime, data)),
            _ => word("uri")
                .filter(|uri| uri.starts_with("https://") || uri.starts_with("http://"))
                .map(|url| json!({"type": "image", "url": url})),
        },
        "resource_link" => word("uri").map(|uri| text(&format!("[@{}]({uri})", word("name").unwrap_or(uri)))),
        "resource" => resource(&block["resource"]),
        _ => None,
    };
    input.ok_or_else(|| RefusedBlock::Unsupported { agent: "codex", kind: kind.to_owned(), takes: TAKES })
}

/// An embedded resource: text with its URI, or an image.
fn resource(resource: &Value) -> Option<Value> {
    let word = |member: &str| resource[member].as_str();
    if let Some(content) = word("text") {
        let uri = word("uri")?;
        return Some(text(&format!("<resource uri=\"{uri}\">\n{content}\n</resource>")));
    }
    let (mime, data) = (word("mimeType")?, word("blob")?);
    mime.starts_with("image/").then(|| image(mime, data))
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text, "text_elements": []})
}

fn image(mime: &str, data: &str) -> Value {
    json!({"type": "image", "url": format!("data:{mime};base64,{data}")})
}
