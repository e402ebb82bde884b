//! Threads of subagents on a new connection. The server says nothing of their work, and does not repeat their
//! requests, until they are resumed as well.

use super::Conversation;
use super::commands::Request;
use crate::codex::wire::{OpenedThread, Thread, TurnList};
use serde_json::json;

impl Conversation {
    /// Resumes the subagents of the open turn, and those that worked, if this connection does not hear of
    /// them yet.
    pub(super) fn resume_children(&mut self) {
        let is_open = self.turn.is_some();
        let wanted = self.children.iter_mut().filter(|(_, child)| !child.heard && (child.busy || is_open));
        let wanted = wanted.map(|(thread, child)| {
            child.heard = true;
            thread.clone()
        });
        for thread in wanted.collect::<Vec<_>>() {
            let params = json!({"threadId": thread, "excludeTurns": true});
            self.request("thread/resume", params, Request::OpenChild(thread));
        }
    }

    /// Whether something is still to be heard about subagents.
    pub(super) fn awaits_children(&self) -> bool {
        let mut requests = self.requests.values();
        requests.any(|request| matches!(request, Request::OpenChild(_) | Request::ChildTurns(_)))
    }

    /// The thread of a subagent is resumed; `None` for one that the server does not have any more.
    pub(super) fn child_opened(&mut self, thread: String, opened: Option<OpenedThread>) {
        let Some(OpenedThread { thread: Thread { status, .. }, .. }) = opened else {
            return self.child_ended(&thread);
        };
        if let Some(child) = self.children.get_mut(&thread) {
            child.busy = status.kind == "active";
        }
        self.await_asks(&status.active_flags);
        self.list_turns_of(&thread.clone(), Request::ChildTurns(thread));
    }

    /// The last turns of a subagent, newest first. Those of the open turn are shown.
    pub(super) fn child_turns(&mut self, thread: &str, list: TurnList) {
        let is_over = list.data.first().is_some_and(|turn| turn.status != "inProgress");
        let root = self.turn.as_ref().map(|turn| turn.id.clone());
        for turn in list.data.into_iter().rev().filter(|turn| Some(&turn.root_turn_id) == root.as_ref()) {
            self.show_listed(thread, turn);
        }
        if is_over {
            self.child_ended(thread);
        }
        // It may have named subagents of its own.
        self.resume_children();
    }
}
