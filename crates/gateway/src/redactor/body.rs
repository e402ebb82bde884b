//! The last look before the log: what an event says apart from streamed text. Messages of errors and notices are made in
//! many places, and not all of them by agents.

use serde_json::{Map, Value};
use std::borrow::Cow;
use turnstream_model::event::{ApprovalOption, Body, Cost, Status, TurnError, Usage};
use turnstream_redact::Rules;

/// What becomes of that which people said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prompts {
    /// It is redacted like everything else.
    Redacted,
    /// The session was made to hand over secrets.
    AsTheyAre,
}

/// Redacts what an event says that was not redacted on its way: tools, titles, questions and streamed texts were before the machine
/// saw them, what people say at the door. Not once more: a value from configuration may stand in a marker, and then twice is
/// not once, and the agent would be sent something else than was kept. Ids and keys stay as they are.
pub(crate) fn redact_body(rules: &Rules, body: &mut Body) {
    match body {
        Body::ItemEnded { reason, caused_by, .. } => {
            redact_option(rules, reason);
            redact_option(rules, caused_by);
        }
        Body::ApprovalRequested { options, .. } => {
            for ApprovalOption { name, extra, .. } in options {
                redact_text(rules, name);
                redact_members(rules, extra);
            }
        }
        Body::AttemptStarted { model, .. } => redact_option(rules, model),
        Body::AttemptEnded { finish, usage, cost } => {
            redact_option(rules, finish);
            redact_usage(rules, usage);
            redact_cost(rules, cost);
        }
        Body::TurnEnded { error, usage, cost, .. } => {
            if let Some(error) = error {
                let TurnError { message, request_id, extra, class: _, status: _, retry_at: _ } = &mut **error;
                redact_text(rules, message);
                redact_option(rules, request_id);
                redact_members(rules, extra);
            }
            redact_usage(rules, usage);
            redact_cost(rules, cost);
        }
        Body::Notice { message, detail, .. } => {
            redact_text(rules, message);
            if let Some(detail) = detail {
                rules.redact_json(detail);
            }
        }
        Body::SessionEnded { reason } => redact_text(rules, reason),
        Body::SessionStatus(Status::Retrying { message, .. }) => redact_option(rules, message),
        Body::SessionStatus(Status::Idle | Status::Busy | Status::Waiting | Status::Recovering)
        | Body::SessionCreated { .. }
        | Body::SessionUpdated(_)
        | Body::PromptAccepted { .. }
        | Body::PromptSent { .. }
        | Body::PromptTaken { .. }
        | Body::PromptWithdrawn { .. }
        | Body::PromptCancelling { .. }
        | Body::TurnStarted { .. }
        | Body::TurnCancelling { .. }
        | Body::ItemStarted { .. }
        | Body::ItemDelta { .. }
        | Body::ItemReplaced { .. }
        | Body::ItemUpdated { .. }
        | Body::ItemRevised { .. }
        | Body::ItemRemoved
        | Body::AttemptSuperseded { .. }
        | Body::QuestionAsked { .. }
        | Body::ApprovalResolved { .. }
        | Body::QuestionAnswered { .. }
        | Body::Unknown { .. } => {}
    }
}

fn redact_usage(rules: &Rules, usage: &mut Option<Box<Usage>>) {
    if let Some(usage) = usage {
        redact_members(rules, &mut usage.extra);
    }
}

fn redact_cost(rules: &Rules, cost: &mut Option<Cost>) {
    if let Some(Cost { currency, extra, amount: _ }) = cost {
        redact_text(rules, currency);
        redact_members(rules, extra);
    }
}

/// Redacts the values of members, by their names too.
pub(super) fn redact_members(rules: &Rules, members: &mut Map<String, Value>) {
    let mut whole = Value::Object(std::mem::take(members));
    rules.redact_json(&mut whole);
    if let Value::Object(redacted) = whole {
        *members = redacted;
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
