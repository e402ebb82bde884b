//! Prompts as messages of the user.
//!
//! A client of AG-UI has ids for its messages, and sends what its page shows beside them. Both are marked in
//! `_meta` of the prompt's blocks, so that every client gets the messages as they were.

use serde_json::{Value, json};
use turnstream_model::fold::Prompt;

/// What a block of a prompt is to AG-UI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark<'a> {
    /// The first block of a message that has this id at the client.
    Message(&'a str),
    /// Told by the page, and no part of a message.
    Context,
}

/// Marks a block.
pub fn mark(block: &mut Value, mark: Mark<'_>) {
    block["_meta"] = match mark {
        Mark::Message(id) => json!({"turnstream": {"message": id}}),
        Mark::Context => json!({"turnstream": {"context": true}}),
    };
}

fn mark_of(block: &Value) -> Option<Mark<'_>> {
    let marks = &block["_meta"]["turnstream"];
    if marks["context"] == true {
        return Some(Mark::Context);
    }
    marks["message"].as_str().filter(|id| !id.is_empty()).map(Mark::Message)
}

/// The client's ids of the messages in a prompt.
pub fn message_ids(prompt: &Prompt) -> impl Iterator<Item = &str> {
    prompt.content.iter().filter_map(|block| match mark_of(block) {
        Some(Mark::Message(id)) => Some(id),
        Some(Mark::Context) | None => None,
    })
}

/// A prompt as messages of the user: usually one. One without an id of the client's has that of the prompt.
pub fn prompt_messages(prompt: &Prompt) -> Vec<Value> {
    let messages = parts(prompt).into_iter();
    messages.map(|(id, text)| json!({"id": id, "role": "user", "content": text})).collect()
}

/// The ids and the texts of the messages in a prompt. Blocks without text are named in brackets.
pub(super) fn parts(prompt: &Prompt) -> Vec<(&str, String)> {
    let mut parts: Vec<(&str, Vec<&Value>)> = Vec::new();
    for block in &prompt.content {
        match (mark_of(block), parts.last_mut()) {
            (Some(Mark::Context), _) => {}
            (Some(Mark::Message(id)), _) => parts.push((id, vec![block])),
            (None, Some((_, blocks))) => blocks.push(block),
            (None, None) => parts.push((prompt.prompt.as_str(), vec![block])),
        }
    }
    if parts.is_empty() {
        parts.push((prompt.prompt.as_str(), Vec::new()));
    }
    let text = |blocks: Vec<&Value>| blocks.into_iter().map(text_of).collect::<Vec<_>>().join("\n");
    parts.into_iter().map(|(id, blocks)| (id, text(blocks))).collect()
}

fn text_of(block: &Value) -> String {
    match block["type"].as_str() {
        Some("text") => block["text"].as_str().unwrap_or_default().to_owned(),
        Some("resource_link") => block["uri"].as_str().unwrap_or_default().to_owned(),
        other => format!("[{}]", other.unwrap_or("content")),
    }
}
