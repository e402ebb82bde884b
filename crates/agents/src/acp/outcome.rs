//! How a turn failed, by the code of the JSON-RPC error and by the words that agents put beside it. The text
//! of a message decides nothing.

use super::wire::RpcError;
use crate::foreign_error::class_of_status;
pub(super) use crate::foreign_error::shorten;
use serde_json::Value;
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::signal::Ending;

/// ACP: the request was cancelled.
const CANCELLED: i64 = -32800;

/// The end of a turn whose response is an error.
pub(super) fn failed(error: &RpcError, was_cancelled: bool) -> Ending {
    if was_cancelled || error.code == CANCELLED {
        return Ending::cancelled();
    }
    Ending::failed(turn_error(error))
}

fn turn_error(error: &RpcError) -> TurnError {
    let data = error.data.as_ref();
    let word = data.and_then(word);
    let status = data.and_then(status);
    let class = status.map(class_of_status).or_else(|| word.and_then(class_of_word));
    let class = class.unwrap_or(match error.code {
        -32000 => ErrorClass::Auth,
        -32602 | -32600 => ErrorClass::InvalidRequest,
        _ => ErrorClass::AgentError,
    });
    let details = data.and_then(|data| data.get("message").or_else(|| data.get("details"))?.as_str());
    let message = match details.filter(|details| !error.message.contains(details)) {
        Some(details) => format!("{}: {details}", error.message),
        None => error.message.clone(),
    };
    let mut turn_error = TurnError::new(class, shorten(&message));
    turn_error.status = status;
    turn_error.extra.insert("code".to_owned(), Value::from(error.code));
    if let Some(word) = word {
        turn_error.extra.insert("name".to_owned(), Value::from(word));
    }
    turn_error
}

/// The word of claude-agent-acp, of codex-acp or of opencode for the error.
fn word(data: &Value) -> Option<&str> {
    let of = |member: &str| data.get(member).and_then(Value::as_str);
    of("errorKind")
        .or_else(|| of("codex_error_info"))
        .or_else(|| of("codexErrorInfo"))
        .or_else(|| of("errorName"))
}

/// The class of an error of Codex: by the status in it, or by its word. Without both, the connection broke.
pub(super) fn class_of_codex(error: &Value) -> ErrorClass {
    let info = &error["codexErrorInfo"];
    let inner = info.as_object().and_then(|info| info.values().next());
    let status = inner.and_then(status).map(class_of_status);
    let word = info.as_str().and_then(class_of_word);
    status.or(word).unwrap_or(ErrorClass::TransportLost)
}

/// The HTTP status of the provider, where an agent tells it.
fn status(data: &Value) -> Option<u16> {
    let members = ["status", "statusCode", "httpStatusCode", "http_status_code"];
    let found = members.into_iter().find_map(|member| data.get(member)?.as_u64());
    found.and_then(|status| u16::try_from(status).ok()).filter(|status| (400..600).contains(status))
}

fn class_of_word(word: &str) -> Option<ErrorClass> {
    Some(match word {
        "authentication_failed" | "unauthorized" => ErrorClass::Auth,
        "billing_error" | "usage_limit_exceeded" => ErrorClass::QuotaExhausted,
        "rate_limit" => ErrorClass::RateLimited,
        "overloaded" | "server_overloaded" | "serverOverloaded" => ErrorClass::Overloaded,
        "invalid_request" | "bad_request" => ErrorClass::InvalidRequest,
        "max_output_tokens" => ErrorClass::OutputLimit,
        "context_window_exceeded" => ErrorClass::ContextOverflow,
        "ProviderAuthError" => ErrorClass::Auth,
        "MessageOutputLengthError" => ErrorClass::OutputLimit,
        "ContextOverflowError" => ErrorClass::ContextOverflow,
        "APIError" | "server_error" | "internal_server_error" => ErrorClass::ProviderError,
        _ => return None,
    })
}
