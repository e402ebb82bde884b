//! The errors of opencode as errors of a turn. The class comes from names and status codes, never from prose.

use super::info::AgentError;
use serde_json::Value;
use turnstream_model::event::{ErrorClass, TurnError};

/// The most characters of an error message that are kept.
const SHOWN: usize = 200;

/// An error of opencode as the error of a turn. It holds the provider's headers: of those only the request
/// id is kept.
pub(crate) fn turn_error(error: &AgentError) -> TurnError {
    let AgentError { name, data } = error;
    let status = data.get("statusCode").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok());
    let said = data.get("message").and_then(Value::as_str).filter(|said| !said.is_empty()).unwrap_or(name);
    let mut turn_error = TurnError::new(class(name, status), shorten(said));
    turn_error.status = status;
    turn_error.request_id = request_id(data.get("responseHeaders"));
    turn_error.extra.insert("name".to_owned(), Value::from(name.as_str()));
    turn_error
}

/// The beginning of a foreign text.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn class(name: &str, status: Option<u16>) -> ErrorClass {
    match name {
        "MessageAbortedError" => ErrorClass::Cancelled,
        "ProviderAuthError" => ErrorClass::Auth,
        "MessageOutputLengthError" => ErrorClass::OutputLimit,
        "ContextOverflowError" => ErrorClass::ContextOverflow,
        "ContentFilterError" => ErrorClass::Refused,
        "ProviderModelNotFoundError" => ErrorClass::ModelUnavailable,
        "APIError" => status.map_or(ErrorClass::ProviderError, class_of_status),
        _ => ErrorClass::AgentError,
    }
}

/// The class of an HTTP status of a provider or of opencode.
pub(crate) fn class_of_status(status: u16) -> ErrorClass {
    match status {
        401 | 403 => ErrorClass::Auth,
        402 => ErrorClass::QuotaExhausted,
        408 | 504 => ErrorClass::Timeout,
        413 => ErrorClass::ContextOverflow,
        429 => ErrorClass::RateLimited,
        503 | 529 => ErrorClass::Overloaded,
        400..=499 => ErrorClass::InvalidRequest,
        _ => ErrorClass::ProviderError,
    }
}

fn request_id(headers: Option<&Value>) -> Option<String> {
    let headers = headers?.as_object()?;
    let names = ["x-request-id", "request-id", "x-amzn-requestid", "cf-ray"];
    names.iter().find_map(|name| headers.get(*name)?.as_str()).map(str::to_owned)
}
