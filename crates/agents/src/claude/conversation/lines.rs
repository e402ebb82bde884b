//! Reads a line of the agent, and passes it to the part of the conversation that it is for.

use super::Conversation;
use crate::claude::outcome::{class_of_status, class_of_word};
use crate::claude::wire::{Line, LineName, RateLimitInfo};
use turnstream_model::event::{Context, ItemKind, NoticeCode, SessionPatch};
use turnstream_model::id::Key;
use turnstream_model::signal::{ItemSeen, Signal};
use turnstream_model::time::Time;

/// The most unknown types that are reported.
const MOST_UNKNOWN: usize = 64;

/// Known types that say nothing for the log.
const SILENT: &[&str] = &["command_lifecycle", "keep_alive", "tool_progress", "tool_use_summary"];

/// Known subtypes of `system` that say nothing for the log.
const SILENT_SYSTEM: &[&str] = &[
    "background_tasks_changed",
    "commands_changed",
    "files_persisted",
    "hook_progress",
    "hook_response",
    "hook_started",
    "informational",
    "memory_recall",
    // The `result` has the stop reason.
    "model_refusal_no_fallback",
    "notification",
    "task_progress",
    "thinking_tokens",
    "worker_shutting_down",
];

/// Types whose members are read. A line of such a type that cannot be read is a gap.
const READ: &[&str] = &[
    "assistant",
    "control_cancel_request",
    "control_request",
    "control_response",
    "result",
    "stream_event",
    "user",
];

/// Subtypes of `system` whose members are read.
const READ_SYSTEM: &[&str] = &[
    "api_retry",
    "compact_boundary",
    "init",
    "session_state_changed",
    "status",
    "task_notification",
    "task_started",
    "task_updated",
];

