//! The log of the gateway, as messages for the editor.

use super::asks::Ask;
use super::prompts::InFlight;
use super::work::Work;
use super::{Next, Session, unreachable};
use crate::capabilities::KEY;
use crate::output::{EditorGone, write_response};
use agent_client_protocol_schema::v1::{
    ConfigOptionUpdate, CurrentModeUpdate, Meta, Notice, NoticeSeverity, PromptResponse, SessionUpdate,
    StopReason,
};
use serde_json::{Value, json};
use std::fmt::Write;
use tokio::time::Instant;
use turnstream_client::{ClientError, Received};
use turnstream_dialects::acp::{AcpEvent, Encoder};
use turnstream_model::event::{Body, Event, NoticeCode, Status};
use turnstream_model::id::PromptId;

/// Lines are sent when they are this long.
const LONG: usize = 256 * 1024;

impl Session {
    pub(super) async fn received(
        &mut self,
        received: Result<Received, ClientError>,
    ) -> Result<Next, EditorGone> {
        let mut received = match received {
            Ok(received) => Some(received),
            Err(error) => {
                self.fail_prompts(&format!("the session cannot be followed any more: {error}"));
                return Ok(Next::End);
            }
        };
        // All that arrived together leaves together.
        while let Some(one) = received {
            match one {
                Received::Event { line, .. } => self.event(&line),
                Received::Outcome(outcome) => {
                    if self.outcome(&outcome).await? == Next::End {
                        return Ok(Next::End);
                    }
                }
                Received::Away(error) => {
                    self.away.get_or_insert_with(Instant::now);
                    let told = "The gateway does not answer. Trying to reconnect.";
                    self.notice(NoticeSeverity::Warning, told, Some(error.to_string()));
                }
            }
            if self.lines.len() > LONG {
                self.flush().await?;
            }
            received = self.events.ready();
        }
        Ok(Next::Stay)
    }

    fn event(&mut self, line: &str) {
        let event = match Event::from_json(line) {
            Ok(event) => event,
            Err(error) => {
                tracing::warn!(session = self.gateway_id, %error, "an event of another version is left out");
                return;
            }
        };
        self.prompts.note(&event.draft);
        self.work.note(&event.draft);
        let mut messages = std::mem::take(&mut self.messages);
        self.encoder.encode(&event, &mut messages);
        messages.drain(..).for_each(|message| self.write(message));
        self.messages = messages;
        match &event.draft.body {
            Body::SessionUpdated(patch) => {
                self.change(patch.model.as_deref(), patch.mode.as_deref());
            }
            Body::PromptAccepted { .. } if !self.settings.has_begun => {
                self.settings.has_begun = true;
                self.show_options();
            }
            Body::TurnStarted { .. }
            | Body::TurnEnded { .. }
            | Body::PromptWithdrawn { .. }
            | Body::PromptAccepted { .. }
            | Body::PromptSent { .. }
            | Body::PromptTaken { .. } => {}
            _ => return,
        }
        self.ask_to_cancel();
    }

    /// The model or the mode is another one now. The editor is told if it does not know.
    pub(super) fn change(&mut self, model: Option<&str>, mode: Option<&str>) {
        let settings = &mut self.settings;
        let is_new_model = model.is_some_and(|model| settings.model.as_deref() != Some(model));
        let is_new_mode = mode.is_some_and(|mode| settings.mode.as_deref() != Some(mode));
        if is_new_model {
            settings.model = model.map(str::to_owned);
        }
        if let (true, Some(mode)) = (is_new_mode, mode) {
            settings.mode = Some(mode.to_owned());
            self.write_update(SessionUpdate::CurrentModeUpdate(CurrentModeUpdate::new(mode.to_owned())));
        }
        if is_new_model || is_new_mode {
            self.show_options();
        }
    }

    pub(super) fn show_options(&mut self) {
        let options = self.settings.options();
        self.write_update(SessionUpdate::ConfigOptionUpdate(ConfigOptionUpdate::new(options)));
    }

