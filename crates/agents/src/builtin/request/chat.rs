//! The format of chat completions.

use super::{PromptPart, Request, add_unread, parts};
use crate::builtin::history::{Entry, call_id};
use crate::builtin::journal::{Content, Kept, Step};
use crate::builtin::tools::definitions;
use serde_json::{Value, json};

pub(super) fn body(request: &Request<'_>) -> Value {
    let mut messages = vec![json!({"role": "system", "content": request.system})];
    for entry in request.entries {
        match entry {
            Entry::User(content) => messages.push(json!({"role": "user", "content": user(content)})),
            Entry::Step(step) => messages.extend(assistant(step)),
            Entry::Results(results) => messages.extend(
                results
                    .iter()
                    .map(|(id, text, _)| json!({"role": "tool", "tool_call_id": id, "content": text})),
            ),
        }
    }
    let tools: Vec<Value> = definitions()
        .into_iter()
        .map(|tool| {
            let (name, description, parameters) = (tool.name, tool.description, tool.parameters);
            json!({"type": "function", "function": {"name": name, "description": description, "parameters": parameters}})
        })
        .collect();
    let mut body = json!({
        "model": request.model,
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": messages,
        "tools": tools,
    });
    if let Some(most) = request.most_output {
        body["max_tokens"] = Value::from(most);
    }
    body
}

/// A plain text if there is nothing else: some servers take only that.
fn user(content: &[Value]) -> Value {
    let parts = parts(content);
    let texts: Option<Vec<&str>> = parts
        .iter()
        .map(|part| match part {
            PromptPart::Text(text) => Some(text.as_str()),
            PromptPart::Image { .. } => None,
        })
        .collect();
    if let Some(texts) = texts {
        return Value::from(texts.join("\n"));
    }
    let part = |part: &PromptPart<'_>| match part {
        PromptPart::Text(text) => json!({"type": "text", "text": text}),
        PromptPart::Image { mime, data } => {
            json!({"type": "image_url", "image_url": {"url": format!("data:{mime};base64,{data}")}})
        }
    };
    parts.iter().map(part).collect()
}

/// The message of a step. An answer without text and calls is left out.
fn assistant(step: &Step) -> Option<Value> {
    let (mut text, mut calls, mut details) = (String::new(), Vec::new(), Vec::new());
    for item in &step.items {
        match &item.content {
            Content::Message { text: more } => text.push_str(more),
            Content::Call { name, arguments, .. } => {
                let function = json!({"name": name, "arguments": arguments});
                let mut call = json!({"id": call_id(step, item), "type": "function", "function": function});
                if step.format == "chat" {
                    // Google's `thought_signature` stands here.
                    add_unread(&mut call, &item.unread);
                }
                calls.push(call);
            }
            Content::Reasoning { kept, .. } => {
                for kept in kept {
                    if let Kept::Details(raw) = kept
                        && let Ok(Value::Array(more)) = turnstream_json::from_str(raw)
                    {
                        details.extend(more);
                    }
                }
            }
            Content::Other { .. } => {}
        }
    }
    if text.is_empty() && calls.is_empty() {
        return None;
    }
    let content = if text.is_empty() { Value::Null } else { Value::from(text) };
    let mut message = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        message["tool_calls"] = Value::from(calls);
    }
    if !details.is_empty() {
        message["reasoning_details"] = Value::from(details);
    }
    Some(message)
}
