//! A completion that was not streamed, although it was asked for as a stream.
//!
//! It was billed, and nothing of it is lost. So it is read: as a stream of few events.

use crate::head::Format;
use serde_json::{Value, json};
use std::fmt::Write;

/// The events of a complete answer in one JSON document; `None` if it is something else.
pub(crate) fn as_stream(format: Format, body: &[u8]) -> Option<String> {
    let mut document: Value = turnstream_json::from_slice(body).ok()?;
    if document.get("error").is_some_and(|error| !error.is_null()) {
        return None;
    }
    let mut stream = String::new();
    match format {
        Format::Chat => {
            for choice in document.get_mut("choices")?.as_array_mut()? {
                choice["finish_reason"].as_str()?;
                let message = choice.as_object_mut()?.remove("message")?;
                choice["delta"] = message;
            }
            event(&mut stream, &document);
            stream.push_str("data: [DONE]\n\n");
        }
        Format::Messages => messages(&document, &mut stream)?,
        Format::Responses => {
            let kind = match document["status"].as_str()? {
                "completed" => "response.completed",
                "incomplete" => "response.incomplete",
                _ => return None,
            };
            document["output"].as_array()?;
            let opening = json!({"id": document["id"], "model": document["model"],
                "created_at": document["created_at"]});
            event(&mut stream, &json!({"type": "response.created", "response": opening}));
            event(&mut stream, &json!({"type": kind, "response": document}));
        }
    }
    Some(stream)
}

fn messages(document: &Value, stream: &mut String) -> Option<()> {
    let blocks = document["content"].as_array()?;
    let reason = document["stop_reason"].as_str()?;
    event(
        stream,
        &json!({"type": "message_start", "message": {"id": document["id"],
        "model": document["model"], "usage": document["usage"]}}),
    );
    for (index, block) in blocks.iter().enumerate() {
        event(stream, &json!({"type": "content_block_start", "index": index, "content_block": block}));
        event(stream, &json!({"type": "content_block_stop", "index": index}));
    }
    event(stream, &json!({"type": "message_delta", "delta": {"stop_reason": reason}}));
    event(stream, &json!({"type": "message_stop"}));
    Some(())
}

fn event(stream: &mut String, payload: &Value) {
    // Writing to a string does not fail.
    let _ = write!(stream, "data: {payload}\n\n");
}
