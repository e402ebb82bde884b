//! The parts of a user's message as the content of a prompt, in blocks of ACP.

use super::answer::Failure;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

/// The blocks of a message. What an agent would not get is refused.
pub(super) fn blocks(message: &Value) -> Result<Vec<Value>, Failure> {
    let parts = message["parts"].as_array().ok_or_else(|| Failure::bad("the message has no `parts`"))?;
    let blocks = parts.iter().map(block).collect::<Result<Vec<Value>, Failure>>()?;
    if blocks.is_empty() {
        return Err(Failure::bad("the message is empty"));
    }
    Ok(blocks)
}

fn block(part: &Value) -> Result<Value, Failure> {
    let word = |member: &str| part[member].as_str().unwrap_or_default();
    match word("type") {
        "text" => Ok(json!({"type": "text", "text": word("text")})),
        "file" => file(word("mediaType"), word("url"), part["filename"].as_str()),
        other => Err(Failure::bad(format!(
            "a message may have parts of type text and file; agents get nothing of type {other:?}"
        ))),
    }
}

fn file(media_type: &str, url: &str, name: Option<&str>) -> Result<Value, Failure> {
    let name = name.unwrap_or("file");
    let Some((_, data)) = url.strip_prefix("data:").and_then(|data| data.split_once(";base64,")) else {
        return Ok(json!({"type": "resource_link", "uri": url, "name": name, "mimeType": media_type}));
    };
    if media_type.starts_with("image/") {
        return Ok(json!({"type": "image", "mimeType": media_type, "data": data}));
    }
    let text = BASE64_STANDARD.decode(data).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let text =
        text.ok_or_else(|| Failure::bad(format!("{name} ({media_type}) is neither a text nor an image")))?;
    let resource = json!({"uri": format!("attachment:{name}"), "mimeType": media_type, "text": text});
    Ok(json!({"type": "resource", "resource": resource}))
}

#[cfg(test)]
mod tests {
    use super::blocks;
    use serde_json::json;

    #[test]
    fn texts_images_and_files_become_blocks_and_the_rest_is_refused() {
        let message = json!({"parts": [
            {"type": "text", "text": "Look"},
            {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"},
            {"type": "file", "mediaType": "text/plain", "filename": "a.txt", "url": "data:text/plain;base64,aGk="},
            {"type": "file", "mediaType": "text/html", "filename": "b", "url": "https://example.com/b"},
        ]});
        let wanted = json!([
            {"type": "text", "text": "Look"},
            {"type": "image", "mimeType": "image/png", "data": "AAAA"},
            {"type": "resource", "resource": {"uri": "attachment:a.txt", "mimeType": "text/plain", "text": "hi"}},
            {"type": "resource_link", "uri": "https://example.com/b", "name": "b", "mimeType": "text/html"},
        ]);
        assert_eq!(json!(blocks(&message).unwrap()), wanted);
        for odd in [json!({}), json!({"parts": []}), json!({"parts": [{"type": "data-x", "data": 1}]})] {
            assert!(blocks(&odd).is_err(), "{odd}");
        }
    }
}