    /// What happened to our place in the log.
    async fn outcome(&mut self, outcome: &Value) -> Result<Next, EditorGone> {
        let was_away = self.away.take().is_some();
        match outcome["outcome"].as_str() {
            Some("gone") => {
                self.fail_prompts("the session was deleted");
                return Ok(Next::End);
            }
            Some("reset") => {
                // The log does not continue what the editor has. It can load the session again.
                let told = "The conversation was changed elsewhere. Load the session again to see it.";
                self.notice(NoticeSeverity::Warning, told, outcome["reason"].as_str().map(str::to_owned));
                self.fail_unanswered("the log of the session does not continue; load the session again");
                match super::open::Current::read(&self.shared.client, &self.id).await {
                    Ok(current) => {
                        let cursor = current.cursor();
                        self.encoder = Encoder::resume(&current.snapshot.state);
                        self.work = Work::of(&current.snapshot.state);
                        self.prompts.catch_up(&current.snapshot.state, self.is_sending);
                        self.follow(&cursor);
                        self.ask_to_cancel();
                    }
                    Err(error) => {
                        tracing::warn!(session = self.gateway_id, ?error, "the session cannot be read again");
                        return Ok(Next::End);
                    }
                }
            }
            Some(_) | None if was_away => {
                self.notice(NoticeSeverity::Info, "The gateway is back.", None);
            }
            Some(_) | None => {}
        }
        Ok(Next::Stay)
    }

    /// Writes one message, if the editor has a use for it.
    pub(super) fn write(&mut self, message: AcpEvent) {
        let announced = self.shared.announced;
        match &message {
            // The editor has what it sent.
            AcpEvent::Prompt { prompt, .. } if self.prompts.is_ours(prompt) => return,
            // Editors without our extensions cannot tell the words of a subagent from those of the agent.
            AcpEvent::Chunk(chunk) if chunk.tag.parent.is_some() && !announced.extensions => return,
            // It says nothing but what is in `_meta`.
            AcpEvent::ToolText(_) if !announced.extensions => return,
            AcpEvent::Chunk(_)
            | AcpEvent::Prompt { .. }
            | AcpEvent::ToolText(_)
            | AcpEvent::Update { .. } => {}
            AcpEvent::Permission(permission) => {
                let id = permission.approval.as_str().to_owned();
                self.asks.open(&id, Ask::Permission(permission.clone()));
            }
            AcpEvent::Question(question) => {
                let id = question.question.as_str().to_owned();
                if announced.forms {
                    self.asks.open(&id, Ask::Form(question.questions.clone()));
                    question.write_elicitation(&self.id, &mut self.lines);
                    self.lines.push(b'\n');
                    return;
                }
                if !announced.extensions {
                    let first = question.questions.first().map(|asked| asked.text.clone());
                    let told =
                        format!("The agent has a question. To answer: turnstream answer {}", self.gateway_id);
                    return self.notice(NoticeSeverity::Warning, &told, first);
                }
                self.asks.open(&id, Ask::Question);
            }
            // Only a request that is still open is cancelled.
            AcpEvent::PermissionSettled { approval, .. } => {
                if self.asks.close(approval.as_str()).is_none() {
                    return;
                }
            }
            AcpEvent::QuestionSettled { question, .. } => {
                if self.asks.close(question.as_str()).is_none() {
                    return;
                }
            }
            AcpEvent::End(end) => {
                if self.answer(&end.prompts, &message) || !announced.extensions {
                    return;
                }
            }
            AcpEvent::Error(fault) => {
                if self.answer(&fault.prompts, &message) || !announced.extensions {
                    return;
                }
            }
            AcpEvent::Withdrawn(prompt) => {
                if self.answer(std::slice::from_ref(prompt), &message) || !announced.extensions {
                    return;
                }
            }
            AcpEvent::Status(status) => {
                if let Status::Retrying { .. } = status {
                    let (title, description) = retrying(status);
                    self.notice(NoticeSeverity::Warning, &title, description);
                }
                if !announced.extensions {
                    return;
                }
            }
            AcpEvent::Notice(notice) => {
                let severity = match notice.code {
                    NoticeCode::Healed | NoticeCode::Repaired | NoticeCode::Late => NoticeSeverity::Info,
                    _ => NoticeSeverity::Warning,
                };
                let title = notice.message.clone();
                self.notice(severity, &title, None);
                if !announced.extensions {
                    return;
                }
            }
            AcpEvent::Item(_)
            | AcpEvent::Revised(_)
            | AcpEvent::SessionEnded { .. }
            | AcpEvent::KeepAlive => {
                if !announced.extensions {
                    return;
                }
            }
        }
        message.write_json(&self.id, &mut self.lines);
        self.lines.push(b'\n');
    }

