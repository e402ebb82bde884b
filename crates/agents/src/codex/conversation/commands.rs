//! Commands of the keeper as requests to the server, and its answers to our requests.

use super::Conversation;
use crate::codex::wire::{ModelList, RpcError, StartedTurn};
use crate::codex::{mode, prompt_content};
use crate::foreign_error::shorten;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use turnstream_adapter::{Choice, Command};
use turnstream_model::event::{ErrorClass, NoticeCode, SessionPatch, TurnError};
use turnstream_model::signal::{Need, Signal};
use turnstream_model::time::Time;

/// A request that the server has not answered yet.
pub(super) enum Request {
    Initialize,
    OpenThread,
    Models,
    StartTurn(SentPrompt),
    Interrupt,
    /// The turns of the thread.
    Turns,
    /// The thread of a subagent.
    OpenChild(String),
    /// The turns of a subagent.
    ChildTurns(String),
}

/// A prompt without a turn.
pub(super) struct SentPrompt {
    pub(super) native_id: String,
    /// It is to be stopped when it starts.
    pub(super) unwanted: bool,
}

impl Conversation {
    /// Handles a command of the keeper.
    pub fn command(&mut self, command: Command, now: Time) {
        self.now = now;
        match command {
            Command::Prompt { native_id, content } => self.prompt(native_id, &content),
            Command::Cancel => self.interrupt(),
            Command::CancelPrompt(native_id) => self.cancel_prompt(native_id),
            // A decision of Codex has no place for a message.
            Command::Approve { key, outcome, option, message: _ } => {
                self.approve(&key, outcome, option.as_deref());
            }
            Command::Answer { key, outcome, answers } => self.answer(&key, outcome, answers),
            // The keeper itself answers permissions by its rule.
            Command::Change { model, mode, permissions: _ } => self.change(model, mode),
            Command::Fetch(Need::StatusProbe(turn)) => {
                self.probes.push(turn);
                // A comparison that has begun answers it.
                if self.held.is_none() {
                    self.list_turns();
                }
            }
            // The server cannot be asked for one, and its text comes whole.
            Command::Fetch(Need::Item(_)) => {}
        }
    }

    fn prompt(&mut self, native_id: String, content: &[Value]) {
        let input = match prompt_content::input(content) {
            Ok(input) => input,
            Err(refused) => {
                let error = TurnError::new(ErrorClass::InvalidRequest, refused.to_string());
                return self.signal(Signal::PromptRefused { native_id, error });
            }
        };
        let mut params = json!({"threadId": self.thread, "input": input, "clientUserMessageId": native_id});
        if let Some(model) = self.changed.model.take() {
            params["model"] = Value::from(model);
        }
        if let Some(mode) = self.changed.mode.take() {
            let model = self.settings.model.as_deref().unwrap_or_default();
            mode::add_to_turn(&mut params, &mode, model);
        }
        // The thread has a turn from now on.
        self.begins_anew = false;
        let prompt = SentPrompt { native_id, unwanted: false };
        self.request("turn/start", params, Request::StartTurn(prompt));
    }

    /// The next turn uses these settings, and the later ones too.
    fn change(&mut self, model: Option<String>, mode: Option<String>) {
        if let Some(mode) = &mode
            && !mode::exists(mode)
        {
            let message =
                format!("Codex has no mode {mode:?} and keeps the last one; it has {}", mode::names());
            return self.notice(NoticeCode::Degraded, message);
        }
        if let Some(model) = &model {
            self.settings.model = Some(model.clone());
        }
        self.changed.model = model.clone().or(self.changed.model.take());
        self.changed.mode = mode.clone().or(self.changed.mode.take());
        self.signal(Signal::Session(SessionPatch { model, mode, ..SessionPatch::default() }));
    }

    /// Stops the running turn. Without one, its end is already on its way to the keeper.
    pub(super) fn interrupt(&mut self) {
        let Some(turn) = &self.turn else { return };
        let params = json!({"threadId": self.thread, "turnId": turn.id});
        self.request("turn/interrupt", params, Request::Interrupt);
    }

    fn cancel_prompt(&mut self, native_id: String) {
        let requested = self.requests.values_mut().filter_map(|request| match request {
            Request::StartTurn(prompt) => Some(prompt),
            _ => None,
        });
        let mut sent = requested.chain(&mut self.unanswered);
        if let Some(prompt) = sent.find(|prompt| prompt.native_id == native_id) {
            // Its turn has no id yet.
            prompt.unwanted = true;
        } else if self.turn.as_ref().is_some_and(|turn| turn.prompts.contains(&native_id)) {
            self.interrupt();
        } else {
            self.signal(Signal::PromptRefused { native_id, error: cancelled() });
        }
    }

    /// The server's answer to one of our requests.
    pub(super) fn response(&mut self, id: &Value, result: Option<&RawValue>, error: Option<&RpcError>) {
        let Some(request) = id.as_u64().and_then(|id| self.requests.remove(&id)) else { return };
        let refusal = RpcError { message: "the answer cannot be read".to_owned() };
        match request {
            Request::Initialize => match error {
                None => self.initialized(),
                Some(error) => self.opening_failed("initialize", error),
            },
            Request::OpenThread => match read(result) {
                Some(opened) => self.thread_opened(opened),
                None => self.opening_failed("its thread", error.unwrap_or(&refusal)),
            },
            Request::Models => {
                let list: ModelList = read(result).unwrap_or_default();
                let choice = |model: crate::codex::wire::Model| {
                    let id = if model.id.is_empty() { model.model } else { model.id };
                    Choice { id, about: Some(model.description).filter(|about| !about.is_empty()) }
                };
                self.models = list.data.into_iter().filter(|model| !model.hidden).map(choice).collect();
            }
            Request::StartTurn(prompt) => match read::<StartedTurn>(result) {
                Some(started) => self.prompt_started(prompt, started.turn.id),
                None => {
                    let message = shorten(&error.unwrap_or(&refusal).message);
                    let error = TurnError::new(ErrorClass::AgentError, message);
                    self.signal(Signal::PromptRefused { native_id: prompt.native_id, error });
                }
            },
            Request::Interrupt => {
                // The turn has not begun yet, or it has just ended.
                if error.is_some() {
                    self.interrupt_when_seen();
                }
            }
            Request::Turns => match read(result) {
                Some(list) => self.compare(list),
                None => self.cannot_compare(&error.unwrap_or(&refusal).message),
            },
            Request::OpenChild(thread) => self.child_opened(thread, read(result)),
            Request::ChildTurns(thread) => self.child_turns(&thread, read(result).unwrap_or_default()),
        }
    }

    /// The open turn is stopped when it shows itself.
    pub(super) fn interrupt_when_seen(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.interrupt_again = true;
        }
    }

    /// The last interrupt came before the turn had begun, or was lost, and the turn shows itself now.
    pub(super) fn interrupt_again(&mut self) {
        if self.turn.as_mut().is_some_and(|turn| std::mem::take(&mut turn.interrupt_again)) {
            self.interrupt();
        }
    }
}

/// Why a prompt that was cancelled has no turn.
pub(super) fn cancelled() -> TurnError {
    TurnError::new(ErrorClass::Cancelled, "the prompt was cancelled before it began")
}

fn read<'a, T: serde::Deserialize<'a>>(result: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(result?.get()).ok()
}
