//! How a turn ended, by the members of its `result`. `subtype` alone says nothing: it is `success` also for
//! a provider failure (capture `f_500_exhausted`).

use super::wire::Line;
pub(super) use crate::foreign_error::{class_of_status, shorten};
use crate::program::CLAUDE;
use serde_json::Value;
use turnstream_model::event::{ErrorClass, StopReason, TurnError};
use turnstream_model::signal::Ending;

/// An error that the agent wrote as a message of the model.
pub(super) struct AgentMessageError {
    /// The agent's word for it.
    pub(super) word: Option<String>,
    pub(super) message: String,
    pub(super) request_id: Option<String>,
}

/// The end of the turn, without its usage.
pub(super) fn ending(result: &Line<'_>, error: Option<&AgentMessageError>, interrupted: bool) -> Ending {
    let stop_reason = result.stop_reason.as_deref();
    if result.is_aborted() {
        return Ending::cancelled();
    }
    if result.terminal_reason.as_deref() == Some("max_turns") {
        return Ending::completed(StopReason::MaxTurnRequests);
    }
    if stop_reason == Some("refusal") {
        return Ending::completed(StopReason::Refusal);
    }
    if !result.is_error {
        return Ending::completed(stop_of(stop_reason));
    }
    // The agent reports an interrupted wait for a retry as an error.
    if interrupted && result.api_error_status.is_none() {
        return Ending::cancelled();
    }
    Ending::failed(turn_error(result, error))
}

/// The stop reason of a completed turn, by that of its last model call.
pub(super) fn stop_of(stop_reason: Option<&str>) -> StopReason {
    match stop_reason {
        Some("max_tokens" | "model_context_window_exceeded") => StopReason::MaxTokens,
        Some("refusal") => StopReason::Refusal,
        Some(_) | None => StopReason::EndTurn,
    }
}

fn turn_error(result: &Line<'_>, error: Option<&AgentMessageError>) -> TurnError {
    let word = error.and_then(|error| error.word.as_deref());
    let class = match result.api_error_status {
        Some(status) => class_of_status(status),
        // The turn did not even begin, or the agent itself failed.
        None if result.subtype != "success" => ErrorClass::AgentError,
        None => class_of_word(word),
    };
    let texts = result.result.iter().chain(&result.errors).map(String::as_str);
    let said = texts.chain(error.map(|error| error.message.as_str())).find(|text| !text.is_empty());
    let mut message = shorten(said.unwrap_or("the agent gave no reason"));
    // The agent names a command of its own terminal interface.
    if class == ErrorClass::Auth
        && result.api_error_status.is_none()
        && let Some(login) = &CLAUDE.login
    {
        message += &format!("; in a terminal: `{}`", login.command);
    }
    let mut turn_error = TurnError::new(class, message);
    turn_error.status = result.api_error_status;
    turn_error.request_id = error.and_then(|error| error.request_id.clone());
    if let Some(word) = word {
        turn_error.extra.insert("name".to_owned(), Value::from(word));
    }
    turn_error
}

/// The class of the agent's own word, if no answer of the provider has a status: the connection failed.
pub(super) fn class_of_word(word: Option<&str>) -> ErrorClass {
    match word {
        Some("authentication_failed") => ErrorClass::Auth,
        Some("billing_error") => ErrorClass::QuotaExhausted,
        Some("rate_limit") => ErrorClass::RateLimited,
        Some("overloaded") => ErrorClass::Overloaded,
        Some("invalid_request") => ErrorClass::InvalidRequest,
        Some("max_output_tokens") => ErrorClass::OutputLimit,
        // `server_error` and `unknown` are also the words for a broken connection (capture g_cut_every_time).
        Some(_) | None => ErrorClass::TransportLost,
    }
}
