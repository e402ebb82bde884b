//! The format of responses. Nothing is stored at the provider: each request has the whole conversation.

use super::{PromptPart, Request, parts};
use crate::builtin::history::{Entry, call_id};
use crate::builtin::journal::{Content, Item, Kept, Step};
use crate::builtin::tools::definitions;
use serde_json::{Value, json};

pub(super) fn body(request: &Request<'_>) -> Value {
    let mut input = Vec::new();
    for entry in request.entries {
        match entry {
            Entry::User(content) => {
                let content: Vec<Value> = parts(content).iter().map(part).collect();
                input.push(json!({"type": "message", "role": "user", "content": content}));
            }
            Entry::Step(step) => input.extend(step.items.iter().filter_map(|item| output(step, item))),
            Entry::Results(results) => {
                input.extend(results.iter().map(
                    |(id, text, _)| json!({"type": "function_call_output", "call_id": id, "output": text}),
                ))
            }
        }
    }
    let tools: Vec<Value> = definitions()
        .into_iter()
        .map(|tool| {
            let (name, description, parameters) = (tool.name, tool.description, tool.parameters);
            json!({"type": "function", "name": name, "description": description, "parameters": parameters, "strict": false})
        })
        .collect();
    let mut body = json!({
        "model": request.model,
        "stream": true,
        "store": false,
        "instructions": request.system,
        "input": input,
        "tools": tools,
    });
    if let Some(most) = request.most_output {
        body["max_output_tokens"] = Value::from(most);
    }
    body
}

fn part(part: &PromptPart<'_>) -> Value {
    match part {
        PromptPart::Text(text) => json!({"type": "input_text", "text": text}),
        PromptPart::Image { mime, data } => {
            json!({"type": "input_image", "image_url": format!("data:{mime};base64,{data}")})
        }
    }
}

/// One item of an answer. Reasoning without its encrypted content cannot go back.
fn output(step: &Step, item: &Item) -> Option<Value> {
    match &item.content {
        Content::Message { text } if text.is_empty() => None,
        Content::Message { text } => {
            let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
            Some(json!({"type": "message", "role": "assistant", "content": content}))
        }
        Content::Call { name, arguments, .. } => {
            let id = call_id(step, item);
            Some(json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments}))
        }
        Content::Reasoning { text, kept } => {
            let encrypted = kept.iter().find_map(|kept| match kept {
                Kept::Encrypted(content) => Some(content),
                Kept::Signature(_) | Kept::Redacted(_) | Kept::Details(_) => None,
            })?;
            let summary = match text.is_empty() {
                true => json!([]),
                false => json!([{"type": "summary_text", "text": text}]),
            };
            let id = item.id.as_ref()?;
            Some(json!({"type": "reasoning", "id": id, "summary": summary, "encrypted_content": encrypted}))
        }
        Content::Other { .. } => None,
    }
}
