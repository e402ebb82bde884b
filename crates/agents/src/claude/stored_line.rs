//! One line of a transcript, as far as a recovery reads it.

use super::usage::Totals;
use super::wire::{Block, Content, Line, Message, ModelUsage};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use turnstream_model::event::Usage;

/// The texts that the agent stores where a turn was interrupted. They have no other mark.
const INTERRUPTED: &[&str] = &["[Request interrupted by user]", "[Request interrupted by user for tool use]"];
/// How the texts begin that it stores for a command it executes itself, and for the output of one.
const COMMAND: &str = "<command-name>";
const COMMAND_OUTPUT: &str = "<local-command-stdout>";

/// One line.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct StoredLine {
    #[serde(rename = "type")]
    pub(super) kind: String,
    subtype: String,
    pub(super) uuid: String,
    pub(super) timestamp: String,
    message: Option<Message>,
    tool_use_result: Option<Value>,
    /// All user lines of a turn have the same.
    pub(super) prompt_id: Option<String>,
    origin: Option<PromptOrigin>,
    is_meta: bool,
    is_sidechain: bool,
    is_compact_summary: bool,
    is_api_error_message: bool,
    api_error_status: Option<u16>,
    error: Option<String>,
    request_id: Option<String>,
    #[serde(rename = "totalCostUSD")]
    total_cost: f64,
    model_usage: BTreeMap<String, ModelUsage>,
    /// The call of the subagent that wrote it.
    #[serde(skip)]
    pub(super) parent: Option<String>,
    /// The process prints nothing of it.
    #[serde(skip)]
    is_hidden: bool,
}

/// Who wrote a prompt.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PromptOrigin {
    kind: String,
}

impl StoredLine {
    /// The lines of a file. Those that cannot be read are left out.
    pub(super) fn read(bytes: &[u8]) -> impl Iterator<Item = Self> {
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        lines.filter_map(|line| turnstream_json::from_slice(line).ok())
    }

    /// True for a line about the conversation or its totals. Some versions store subagents here too.
    pub(super) fn is_work(&self) -> bool {
        let is_boundary = self.kind == "system" && self.subtype == "compact_boundary";
        let is_of_kind = matches!(self.kind.as_str(), "assistant" | "user" | "cost-state");
        !self.is_sidechain && (is_boundary || is_of_kind)
    }

    /// True for a line of a subagent's work.
    pub(super) fn is_subagents_work(&self) -> bool {
        matches!(self.kind.as_str(), "assistant" | "user")
    }

    /// Makes it a line of the subagent of this call. The texts of one in the foreground are not printed.
    pub(super) fn place_below(&mut self, call: &str, in_background: bool) {
        self.parent = Some(call.to_owned());
        let is_shown = |block: &Block| block.is_call() || block.is_result();
        self.is_hidden = !in_background && !self.blocks().iter().any(is_shown);
    }

    /// True if it has this call.
    pub(super) fn has_call(&self, call: &str) -> bool {
        self.blocks().iter().any(|block| block.is_call() && block.id.as_deref() == Some(call))
    }

    /// True if it says that the subagent of this call works in the background.
    pub(super) fn launches_in_background(&self, call: &str) -> bool {
        let is_result = |block: &Block| block.is_result() && block.tool_use_id.as_deref() == Some(call);
        let status = self.tool_use_result.as_ref().and_then(|result| result.get("status"));
        status.is_some_and(|status| status == "async_launched") && self.blocks().iter().any(is_result)
    }

    /// The id of a message of the model, for the session itself.
    pub(super) fn message_id(&self) -> Option<&str> {
        let message = self.message.as_ref().filter(|_| self.kind == "assistant" && self.parent.is_none())?;
        (!self.is_api_error_message).then_some(message.id.as_str())
    }

    /// The tokens of a model call, by the id of its message. One without a stop reason did not end.
    pub(super) fn usage(&self) -> Option<(&str, Usage)> {
        let message = self.message.as_ref().filter(|_| self.kind == "assistant")?;
        message.stop_reason.as_ref()?;
        Some((message.id.as_str(), message.usage?.into_usage()))
    }

