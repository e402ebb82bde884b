//! Requests of MCP servers that Codex passes on: a permission for one of their tools, or a form.

use super::Conversation;
use super::asks::{ONCE, REJECT, SESSION, Wants, add_reason, option};
use crate::codex::wire::{AskParams, Elicitation, ElicitationMeta, McpStartup};
use crate::foreign_error::shorten;
use crate::form::Form;
use serde_json::{Value, json};
use turnstream_model::event::{ApprovalOption, NoticeCode, OptionKind, Tool, ToolKind, ToolStatus};
use turnstream_model::id::Key;
use turnstream_model::signal::Signal;

/// The id of an option for all sessions.
const ALWAYS: &str = "always";
/// What Codex calls a permission for a tool.
const TOOL_CALL: &str = "mcp_tool_call";

/// A call of an MCP server's tool.
pub(super) struct McpCall {
    pub(super) server: String,
    pub(super) tool: String,
    pub(super) arguments: Option<Value>,
}

impl Conversation {
    pub(super) fn elicited(&mut self, id: Value, asked: Elicitation) {
        let of_open_turn = || self.turn.as_ref().map(|turn| turn.id.clone());
        let turn = asked.turn_id.clone().or_else(of_open_turn);
        let Some(turn_id) = turn.filter(|_| asked.mode == "form") else {
            let message =
                "an MCP server of Codex asks for input in a way that is not supported; it was declined";
            self.notice(NoticeCode::Degraded, message.to_owned());
            let result = json!({"action": "decline", "content": null, "_meta": null});
            return self.write(&json!({"id": id, "result": result}));
        };
        let params = AskParams { thread_id: asked.thread_id.clone(), turn_id, ..AskParams::default() };
        self.begin_turn_of(&params);
        match &asked.meta {
            Some(meta) if meta.approval_kind.as_ref().is_some_and(|kind| kind == TOOL_CALL) => {
                self.tool_asked(id, &params, &asked, meta);
            }
            Some(_) | None => {
                let form = Form::new(asked.requested_schema.as_ref());
                let questions = form.questions(&asked.message);
                let item = self.call_of(&asked, None).map(|(key, _)| key);
                // The call runs: it is not waiting for a permission.
                if let Some(key) = self.keep_ask(id, &params, None, Wants::Form(form)) {
                    self.signal(Signal::Question { key, item, questions });
                }
            }
        }
    }

    fn tool_asked(&mut self, id: Value, params: &AskParams, asked: &Elicitation, meta: &ElicitationMeta) {
        let (item, name) = self.call_of(asked, meta.tool_params.as_ref()).unzip();
        let mut tool = Tool {
            kind: Some(ToolKind::Other),
            title: Some(name.clone().unwrap_or_else(|| asked.message.clone())),
            name,
            input: meta.tool_params.clone(),
            status: Some(ToolStatus::Pending),
            ..Tool::default()
        };
        add_reason(&mut tool, Some(&asked.message));
        let accepts = |meta: Value| json!({"action": "accept", "content": null, "_meta": meta});
        let mut options = vec![option(ONCE, OptionKind::AllowOnce, "Allow once")];
        let mut results = vec![(ONCE.to_owned(), accepts(Value::Null))];
        let mut persistent = |id: &str, name: &str| {
            options.push(option(id, OptionKind::AllowAlways, name));
            results.push((id.to_owned(), accepts(json!({"persist": id}))));
        };
        if meta.can_persist(SESSION) {
            persistent(SESSION, "Allow for this session");
        }
        if meta.can_persist(ALWAYS) {
            persistent(ALWAYS, "Always allow, in all sessions");
        }
        options.push(option(REJECT, OptionKind::RejectOnce, "Reject"));
        let declines = json!({"action": "decline", "content": null, "_meta": null});
        results.push((REJECT.to_owned(), declines));
        let ask: (Tool, Vec<ApprovalOption>) = (tool, options);
        self.ask(id, params, item, ask, results);
    }

    /// The open call that a request is about, which the request does not name, and the name of its tool.
    fn call_of(&self, asked: &Elicitation, arguments: Option<&Value>) -> Option<(Key, String)> {
        let is_asked = |key: &Key| self.asks.values().any(|ask| ask.item.as_ref() == Some(key));
        let mut calls = self.open_calls(&asked.thread_id);
        let (key, call) = calls.find(|(key, call)| {
            let is_same = arguments.is_none() || call.arguments.as_ref() == arguments;
            call.server == asked.server_name && is_same && !is_asked(key)
        })?;
        Some((key.clone(), format!("{}.{}", call.server, call.tool)))
    }

    /// A server that does not start has no tools, and the model is not told why.
    pub(super) fn mcp_startup(&mut self, startup: &McpStartup) {
        let is_ours = startup.thread_id.as_ref().is_none_or(|thread| *thread == self.thread);
        if is_ours && startup.status == "failed" {
            let reason = shorten(startup.error.as_deref().unwrap_or("no reason was given"));
            let message = format!("the MCP server {:?} of Codex did not start: {reason}", startup.name);
            self.notice(NoticeCode::Degraded, message);
        }
    }
}

// === impl ElicitationMeta ===

impl ElicitationMeta {
    /// Whether the permission can be given for this long.
    fn can_persist(&self, scope: &str) -> bool {
        let scopes = self.persist.as_ref();
        scopes.is_some_and(|scopes| {
            scopes == scope || scopes.as_array().is_some_and(|list| list.iter().any(|word| word == scope))
        })
    }
}
