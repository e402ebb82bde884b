//! The models and modes that the agent offers: as config options, or in the older forms `modes` and `models`.

use super::Conversation;
use super::commands::Request;
use crate::acp::{outcome, wire};
use serde_json::{Map, Value, json};
use turnstream_adapter::Choice;
use turnstream_model::event::SessionPatch;
use turnstream_model::signal::Signal;

/// What can be chosen, and what is chosen.
#[derive(Default)]
pub(super) struct Options {
    model: Select,
    mode: Select,
}

/// One thing that can be chosen.
#[derive(Default)]
struct Select {
    /// The id of the config option; `None` for the older form.
    config: Option<String>,
    current: Option<String>,
    choices: Vec<Choice>,
}

impl Options {
    /// Reads what the answer about a session offers.
    pub(super) fn read(&mut self, session: &Value) {
        self.mode = Select::older(&session["modes"], "currentModeId", "availableModes", "id");
        self.model = Select::older(&session["models"], "currentModelId", "availableModels", "modelId");
        self.read_configs(&session["configOptions"]);
    }

    /// Reads config options, which win over the older form.
    fn read_configs(&mut self, options: &Value) {
        for option in options.as_array().into_iter().flatten() {
            let target = match option["category"].as_str().or_else(|| option["id"].as_str()) {
                Some("model") => &mut self.model,
                Some("mode") => &mut self.mode,
                Some(_) | None => continue,
            };
            if let Some(select) = Select::config(option) {
                *target = select;
            }
        }
    }

    pub(super) fn model(&self) -> Option<&String> {
        self.model.current.as_ref()
    }

    pub(super) fn mode(&self) -> Option<&String> {
        self.mode.current.as_ref()
    }

    /// What is chosen, for the log.
    pub(super) fn patch(&self) -> SessionPatch {
        let (model, mode) = (self.model.current.clone(), self.mode.current.clone());
        SessionPatch { model, mode, ..SessionPatch::default() }
    }
}

impl Select {
    fn older(state: &Value, current: &str, available: &str, id: &str) -> Self {
        let choice = |choice: &Value| {
            let about = choice["description"].as_str().map(str::to_owned);
            Some(Choice { id: choice[id].as_str()?.to_owned(), about })
        };
        Self {
            config: None,
            current: state[current].as_str().map(str::to_owned),
            choices: state[available].as_array().into_iter().flatten().filter_map(choice).collect(),
        }
    }

    fn config(option: &Value) -> Option<Self> {
        let id = option["id"].as_str()?;
        let options = option["options"].as_array()?;
        // A group has options of its own.
        let flat = options.iter().flat_map(|option| match option["options"].as_array() {
            Some(inner) => inner.iter().collect(),
            None => vec![option],
        });
        let choice = |option: &Value| {
            let about = option["description"].as_str().or_else(|| option["name"].as_str());
            Some(Choice { id: option["value"].as_str()?.to_owned(), about: about.map(str::to_owned) })
        };
        Some(Self {
            config: Some(id.to_owned()),
            current: option["currentValue"].as_str().map(str::to_owned),
            choices: flat.filter_map(choice).collect(),
        })
    }
}

impl Conversation {
    /// The models that the agent offers.
    pub(in crate::acp) fn models(&self) -> &[Choice] {
        &self.options.model.choices
    }

    /// The modes that the agent offers.
    pub(in crate::acp) fn modes(&self) -> &[Choice] {
        &self.options.mode.choices
    }

    /// Asks the agent to use these.
    pub(super) fn change(&mut self, model: Option<String>, mode: Option<String>) {
        let session = self.native_id().unwrap_or_default().to_owned();
        if let Some(value) = model {
            let (method, params) = match &self.options.model.config {
                Some(config) => set_config(&session, config, &value),
                None => ("session/set_model", json!({"sessionId": session, "modelId": value})),
            };
            self.request(method, params, Request::Set { what: "model", value });
        }
        if let Some(value) = mode {
            let (method, params) = match &self.options.mode.config {
                Some(config) => set_config(&session, config, &value),
                None => ("session/set_mode", json!({"sessionId": session, "modeId": value})),
            };
            self.request(method, params, Request::Set { what: "mode", value });
        }
    }

    /// The agent uses what it was asked to use.
    pub(super) fn changed(&mut self, what: &'static str, value: String, answer: &Value) {
        let select = if what == "model" { &mut self.options.model } else { &mut self.options.mode };
        select.current = Some(value);
        self.options.read_configs(&answer["configOptions"]);
        self.signal(Signal::Session(self.options.patch()));
    }

    pub(super) fn mode_changed(&mut self, update: &Map<String, Value>) {
        if let Some(mode) = wire::text(update, "currentModeId") {
            self.options.mode.current = Some(mode.to_owned());
            self.signal(Signal::Session(self.options.patch()));
        }
    }

    pub(super) fn options_changed(&mut self, update: &Map<String, Value>) {
        self.options.read_configs(update.get("configOptions").unwrap_or(&Value::Null));
        self.signal(Signal::Session(self.options.patch()));
    }

    pub(super) fn session_info(&mut self, update: &Map<String, Value>) {
        if let Some(codex) = update.get("_meta").map(|meta| &meta["codex"]) {
            self.codex_state(codex);
        }
        if let Some(title) = wire::text(update, "title") {
            let patch = SessionPatch { title: Some(title.to_owned()), ..SessionPatch::default() };
            self.signal(Signal::Session(patch));
        }
    }
}

impl Conversation {
    /// What codex-acp tells beside ACP's members. It is the only sign of a repeated call, and of a failed
    /// turn, whose response says `end_turn` (captures codex-acp_2.6.0_error and _cancel).
    fn codex_state(&mut self, codex: &Value) {
        let Some(prompt) = &mut self.prompt else { return };
        if let Some(status) = codex["threadStatus"]["type"].as_str() {
            prompt.failed = status == "systemError" || (prompt.failed && status == "idle");
        }
        let error = &codex["error"];
        if error["willRetry"].as_bool() == Some(true) {
            let message = error["message"].as_str().map(outcome::shorten);
            let (attempt, reason, until) = (None, Some(outcome::class_of_codex(error)), None);
            self.signal(Signal::Retrying { attempt, reason, until, message });
        }
    }
}

fn set_config(session: &str, config: &str, value: &str) -> (&'static str, Value) {
    ("session/set_config_option", json!({"sessionId": session, "configId": config, "value": value}))
}