    /// What the process had counted when it ended.
    pub(super) fn totals(&self) -> Option<Totals> {
        (self.kind == "cost-state").then(|| Totals::new(&self.model_usage, self.total_cost))
    }

    /// True for the first line of another turn. `ids` are those of this turn's user lines.
    pub(super) fn begins_other_turn<'a>(&'a self, ids: &mut std::collections::HashSet<&'a str>) -> bool {
        if self.kind != "user" {
            return false;
        }
        if self.is_compact_summary {
            ids.extend(self.prompt_id.as_deref());
            return false;
        }
        match &self.prompt_id {
            // A turn that was found by a call has no id yet.
            Some(id) if ids.is_empty() && self.has_result() => {
                ids.insert(id);
                false
            }
            Some(id) => !ids.contains(id.as_str()),
            None => !self.is_meta && !self.has_result() && !self.is_interrupt(),
        }
    }

    /// True for the notification that background work has ended.
    pub(super) fn is_notification(&self) -> bool {
        self.origin.as_ref().is_some_and(|origin| origin.kind == "task-notification")
    }

    /// True for a command that the agent executes itself.
    pub(super) fn is_command(&self) -> bool {
        self.text().is_some_and(|text| text.starts_with(COMMAND))
    }

    /// True for a line after which the turn may be over.
    pub(super) fn shows_progress(&self) -> bool {
        let is_of_kind = matches!(self.kind.as_str(), "assistant" | "user");
        self.parent.is_none() && is_of_kind && !self.is_compact_summary
    }

    /// The line as the process would have printed it; `None` for one that it does not print.
    pub(super) fn live(&self) -> Option<Line<'static>> {
        if self.is_meta || self.is_hidden || self.kind == "cost-state" {
            return None;
        }
        Some(Line {
            kind: Cow::Owned(self.kind.clone()),
            subtype: Cow::Owned(self.subtype.clone()),
            uuid: Cow::Owned(self.uuid.clone()),
            parent_tool_use_id: self.parent.clone(),
            message: self.message.clone(),
            tool_use_result: self.tool_use_result.clone(),
            is_synthetic: self.is_compact_summary,
            is_replay: self.is_command_output(),
            error: self.error.clone(),
            request_id: self.request_id.clone(),
            ..Line::default()
        })
    }

    /// The result of a turn whose last line this is; `None` if the turn cannot be over.
    pub(super) fn result(&self) -> Option<Line<'static>> {
        let result = |terminal: &str| Line {
            kind: Cow::Borrowed("result"),
            subtype: Cow::Borrowed("success"),
            terminal_reason: Some(terminal.to_owned()),
            stop_reason: self.message.as_ref().and_then(|message| message.stop_reason.clone()),
            is_error: self.is_api_error_message,
            api_error_status: self.api_error_status,
            ..Line::default()
        };
        if self.is_interrupt() {
            return Some(result("aborted_streaming"));
        }
        if self.is_command_output() {
            return Some(result("completed"));
        }
        let stop_reason =
            self.message.as_ref().filter(|_| self.kind == "assistant")?.stop_reason.as_deref()?;
        (!matches!(stop_reason, "tool_use" | "pause_turn")).then(|| result("completed"))
    }

    fn blocks(&self) -> &[Block] {
        match self.message.as_ref().map(|message| &message.content) {
            Some(Content::Blocks(blocks)) => blocks,
            Some(Content::Text(_)) | None => &[],
        }
    }

    /// The text of a user line that is only a text.
    fn text(&self) -> Option<&str> {
        match self.message.as_ref().filter(|_| self.kind == "user").map(|message| &message.content) {
            Some(Content::Text(text)) => Some(text),
            Some(Content::Blocks(_)) | None => None,
        }
    }

    fn has_result(&self) -> bool {
        self.blocks().iter().any(Block::is_result)
    }

    fn is_interrupt(&self) -> bool {
        let is_mark = |block: &Block| block.text.as_deref().is_some_and(|text| INTERRUPTED.contains(&text));
        self.kind == "user" && self.blocks().iter().any(is_mark)
    }

    fn is_command_output(&self) -> bool {
        self.text().is_some_and(|text| text.starts_with(COMMAND_OUTPUT))
    }
}
