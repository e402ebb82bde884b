//! Reads a line of the agent, and passes it to the part of the conversation that it is for.

use super::Conversation;
use crate::acp::wire::{self, Content, Message, RpcError, Update};
use serde_json::{Map, Value};
use turnstream_model::time::Time;

/// JSON-RPC: there is no such method.
const NO_METHOD: i64 = -32601;
/// JSON-RPC: the parameters cannot be used.
pub(in crate::acp) const BAD_PARAMS: i64 = -32602;

/// Updates that say nothing for the log.
const SILENT: &[&str] = &["available_commands_update", "notice"];

/// A request of the agent for the gateway: a file or a terminal.
#[derive(Debug)]
pub(in crate::acp) struct Call {
    pub(in crate::acp) id: Value,
    pub(in crate::acp) method: String,
    pub(in crate::acp) params: Map<String, Value>,
}

impl Conversation {
    /// Handles one line of the agent's output, without its end.
    pub fn line(&mut self, line: &[u8], _now: Time) {
        if line.trim_ascii().is_empty() {
            return;
        }
        match Message::read(line) {
            Some(message) => self.read(message, line),
            None => self.gap(format!("a line of {} bytes could not be read", line.len())),
        }
    }

    fn read(&mut self, message: Message<'_>, line: &[u8]) {
        match (&*message.method, message.id) {
            ("session/update", None) => {
                let params = message.params.unwrap_or_default();
                if self.is_ours(&params.session_id) {
                    self.update(params.update, line);
                }
            }
            (method, Some(id))
                if method.is_empty() || message.result.is_some() || message.error.is_some() =>
            {
                self.response(&id, message.result, message.error);
            }
            ("", None) => self.gap(format!("a message of {} bytes has no method", line.len())),
            (method, Some(id)) => self.asked(method, id, line),
            (method, None) => self.notified(method, line),
        }
    }

    /// Whether something is about our session. One process has one session, so others are not expected.
    fn is_ours(&mut self, session: &str) -> bool {
        let is_ours = self.native_id().is_none_or(|ours| ours == session);
        if !is_ours {
            self.unknown("an update of another session", Value::from(session));
        }
        is_ours
    }

    fn update(&mut self, update: Update<'_>, line: &[u8]) {
        let id = update.message_id.as_deref();
        let kind = &*update.session_update;
        match (kind, update.content) {
            (_, Content::Block(block)) if kind.ends_with("_chunk") && block.kind == "text" => {
                match block.text {
                    Some(text) => self.chunk(kind, id, text),
                    None => self.unknown(&format!("session/update {kind} without a text"), raw_update(line)),
                }
            }
            (_, Content::Block(_)) if kind.ends_with("_message_chunk") => {
                let mut update = update_members(line);
                let block = update.remove("content").unwrap_or_default();
                self.block(kind, block);
            }
            (_, Content::Block(_) | Content::Other) => match kind {
                "tool_call" | "tool_call_update" => self.tool_call(kind, update_members(line)),
                "plan" => self.show_plan(&update_members(line)),
                "usage_update" => self.usage(&update_members(line)),
                "current_mode_update" => self.mode_changed(&update_members(line)),
                "config_option_update" => self.options_changed(&update_members(line)),
                "session_info_update" => self.session_info(&update_members(line)),
                kind if SILENT.contains(&kind) => {}
                kind => self.unknown(&format!("session/update {kind}"), raw_update(line)),
            },
        }
    }

    /// A request of the agent. Every one is answered: otherwise the agent would wait for ever.
    fn asked(&mut self, method: &str, id: Value, line: &[u8]) {
        let params = wire::params(line);
        match method {
            "session/request_permission" => self.permission(id, params),
            "elicitation/create" => self.form(id, &params),
            _ if method.starts_with("fs/") || method.starts_with("terminal/") => {
                self.calls.push_back(Call { id, method: method.to_owned(), params });
            }
            _ => {
                self.unknown(&format!("the request {method}"), Value::Object(params));
                self.refuse(&id, NO_METHOD, format!("there is no method {method:?}"));
            }
        }
    }

    fn notified(&mut self, method: &str, line: &[u8]) {
        match method {
            "$/cancel_request" => {
                if let Some(id) = wire::params(line).get("requestId") {
                    self.ask_withdrawn(id);
                }
            }
            // Only an address is completed this way, and none is offered.
            "elicitation/complete" => {}
            // Extensions that are not known are ignored, as ACP says.
            _ if method.starts_with('_') || method.starts_with("$/") => {}
            _ => {
                let raw = Value::Object(wire::params(line));
                self.unknown(&format!("the notification {method}"), raw);
            }
        }
    }

    /// Answers a request of the agent with an error.
    pub(super) fn refuse(&mut self, id: &Value, code: i64, message: String) {
        self.respond(id, Err(RpcError { code, message, data: None }));
    }
}

fn raw_update(line: &[u8]) -> Value {
    wire::params(line).remove("update").unwrap_or_default()
}

fn update_members(line: &[u8]) -> Map<String, Value> {
    match raw_update(line) {
        Value::Object(update) => update,
        _ => Map::new(),
    }
}
