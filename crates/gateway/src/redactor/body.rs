//! The last look before the log: what an event says apart from streamed text. Messages of errors and notices are made in
//! many places, and not all of them by agents.

use super::redact_tool;
use std::borrow::Cow;
use turnstream_model::event::{Body, Question, Resolution, SessionPatch, TurnError};
use turnstream_redact::Rules;

/// What becomes of that which people said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prompts {
    /// It is redacted like everything else.
    Redacted,
    /// The session was made to hand over secrets.
    AsTheyAre,
}

/// Redacts what an event says. Ids, keys and the texts that came through a stream stay as they are.
pub(crate) fn redact_body(rules: &Rules, prompts: Prompts, body: &mut Body) {
    match body {
        Body::SessionCreated { title, .. } => redact_option(rules, title),
        Body::SessionUpdated(patch) => {
            let SessionPatch { title, .. } = &mut **patch;
            redact_option(rules, title);
        }
        Body::PromptAccepted { content, .. } => {
            if prompts == Prompts::Redacted {
                for block in content {
                    rules.redact_json(block);
                }
            }
        }
        Body::ItemStarted { tool, .. } | Body::ItemUpdated { tool } | Body::ItemRevised { tool, .. } => {
            if let Some(tool) = tool {
                redact_tool(rules, tool);
            }
        }
        Body::ItemEnded { reason, caused_by, .. } => {
            redact_option(rules, reason);
            redact_option(rules, caused_by);
        }
        Body::ApprovalRequested { tool, options, .. } => {
            if let Some(tool) = tool {
                redact_tool(rules, tool);
            }
            options.iter_mut().for_each(|option| redact_text(rules, &mut option.name));
        }
        Body::ApprovalResolved { resolution, .. } => {
            let Resolution { message, .. } = &mut **resolution;
            if prompts == Prompts::Redacted {
                redact_option(rules, message);
            }
        }
        Body::QuestionAsked { questions, .. } => {
            for Question { text, options, .. } in questions {
                redact_text(rules, text);
                options.iter_mut().for_each(|choice| redact_text(rules, &mut choice.label));
            }
        }
        Body::QuestionAnswered { answers, .. } => {
            if prompts == Prompts::Redacted {
                for answer in answers.iter_mut().flat_map(|answers| answers.values_mut()) {
                    rules.redact_json(answer);
                }
            }
        }
        Body::TurnEnded { error, .. } => {
            if let Some(error) = error {
                let TurnError { message, extra, .. } = &mut **error;
                redact_text(rules, message);
                for value in extra.values_mut() {
                    rules.redact_json(value);
                }
            }
        }
        Body::Notice { message, detail, .. } => {
            redact_text(rules, message);
            if let Some(detail) = detail {
                rules.redact_json(detail);
            }
        }
        Body::SessionEnded { reason } => redact_text(rules, reason),
        Body::SessionStatus(_)
        | Body::PromptSent { .. }
        | Body::PromptTaken { .. }
        | Body::PromptWithdrawn { .. }
        | Body::TurnStarted { .. }
        | Body::TurnCancelling { .. }
        | Body::AttemptStarted { .. }
        | Body::ItemDelta { .. }
        | Body::ItemReplaced { .. }
        | Body::ItemRemoved
        | Body::AttemptEnded { .. }
        | Body::AttemptSuperseded { .. }
        | Body::Unknown { .. } => {}
    }
}

/// Redacts a text in its place.
pub(super) fn redact_text(rules: &Rules, text: &mut String) {
    if let Cow::Owned(redacted) = rules.redact(text) {
        *text = redacted;
    }
}

/// Redacts a text that may not be there.
pub(super) fn redact_option(rules: &Rules, text: &mut Option<String>) {
    if let Some(text) = text {
        redact_text(rules, text);
    }
}
