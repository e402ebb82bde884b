//! The message that a client builds of chunks, in the way of the SDK's own client.

use crate::dialect::FrameSink;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// A UI message of the assistant in the making.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UiMessage {
    id: String,
    metadata: Option<Value>,
    parts: Vec<Value>,
    /// The places of open text and reasoning parts, by kind and id.
    open: HashMap<(bool, String), usize>,
}

impl UiMessage {
    /// The message, as a page stores it.
    pub fn into_json(self) -> Value {
        let Self { id, metadata, parts, open: _ } = self;
        let mut message = json!({"id": id, "role": "assistant", "parts": parts});
        if let Some(metadata) = metadata {
            message["metadata"] = metadata;
        }
        message
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Takes the next chunk.
    pub fn take(&mut self, chunk: &Value) {
        let text = |member: &str| chunk[member].as_str().unwrap_or_default().to_owned();
        let kind = text("type");
        let is_reasoning = kind.starts_with("reasoning-");
        let key = (is_reasoning, text("id"));
        match kind.as_str() {
            "start" => {
                self.id = text("messageId");
                self.merge(&chunk["messageMetadata"]);
            }
            "finish" | "message-metadata" => self.merge(&chunk["messageMetadata"]),
            "start-step" => self.parts.push(json!({"type": "step-start"})),
            "reset-step" => {
                let is_start = |part: &Value| part["type"] == "step-start";
                let kept = self.parts.iter().rposition(is_start).map_or(0, |start| start + 1);
                self.parts.truncate(kept);
                self.open.clear();
            }
            "text-start" | "reasoning-start" => {
                self.open.insert(key, self.parts.len());
                let kind = if is_reasoning { "reasoning" } else { "text" };
                let mut part = json!({"type": kind, "text": "", "state": "streaming"});
                set(&mut part, "providerMetadata", chunk.get("providerMetadata"));
                self.parts.push(part);
            }
            "text-delta" | "reasoning-delta" => {
                if let Some(Value::String(whole)) = self.open_part(&key).map(|part| &mut part["text"]) {
                    whole.push_str(&text("delta"));
                }
            }
            "text-end" | "reasoning-end" => {
                if let Some(part) = self.open_part(&key) {
                    part["state"] = json!("done");
                    set(part, "providerMetadata", chunk.get("providerMetadata"));
                }
                self.open.remove(&key);
            }
            "tool-input-start" => self.call_input(chunk, "input-streaming"),
            "tool-input-available" => self.call_input(chunk, "input-available"),
            "tool-approval-request" => {
                if let Some(part) = self.call(&text("toolCallId")) {
                    part["state"] = json!("approval-requested");
                    part["approval"] = json!({"id": chunk["approvalId"]});
                }
            }
            "tool-approval-response" => {
                let id = &chunk["approvalId"];
                if let Some(part) = self.parts.iter_mut().find(|part| part["approval"]["id"] == *id) {
                    part["state"] = json!("approval-responded");
                    part["approval"]["approved"] = chunk["approved"].clone();
                    set(&mut part["approval"], "reason", chunk.get("reason"));
                }
            }
            "tool-output-available" => self.call_output(chunk, "output-available"),
            "tool-output-error" => self.call_output(chunk, "output-error"),
            "tool-output-denied" => {
                if let Some(part) = self.call(&text("toolCallId")) {
                    part["state"] = json!("output-denied");
                }
            }
            data if data.starts_with("data-") && chunk["transient"] != true => {
                let is_same = |part: &&mut Value| part["type"] == data && part["id"] == chunk["id"];
                match self.parts.iter_mut().find(is_same) {
                    Some(part) => part["data"] = chunk["data"].clone(),
                    None => self.parts.push(chunk.clone()),
                }
            }
            // The rest changes no message.
            _ => {}
        }
    }

    fn open_part(&mut self, key: &(bool, String)) -> Option<&mut Value> {
        self.parts.get_mut(*self.open.get(key)?)
    }

    fn call(&mut self, id: &str) -> Option<&mut Value> {
        self.parts.iter_mut().rev().find(|part| part["toolCallId"] == id)
    }

    fn call_input(&mut self, chunk: &Value, state: &str) {
        let is_start = |part: &Value| part["type"] == "step-start";
        let step = self.parts.iter().rposition(is_start).map_or(0, |start| start + 1);
        let is_same = |part: &Value| part["toolCallId"] == chunk["toolCallId"];
        let at = self.parts[step..].iter().position(is_same).map_or(self.parts.len(), |at| at + step);
        if at == self.parts.len() {
            self.parts.push(json!({"type": "dynamic-tool", "toolCallId": chunk["toolCallId"]}));
        }
        let part = &mut self.parts[at];
        if let Value::Object(part) = part {
            for member in ["output", "errorText", "preliminary"] {
                part.remove(member);
            }
        }
        part["state"] = json!(state);
        for member in ["toolName", "input", "providerExecuted", "title"] {
            set(part, member, chunk.get(member));
        }
        set(part, "callProviderMetadata", chunk.get("providerMetadata"));
    }

    fn call_output(&mut self, chunk: &Value, state: &str) {
        let Some(part) = self.call(chunk["toolCallId"].as_str().unwrap_or_default()) else { return };
        if let Value::Object(part) = part {
            for member in ["output", "errorText", "preliminary"] {
                part.remove(member);
            }
        }
        part["state"] = json!(state);
        for member in ["output", "errorText", "preliminary", "providerExecuted"] {
            set(part, member, chunk.get(member));
        }
    }

    fn merge(&mut self, more: &Value) {
        if more.is_object() {
            merge(self.metadata.get_or_insert_with(|| Value::Object(Map::new())), more);
        }
    }
}

/// A message is built of the frames of one turn.
impl FrameSink for UiMessage {
    fn frame(&mut self, _: Option<&str>, json: &[u8]) {
        if let Ok(chunk) = serde_json::from_slice(json) {
            self.take(&chunk);
        }
    }
}

fn set(part: &mut Value, member: &str, value: Option<&Value>) {
    if let Some(value) = value {
        part[member] = value.clone();
    }
}

fn merge(base: &mut Value, more: &Value) {
    match (base, more) {
        (Value::Object(base), Value::Object(more)) => {
            for (member, value) in more {
                merge(base.entry(member.clone()).or_insert(Value::Null), value);
            }
        }
        (base, more) => *base = more.clone(),
    }
}
