//! Commands of the keeper as lines for the agent, and the agent's answers to our requests.

use super::{Conversation, SentPrompt};
use crate::claude::prompt_content;
use crate::claude::wire::ControlResponse;
use serde_json::{Value, json};
use turnstream_adapter::Command;
use turnstream_model::event::{ErrorClass, NoticeCode, TurnError};
use turnstream_model::signal::{Need, ProbedStatus, Signal};
use turnstream_model::time::Time;

/// A request that the agent has not answered yet.
pub(super) enum Request {
    Interrupt,
    /// Take this prompt out of the agent's queue.
    Withdraw(String),
    SetModel(String),
    SetMode(String),
}

impl Conversation {
    /// Handles a command of the keeper.
    pub fn command(&mut self, command: Command, now: Time) {
        self.now = now;
        match command {
            Command::Prompt { native_id, content } => self.prompt(native_id, &content),
            // Without an open turn its end is already on its way to the keeper.
            Command::Cancel => {
                if self.turn.is_some() {
                    self.interrupt();
                }
            }
            Command::CancelPrompt(native_id) => self.cancel_prompt(native_id),
            Command::Approve { key, outcome, option, message } => {
                self.approve(&key, outcome, option.as_deref(), message);
            }
            Command::Answer { key, outcome, answers } => self.answer(&key, outcome, answers),
            // The keeper itself answers permissions by its rule.
            Command::Change { model, mode, permissions: _ } => {
                if let Some(model) = model {
                    let request = json!({"subtype": "set_model", "model": model});
                    self.request(request, Request::SetModel(model));
                }
                if let Some(mode) = mode {
                    let request = json!({"subtype": "set_permission_mode", "mode": mode});
                    self.request(request, Request::SetMode(mode));
                }
            }
            Command::Fetch(Need::StatusProbe(turn)) => {
                let busy = self.turn.is_some();
                let status = if busy { ProbedStatus::Busy } else { ProbedStatus::Idle };
                self.signal(Signal::StatusProbed { turn, status });
            }
            // The agent cannot be asked for one, and its text comes whole.
            Command::Fetch(Need::Item(_)) => {}
        }
    }

    fn prompt(&mut self, native_id: String, content: &[Value]) {
        match prompt_content::content(content) {
            Ok(content) => {
                self.write(&json!({
                    "type": "user",
                    "message": {"role": "user", "content": content},
                    "parent_tool_use_id": null,
                    "session_id": "",
                    "uuid": native_id,
                }));
                self.prompts.push_back(SentPrompt { native_id, echoed: false, unwanted: false });
            }
            Err(refused) => {
                let error = TurnError::new(ErrorClass::InvalidRequest, refused.to_string());
                self.signal(Signal::PromptRefused { native_id, error });
            }
        }
    }

    /// Stops the running turn. Without one, the agent does nothing (capture e_interrupt_when_idle).
    pub(super) fn interrupt(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.interrupted = true;
        }
        self.request(json!({"subtype": "interrupt"}), Request::Interrupt);
    }

    /// The last interrupt came before the agent had begun with its prompt, which begins now (seen in
    /// 2.1.325).
    pub(super) fn interrupt_again(&mut self) {
        if self.turn.as_mut().is_some_and(|turn| std::mem::take(&mut turn.interrupt_again)) {
            self.interrupt();
        }
    }

    /// A prompt without a turn is taken out of the agent's queue first. If it is not there, it has started.
    fn cancel_prompt(&mut self, native_id: String) {
        if self.turn.as_ref().is_some_and(|turn| turn.prompts.contains(&native_id)) {
            self.interrupt();
        } else if self.prompts.iter().any(|prompt| prompt.native_id == native_id) {
            let request = json!({"subtype": "cancel_async_message", "message_uuid": native_id});
            self.request(request, Request::Withdraw(native_id));
        } else {
            self.refuse_cancelled(native_id);
        }
    }

    fn refuse_cancelled(&mut self, native_id: String) {
        let error = TurnError::new(ErrorClass::Cancelled, "the prompt was cancelled before it began");
        self.signal(Signal::PromptRefused { native_id, error });
    }

    fn request(&mut self, body: Value, request: Request) {
        self.sent_requests += 1;
        let id = format!("ts-{}", self.sent_requests);
        self.write(&json!({"type": "control_request", "request_id": id, "request": body}));
        self.requests.insert(id, request);
    }

    pub(super) fn control_response(&mut self, response: ControlResponse) {
        let refused = response.subtype != "success";
        match self.requests.remove(&response.request_id) {
            None => {}
            Some(Request::Interrupt) => {
                let queued = response.response.get("still_queued").and_then(Value::as_array);
                if let Some(turn) =
                    self.turn.as_mut().filter(|_| queued.is_some_and(|queued| !queued.is_empty()))
                {
                    turn.interrupt_again = true;
                }
            }
            Some(Request::Withdraw(native_id)) => {
                let was_queued = response.response.get("cancelled").and_then(Value::as_bool) == Some(true);
                self.withdrawn(native_id, was_queued);
            }
            Some(Request::SetModel(model)) if refused => self.not_changed("model", &model, response.error),
            Some(Request::SetMode(mode)) if refused => self.not_changed("mode", &mode, response.error),
            // The next `init` or `status` has the new value.
            Some(Request::SetModel(_) | Request::SetMode(_)) => {}
        }
    }

    fn withdrawn(&mut self, native_id: String, was_queued: bool) {
        let place = self.prompts.iter().position(|prompt| prompt.native_id == native_id);
        match place {
            Some(place) if was_queued => {
                self.prompts.remove(place);
                self.refuse_cancelled(native_id);
            }
            // It has left the queue, and its turn is about to be shown.
            Some(place) => self.prompts[place].unwanted = true,
            None if self.turn.as_ref().is_some_and(|turn| turn.prompts.contains(&native_id)) => {
                self.interrupt()
            }
            // Its turn has ended meanwhile.
            None => {}
        }
    }

    fn not_changed(&mut self, what: &str, value: &str, error: Option<String>) {
        let said = crate::claude::outcome::shorten(&error.unwrap_or_default());
        let message =
            format!("Claude Code did not accept the {what} {value:?} and keeps the last one: {said}");
        self.notice(NoticeCode::Degraded, message);
    }
}
