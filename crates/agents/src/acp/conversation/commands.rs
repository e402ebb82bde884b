//! Commands of the keeper as lines for the agent, and the agent's answers to our requests.

use super::Conversation;
use super::handshake::describe;
use crate::acp::wire::RpcError;
use serde_json::{Value, json};
use turnstream_adapter::Command;
use turnstream_model::event::{ErrorClass, NoticeCode, TurnError};
use turnstream_model::signal::{Need, ProbedStatus, Signal};
use turnstream_model::time::Time;

/// A request that the agent has not answered yet.
pub(super) enum Request {
    Initialize,
    NewSession,
    /// `session/resume` or `session/load`.
    OldSession(&'static str),
    /// The prompt with this native id.
    Prompt(String),
    /// A model or a mode.
    Set {
        what: &'static str,
        value: String,
    },
}

impl Conversation {
    /// Handles a command of the keeper.
    pub fn command(&mut self, command: Command, _now: Time) {
        match command {
            Command::Prompt { native_id, content } => self.prompt(native_id, content),
            Command::Cancel => self.cancel(),
            Command::CancelPrompt(native_id) => self.cancel_prompt(native_id),
            // A message of the person has no place in ACP.
            Command::Approve { key, outcome, option, message: _ } => {
                self.approve(&key, outcome, option.as_deref());
            }
            Command::Answer { key, outcome, answers } => {
                self.answer(&key, outcome, &answers.unwrap_or_default())
            }
            // The keeper itself answers permissions by its rule.
            Command::Change { model, mode, permissions: _ } => self.change(model, mode),
            Command::Fetch(Need::StatusProbe(turn)) => {
                // Work that nobody asked for has no end of its own: it is over when it is silent.
                let speaks = std::mem::take(&mut self.probed_for_gap) && self.text.is_some();
                let busy = self.prompt.is_some() || !self.running_tools.is_empty() || speaks;
                if !busy {
                    self.end_text();
                }
                let status = if busy { ProbedStatus::Busy } else { ProbedStatus::Idle };
                self.signal(Signal::StatusProbed { turn, status });
            }
            // The agent cannot be asked for one, and no text comes before its item.
            Command::Fetch(Need::Item(_)) => {}
        }
    }

    /// Stops the turn. The response to the prompt still ends it.
    pub(super) fn cancel(&mut self) {
        if let Some(prompt) = &mut self.prompt {
            prompt.cancelled = true;
        }
        let session = self.native_id().unwrap_or_default().to_owned();
        self.notify("session/cancel", json!({"sessionId": session}));
        // ACP: a client answers all open requests then.
        self.cancel_asks();
    }

    fn cancel_prompt(&mut self, native_id: String) {
        if self.prompt.as_ref().is_some_and(|prompt| prompt.native_id == native_id) {
            return self.cancel();
        }
        self.waiting.retain(|(waiting, _)| *waiting != native_id);
        let error = TurnError::new(ErrorClass::Cancelled, "the prompt was cancelled before it began");
        self.signal(Signal::PromptRefused { native_id, error });
    }

    /// The agent's answer to one of our requests. Another one is late, or doubled.
    pub(super) fn response(&mut self, id: &Value, result: Option<Value>, error: Option<RpcError>) {
        let Some(request) = id.as_str().and_then(|id| self.requests.remove(id)) else { return };
        let result = error.map_or_else(|| Ok(result.unwrap_or_default()), Err);
        match request {
            Request::Initialize => self.initialized(result),
            Request::NewSession => self.new_session(result),
            Request::OldSession(method) => self.old_session(method, result),
            Request::Prompt(native_id) => self.prompt_done(&native_id, result),
            Request::Set { what, value } => match result {
                Ok(answer) => self.changed(what, value, &answer),
                Err(error) => {
                    let message = format!(
                        "the agent did not accept the {what} {value:?} and keeps the last one: {}",
                        describe(&error)
                    );
                    self.notice(NoticeCode::Degraded, message);
                }
            },
        }
    }
}
