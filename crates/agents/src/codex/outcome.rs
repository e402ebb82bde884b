//! How a turn ended, by its status and `codexErrorInfo`. A refused request (400), a cut stream and an answer
//! that is too long all say `other`, so their class is not known (captures `f_400`, `g_cut_every_time`,
//! `m_incomplete`).

use super::wire::{Turn, TurnFailure};
use crate::foreign_error::{class_of_status, shorten};
use serde_json::Value;
use turnstream_model::event::{ErrorClass, StopReason, TurnError};
use turnstream_model::signal::Ending;

/// The end of a turn, without its usage; `None` for one that goes on.
pub(super) fn ending(turn: &Turn, reported: Option<&TurnFailure>) -> Option<Ending> {
    match turn.status.as_str() {
        "inProgress" => None,
        "completed" => Some(Ending::completed(StopReason::EndTurn)),
        "interrupted" => Some(Ending::cancelled()),
        _ => {
            let unknown = TurnFailure::default();
            let failure = turn.error.as_ref().or(reported).unwrap_or(&unknown);
            Some(Ending::failed(turn_error(failure)))
        }
    }
}

fn turn_error(failure: &TurnFailure) -> TurnError {
    let info = ErrorInfo::of(failure);
    let message = match failure.message.as_str() {
        "" => "Codex gave no reason",
        message => message,
    };
    let class = info.class().unwrap_or(ErrorClass::AgentError);
    let mut error = TurnError::new(class, shorten(message));
    error.status = info.status;
    if let Some(word) = info.word {
        error.extra.insert("name".to_owned(), Value::from(word));
    }
    error
}

/// The class of an error that Codex retries. A retried status 500 has no status, and the same word as a
/// connection that broke.
pub(super) fn class_of_retry(failure: &TurnFailure) -> Option<ErrorClass> {
    let info = ErrorInfo::of(failure);
    match (info.word, info.status) {
        (Some("responseStreamDisconnected"), None) => None,
        (_, _) => info.class(),
    }
}

/// `codexErrorInfo`: a word, or an object whose only member is named by the word.
struct ErrorInfo<'a> {
    word: Option<&'a str>,
    status: Option<u16>,
}

impl<'a> ErrorInfo<'a> {
    fn of(failure: &'a TurnFailure) -> Self {
        match &failure.codex_error_info {
            Some(Value::String(word)) => Self { word: Some(word), status: None },
            Some(Value::Object(members)) => {
                let (word, details) = members
                    .iter()
                    .next()
                    .map_or((None, None), |(word, details)| (Some(word.as_str()), Some(details)));
                let status = details.and_then(|details| details.get("httpStatusCode")?.as_u64());
                Self { word, status: status.and_then(|status| u16::try_from(status).ok()) }
            }
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) | None => {
                Self { word: None, status: None }
            }
        }
    }

    fn class(&self) -> Option<ErrorClass> {
        if let Some(status) = self.status {
            return Some(class_of_status(status));
        }
        Some(match self.word? {
            "contextWindowExceeded" => ErrorClass::ContextOverflow,
            "usageLimitExceeded" | "sessionBudgetExceeded" => ErrorClass::QuotaExhausted,
            "rateLimitExceeded" => ErrorClass::RateLimited,
            "serverOverloaded" | "flexUnavailable" | "policyCapacityUnavailable" => ErrorClass::Overloaded,
            "internalServerError" | "responseTooManyFailedAttempts" => ErrorClass::ProviderError,
            "modelNotFound" => ErrorClass::ModelUnavailable,
            "unauthorized" => ErrorClass::Auth,
            "badRequest" => ErrorClass::InvalidRequest,
            "cyberPolicy" | "misalignmentPolicyViolation" => ErrorClass::Refused,
            "httpConnectionFailed" | "responseStreamConnectionFailed" => ErrorClass::Unreachable,
            "responseStreamDisconnected" => ErrorClass::TransportLost,
            // `other`, and words that this version does not know.
            _ => return None,
        })
    }
}