    pub(super) fn write_update(&mut self, update: SessionUpdate) {
        AcpEvent::Update { update: Box::new(update), parent: None }.write_json(&self.id, &mut self.lines);
        self.lines.push(b'\n');
    }

    /// Something for the person at the editor, if the editor shows such things.
    pub(super) fn notice(&mut self, severity: NoticeSeverity, title: &str, description: Option<String>) {
        if self.shared.announced.notices && !title.is_empty() {
            self.write_update(SessionUpdate::Notice(Notice::new(severity, title).description(description)));
        }
    }

    /// Answers our prompts among these, once each. Returns whether there was one.
    fn answer(&mut self, prompts: &[PromptId], end: &AcpEvent) -> bool {
        let mut is_any = false;
        for prompt in prompts {
            // One that was given up has its answer.
            let Some(one) = self.prompts.take(prompt) else { continue };
            let Some(request) = one.request else { continue };
            is_any = true;
            match one.cancel {
                // After a cancel the protocol knows one answer, whatever the agent made of it.
                Some(_) => write_response(&request, &Ok(cancelled(end)), &mut self.lines),
                None => {
                    end.write_response(&request, &mut self.lines);
                    self.lines.push(b'\n');
                }
            }
        }
        is_any
    }

    /// Answers a prompt that could not be sent, or that the gateway refused.
    pub(super) fn refuse_prompt(&mut self, key: &str, error: &ClientError) {
        let refused =
            if error.may_pass() { self.prompts.take_in_doubt(key) } else { self.prompts.take_refused(key) };
        let Some(InFlight { request: Some(request), cancel, .. }) = refused else { return };
        let answer = match (cancel, error) {
            (Some(_), _) => Ok(PromptResponse::new(StopReason::Cancelled)),
            (None, ClientError::Unreachable { .. }) => Err(unreachable(&error.to_string())),
            (None, _) => Err(crate::problem::error(error)),
        };
        write_response(&request, &answer, &mut self.lines);
    }
}

/// The answer to a prompt that the editor cancelled. `_meta` says how the turn really ended.
fn cancelled(end: &AcpEvent) -> PromptResponse {
    let meta = match end {
        AcpEvent::End(end) => end.response.meta.clone(),
        AcpEvent::Error(fault) => {
            let ours = json!({"turn": fault.turn, "outcome": fault.outcome, "error": fault.to_error()});
            Some(Meta::from_iter([(KEY.to_owned(), ours)]))
        }
        _ => None,
    };
    PromptResponse::new(StopReason::Cancelled).meta(meta)
}

/// What a person reads about a model call that is repeated.
fn retrying(status: &Status) -> (String, Option<String>) {
    let Status::Retrying { attempt, reason, until, message } = status else {
        return (String::new(), None);
    };
    let mut title = "Retrying the model call".to_owned();
    // Writing to a `String` does not fail.
    if let Some(reason) = reason {
        let _ = write!(title, " after {}", reason.as_str().replace('_', " "));
    }
    if let Some(attempt) = attempt {
        let _ = write!(title, ", attempt {attempt}");
    }
    let until = until.map(|until| {
        let seconds = until.0 / 1_000;
        format!(
            "Next attempt at {:02}:{:02}:{:02} UTC.",
            seconds / 3_600 % 24,
            seconds / 60 % 60,
            seconds % 60
        )
    });
    let description = [message.clone(), until].into_iter().flatten().collect::<Vec<_>>().join("\n");
    (title, Some(description).filter(|description| !description.is_empty()))
}
