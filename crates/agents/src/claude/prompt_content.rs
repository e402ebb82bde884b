//! Converts the ACP content blocks of a prompt into the content blocks of Claude Code.

use serde_json::{Value, json};
use turnstream_adapter::RefusedBlock;

/// The block types that Claude Code takes.
const TAKES: &[&str] = &["text", "image", "resource_link", "resource"];

/// The content of a prompt in the agent's form.
pub(super) fn content(blocks: &[Value]) -> Result<Vec<Value>, RefusedBlock> {
    blocks.iter().map(block).collect()
}

/// Refuses a content block that Claude Code cannot take.
pub(super) fn check(content: &Value) -> Result<(), RefusedBlock> {
    block(content).map(drop)
}

fn block(block: &Value) -> Result<Value, RefusedBlock> {
    let text = |member: &str| block[member].as_str();
    let kind = text("type").unwrap_or_default();
    let content = match kind {
        "text" => text("text").map(|text| json!({"type": "text", "text": text})),
        "image" => match (text("data").filter(|data| !data.is_empty()), text("mimeType")) {
            (Some(data), Some(mime)) => Some(file("image", mime, data)),
            _ => text("uri")
                .filter(|uri| uri.starts_with("https://") || uri.starts_with("http://"))
                .map(|url| json!({"type": "image", "source": {"type": "url", "url": url}})),
        },
        "resource_link" => text("uri").map(|uri| {
            let name = text("name").unwrap_or(uri);
            json!({"type": "text", "text": format!("[@{name}]({uri})")})
        }),
        "resource" => resource(&block["resource"]),
        _ => None,
    };
    content.ok_or_else(|| RefusedBlock::Unsupported { agent: "claude", kind: kind.to_owned(), takes: TAKES })
}

/// An embedded resource: text with its URI, an image or a PDF.
fn resource(resource: &Value) -> Option<Value> {
    let text = |member: &str| resource[member].as_str();
    if let Some(content) = text("text") {
        let uri = text("uri")?;
        return Some(
            json!({"type": "text", "text": format!("<resource uri=\"{uri}\">\n{content}\n</resource>")}),
        );
    }
    let (mime, data) = (text("mimeType")?, text("blob")?);
    match mime {
        "application/pdf" => Some(file("document", mime, data)),
        _ if mime.starts_with("image/") => Some(file("image", mime, data)),
        _ => None,
    }
}

fn file(kind: &str, mime: &str, data: &str) -> Value {
    json!({"type": kind, "source": {"type": "base64", "media_type": mime, "data": data}})
}
