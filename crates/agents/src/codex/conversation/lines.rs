//! Reads a message of the server, and passes it to the part of the conversation that it is for.

use super::Conversation;
use crate::codex::limits::RateLimitsLine;
use crate::codex::wire::{
    Delta, ErrorLine, ItemLine, McpStartup, Message, PlanLine, ResolvedLine, TurnLine, UsageLine,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use turnstream_model::event::Field;
use turnstream_model::time::Time;

/// The server, in notices.
const SENDER: &str = "Codex";

/// Known notifications that say nothing for the log.
const SILENT: &[&str] = &[
    "account/gatewayOAuth/changed",
    "account/login/completed",
    "account/updated",
    "app/list/updated",
    "autoApprovalReview/strictReviewRequired",
    "command/exec/outputDelta",
    "configWarning",
    "deprecationNotice",
    "externalAgentConfig/import/completed",
    "externalAgentConfig/import/progress",
    "fs/changed",
    "fuzzyFileSearch/sessionCompleted",
    "fuzzyFileSearch/sessionUpdated",
    "guardianWarning",
    "hook/completed",
    "hook/started",
    "item/autoApprovalReview/completed",
    "item/autoApprovalReview/started",
    "item/commandExecution/terminalInteraction",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "item/mcpToolCall/progress",
    "mcpServer/event/stream/notification",
    "mcpServer/oauthLogin/completed",
    "model/rerouted",
    "model/safetyBuffering/updated",
    "model/verification",
    "modelProvider/authRecoveryCompleted",
    "modelProvider/authRecoveryStarted",
    "process/exited",
    "process/outputDelta",
    "project/changed",
    "rawResponse/completed",
    "rawResponseItem/completed",
    "remoteControl/status/changed",
    "skills/changed",
    "thread/archived",
    "thread/attachment/updated",
    "thread/closed",
    // It is an item too.
    "thread/compacted",
    "thread/deleted",
    "thread/environment/connected",
    "thread/environment/disconnected",
    "thread/goal/cleared",
    "thread/goal/updated",
    "thread/name/updated",
    "thread/prediction/updated",
    "thread/project/updated",
    "thread/queue/changed",
    "thread/readState/changed",
    "thread/realtime/closed",
    "thread/realtime/error",
    "thread/realtime/item/completed",
    "thread/realtime/item/started",
    "thread/realtime/item/transcript/delta",
    "thread/realtime/itemAdded",
    "thread/realtime/outputAudio/delta",
    "thread/realtime/sdp",
    "thread/realtime/started",
    "thread/realtime/transcript/delta",
    "thread/realtime/transcript/done",
    "thread/reverted",
    "thread/settings/updated",
    "thread/started",
    // `turn/completed` ends a turn, and requests show what it waits for.
    "thread/status/changed",
    "thread/unarchived",
    // Each file change has its own diff.
    "turn/diff/updated",
    "turn/moderationMetadata",
    "warning",
    "windows/worldWritableWarning",
    "windowsSandbox/setupCompleted",
];

impl Conversation {
    /// Handles one message of the server.
    pub fn line(&mut self, line: &[u8], now: Time) {
        self.now = now;
        let Ok(message) = serde_json::from_slice::<Message<'_>>(line) else {
            return self.gap(format!("a message of {} bytes could not be read", line.len()));
        };
        let is_response = message.method.is_empty();
        if let Some(held) = self.held.as_mut().filter(|_| !is_response) {
            return held.push(line.to_vec());
        }
        let Message { method, id, params, result, error } = message;
        match (id, is_response) {
            (Some(id), true) => self.response(&id, result, error.as_ref()),
            (Some(id), false) => self.server_request(&method, id, params),
            (None, false) => self.notification(&method, params),
            (None, true) => self.gap("a message without a method and without an id".to_owned()),
        }
        // The server may have repeated a request that a recovery waits for.
        self.end_recovery();
    }

    fn notification(&mut self, method: &str, params: Option<&RawValue>) {
        let read = match method {
            "item/agentMessage/delta"
            | "item/reasoning/summaryTextDelta"
            | "item/reasoning/textDelta"
            | "item/plan/delta" => read(params).map(|delta: Delta<'_>| self.delta(delta, Field::Text)),
            "item/commandExecution/outputDelta" => read(params).map(|delta| self.delta(delta, Field::Output)),
            "item/reasoning/summaryPartAdded" => read(params).map(|delta| self.summary_part(delta)),
            "item/started" => read(params).map(|line: ItemLine| self.item_started(&line)),
            "item/completed" => read(params).map(|line: ItemLine| self.item_completed(&line, params)),
            "turn/started" => read(params).map(|line: TurnLine| self.turn_started(&line)),
            "turn/completed" => read(params).map(|line: TurnLine| self.turn_completed(&line)),
            "turn/plan/updated" => read(params).map(|line: PlanLine| self.plan_updated(&line)),
            "thread/tokenUsage/updated" => read(params).map(|line: UsageLine| self.token_usage(&line)),
            "account/rateLimits/updated" => {
                read(params).map(|line: RateLimitsLine| self.limits.update(line.rate_limits))
            }
            "error" => read(params).map(|line: ErrorLine| self.error(line)),
            "mcpServer/startupStatus/updated" => {
                read(params).map(|startup: McpStartup| self.mcp_startup(&startup))
            }
            "serverRequest/resolved" => {
                read(params).map(|line: ResolvedLine| self.resolved(&line.request_id))
            }
            method if SILENT.contains(&method) => Some(()),
            method => {
                self.unknown(method, params);
                Some(())
            }
        };
        if read.is_none() {
            self.gap(format!("a message {method:?} could not be read"));
        }
    }

    /// Reports something of this server that is not known.
    pub(super) fn unknown(&mut self, kind: &str, params: Option<&RawValue>) {
        if let Some(notice) = self.unknown.notice(SENDER, kind, read(params).unwrap_or_default()) {
            self.signal(notice);
        }
    }

    /// Reports how much that is not known was only counted.
    pub(super) fn report_counted_only(&mut self) {
        if let Some(notice) = self.unknown.end_turn(SENDER) {
            self.signal(notice);
        }
    }
}

pub(super) fn read<'a, T: Deserialize<'a>>(params: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(params?.get()).ok()
}
