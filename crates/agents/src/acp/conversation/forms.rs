//! Questions of the agent: a form (`elicitation/create`), each field of which is one question.

use super::Conversation;
use super::lines::BAD_PARAMS;
use super::tool_keys::Mention;
use crate::acp::wire;
use crate::form::Form;
use serde_json::{Map, Value, json};
use turnstream_model::event::QuestionOutcome;
use turnstream_model::id::Key;
use turnstream_model::signal::Signal;

/// A form that waits for an answer.
pub(super) struct OpenForm {
    /// The agent's request id.
    id: Value,
    form: Form,
}

impl OpenForm {
    pub(super) fn id(&self) -> &Value {
        &self.id
    }
}

impl Conversation {
    pub(super) fn form(&mut self, id: Value, params: &Map<String, Value>) {
        let mode = wire::text(params, "mode").unwrap_or("form");
        if mode != "form" {
            let message = format!("the gateway offers forms, and not the mode {mode:?}");
            return self.refuse(&id, BAD_PARAMS, message);
        }
        let form = Form::new(params.get("requestedSchema"));
        let questions = form.questions(wire::text(params, "message").unwrap_or_default());
        let key = self.key_of(&id);
        if self.forms.contains_key(&key) {
            return;
        }
        if self.is_cancelled() {
            return self.respond(&id, Ok(json!({"action": "cancel"})));
        }
        self.end_text();
        let item = wire::text(params, "toolCallId").map(|id| self.tool_key(id, Mention::Update));
        self.forms.insert(key.clone(), OpenForm { id, form });
        self.signal(Signal::Question { key, item, questions });
    }

    pub(super) fn answer(&mut self, key: &Key, outcome: QuestionOutcome, answers: &Map<String, Value>) {
        let Some(OpenForm { id, form }) = self.forms.remove(key) else { return };
        self.respond(&id, Ok(form.answer(outcome, answers)));
    }
}
