//! The format of messages.

use super::{PromptPart, Request, parts};
use crate::builtin::history::{Entry, call_id};
use crate::builtin::journal::{Content, Item, Kept, Step};
use crate::builtin::tools::definitions;
use serde_json::{Value, json};

/// The most tokens of an answer, if none is configured. The format needs a number.
const MOST_OUTPUT: u64 = 16_384;

pub(super) fn body(request: &Request<'_>) -> Value {
    let mut messages: Vec<(&str, Vec<Value>)> = Vec::new();
    // The format wants roles to alternate.
    let mut push = |role: &'static str, blocks: Vec<Value>| match messages.last_mut() {
        _ if blocks.is_empty() => {}
        Some((last, content)) if *last == role => content.extend(blocks),
        _ => messages.push((role, blocks)),
    };
    for entry in request.entries {
        match entry {
            Entry::User(content) => push("user", parts(content).iter().filter_map(part).collect()),
            Entry::Step(step) => {
                push("assistant", step.items.iter().flat_map(|item| blocks(step, item)).collect());
            }
            Entry::Results(results) => {
                let result = |(id, text, is_failed): &(String, &str, bool)| {
                    json!({
                        "type": "tool_result", "tool_use_id": id, "content": text, "is_error": is_failed,
                    })
                };
                push("user", results.iter().map(result).collect());
            }
        }
    }
    let messages: Vec<Value> =
        messages.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect();
    let tools: Vec<Value> = definitions()
        .into_iter()
        .map(|tool| {
            let (name, description, parameters) = (tool.name, tool.description, tool.parameters);
            json!({"name": name, "description": description, "input_schema": parameters})
        })
        .collect();
    json!({
        "model": request.model,
        "stream": true,
        "max_tokens": request.most_output.unwrap_or(MOST_OUTPUT),
        "system": request.system,
        "messages": messages,
        "tools": tools,
    })
}

/// The format refuses empty texts.
fn part(part: &PromptPart<'_>) -> Option<Value> {
    match part {
        PromptPart::Text(text) if text.trim().is_empty() => None,
        PromptPart::Text(text) => Some(json!({"type": "text", "text": text})),
        PromptPart::Image { mime, data } => {
            let source = json!({"type": "base64", "media_type": mime, "data": data});
            Some(json!({"type": "image", "source": source}))
        }
    }
}

fn blocks(step: &Step, item: &Item) -> Vec<Value> {
    match &item.content {
        Content::Message { text } if text.trim().is_empty() => Vec::new(),
        Content::Message { text } => vec![json!({"type": "text", "text": text})],
        Content::Call { name, arguments, .. } => {
            let input: Value = turnstream_json::from_str(arguments).unwrap_or_else(|_| json!({}));
            vec![json!({"type": "tool_use", "id": call_id(step, item), "name": name, "input": input})]
        }
        Content::Reasoning { text, kept } => {
            let block = |kept: &Kept| match kept {
                Kept::Signature(signature) => {
                    Some(json!({"type": "thinking", "thinking": text, "signature": signature}))
                }
                Kept::Redacted(data) => Some(json!({"type": "redacted_thinking", "data": data})),
                Kept::Encrypted(_) | Kept::Details(_) => None,
            };
            kept.iter().filter_map(block).collect()
        }
        Content::Other { raw } if step.format == "messages" => {
            turnstream_json::from_str(raw).ok().into_iter().collect()
        }
        Content::Other { .. } => Vec::new(),
    }
}