impl Conversation {
    /// Handles one line of the agent's output, without its end.
    pub fn line(&mut self, line: &[u8], now: Time) {
        self.now = now;
        if line.trim_ascii().is_empty() {
            return;
        }
        match turnstream_json::from_slice::<Line<'_>>(line) {
            Ok(line) => self.read(line),
            Err(_) => self.unreadable(line),
        }
    }

    pub(super) fn read(&mut self, line: Line<'_>) {
        if matches!(&*line.kind, "stream_event" | "assistant" | "system") {
            self.interrupt_again();
        }
        match &*line.kind {
            "stream_event" => {
                if let Some(event) = line.event {
                    self.stream_event(event, line.parent_tool_use_id);
                }
            }
            "assistant" => self.assistant(line),
            "user" => self.user(line),
            "result" => self.result(&line),
            "system" => self.system(line),
            "control_request" => self.control_request(line),
            "control_response" => self.control_response(line.response.unwrap_or_default()),
            "control_cancel_request" => self.ask_withdrawn(line.request_id.as_deref().unwrap_or_default()),
            "rate_limit_event" => self.rate_limit(line.rate_limit_info.unwrap_or_default()),
            kind if SILENT.contains(&kind) => {}
            kind => self.unknown(kind.to_owned()),
        }
    }

    fn system(&mut self, line: Line<'_>) {
        match &*line.subtype {
            "init" => {
                self.begin_turn();
                self.model.clone_from(&line.model);
                let (model, mode) = (line.model, line.permission_mode);
                let native_id = line.session_id;
                let patch = SessionPatch { model, mode, native_id, ..SessionPatch::default() };
                self.signal(Signal::Session(patch));
            }
            "status" => {
                if line.status.is_some() {
                    self.begin_turn();
                }
                if line.permission_mode.is_some() {
                    let patch = SessionPatch { mode: line.permission_mode, ..SessionPatch::default() };
                    self.signal(Signal::Session(patch));
                }
            }
            "session_state_changed" if line.state.as_deref() == Some("idle") => self.state_idle(),
            // A `running` may belong to a prompt or to background work. The next lines tell.
            "session_state_changed" => {}
            "api_retry" => self.api_retry(&line),
            "task_started" => {
                if let (Some(task), Some(call)) = (line.task_id, line.tool_use_id) {
                    self.tasks.insert(task, call);
                }
            }
            "task_updated" => {
                let status = line.patch.and_then(|patch| patch.status);
                let goes_on = |status: &str| matches!(status, "running" | "pending");
                if let (Some(task), Some(status)) = (line.task_id, status)
                    && !goes_on(&status)
                {
                    self.tasks.remove(&task);
                }
            }
            "task_notification" => {
                if let Some(task) = line.task_id {
                    self.tasks.remove(&task);
                    // Inside a turn it is about a command or subagent of that turn.
                    if self.turn.is_none() {
                        self.woken_by = Some(task);
                    }
                }
            }
            "compact_boundary" => self.compacted(&line),
            subtype if SILENT_SYSTEM.contains(&subtype) => {}
            subtype => self.unknown(format!("system/{subtype}")),
        }
    }

    /// A limit of the subscription is reached, or no longer (capture `f_429_subscription_limit`).
    fn rate_limit(&mut self, info: RateLimitInfo) {
        let resets = info.resets_at.filter(|_| info.status == "rejected");
        self.limit_resets = resets.map(|at| Time(at.saturating_mul(1_000)));
    }

    /// The agent waits to repeat a model call.
    fn api_retry(&mut self, line: &Line<'_>) {
        self.begin_turn();
        self.discard_call();
        let class = line.error_status.map_or_else(|| class_of_word(line.error.as_deref()), class_of_status);
        // A cast saturates, and not-a-number becomes zero.
        let delay = line.retry_delay_ms.map(|delay| delay as u64);
        self.signal(Signal::Retrying {
            attempt: line.attempt,
            reason: Some(class),
            until: delay.map(|delay| self.now.plus_millis(delay)),
            message: line.error.clone(),
        });
    }

    /// The history was summarised. The summary follows as a line in the user's name.
    fn compacted(&mut self, line: &Line<'_>) {
        self.begin_turn();
        self.end_compaction();
        if let Some(turn) = &mut self.turn {
            turn.compacted = true;
        }
        let key = Key::from(&*line.uuid);
        let (kind, role, parent, synthetic) = (ItemKind::Compaction, None, None, false);
        self.signal(Signal::ItemSeen(ItemSeen { key: key.clone(), kind, role, parent, synthetic }));
        self.compaction = Some(key);
        if let Some(tokens) = line.compact_metadata.as_ref().and_then(|metadata| metadata.post_tokens) {
            self.context_used = Some(tokens);
        }
    }

    /// How full the context is, if that is known.
    pub(super) fn report_context(&mut self) {
        if let Some(used) = self.context_used {
            let size = self.usage.context_size;
            let context = Context { used: Some(used), size, extra: serde_json::Map::new() };
            self.signal(Signal::Usage { usage: None, cost: None, context: Some(context) });
        }
    }

    /// A line whose members could not be read. If nothing of its type is read, nothing is missing.
    fn unreadable(&mut self, line: &[u8]) {
        let name: LineName = turnstream_json::from_slice(line).unwrap_or_default();
        let is_read = match &*name.kind {
            "" => true,
            "system" => READ_SYSTEM.contains(&&*name.subtype),
            kind => READ.contains(&kind),
        };
        if name.kind == "control_request" {
            // Otherwise the agent would wait for an answer for ever.
            self.refuse_request(&name.request_id, "the request could not be read");
        }
        if is_read {
            self.gap(format!("a line of {} bytes could not be read", line.len()));
        } else if name.kind == "system" {
            self.unknown(format!("system/{}", name.subtype));
        } else {
            self.unknown(name.kind);
        }
    }

    /// Reports a type of this agent that is not known, once.
    pub(super) fn unknown(&mut self, kind: String) {
        if self.unknown.len() < MOST_UNKNOWN && !self.unknown.contains(&kind) {
            let name = crate::claude::outcome::shorten(&kind);
            self.notice(NoticeCode::UnknownEvent, format!("Claude Code sent {name:?}, which is not known"));
            self.unknown.insert(kind);
        }
    }
}
