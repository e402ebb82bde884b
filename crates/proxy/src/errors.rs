//! Errors in the words of each format: as a document, and inside a stream.

use bytes::Bytes;
use serde_json::{Value, json};
use std::time::Duration;
use turnstream_llm::Format;
use turnstream_llm::classify::Failure;
use turnstream_model::event::ErrorClass;

/// The code of a loss within a stream of the chat format. opencode 1.18.33 asks again only if an error has a
/// word like `unavailable` in it.
const REPEAT: &str = "service_unavailable";

/// An answer that is no stream.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
    /// The same inside a stream that has begun. `None` if it is no error.
    pub(crate) in_band: Option<Bytes>,
}

/// The document and the event of a failure.
pub(crate) fn of_failure(format: Format, failure: &Failure) -> Whole {
    let mut whole =
        refusal(format, status(format, failure.class), kind(format, failure.class), &failure.message);
    if let Some(wait) = failure.wait {
        whole.headers.push(retry_after(wait));
    }
    whole
}

/// A document of this proxy itself.
pub(crate) fn refusal(format: Format, status: u16, kind: &str, message: &str) -> Whole {
    let document = match format {
        Format::Messages => json!({"type": "error", "error": {"type": kind, "message": message}}),
        Format::Chat | Format::Responses => {
            json!({"error": {"message": message, "type": kind, "param": null, "code": kind}})
        }
    };
    Whole {
        status,
        headers: vec![("content-type".to_owned(), "application/json".to_owned())],
        body: document.to_string().into(),
        in_band: Some(in_band(format, kind, kind, message, None)),
    }
}

/// The header with a wait, rounded up.
pub(crate) fn retry_after(wait: Duration) -> (String, String) {
    let seconds = wait.as_millis().div_ceil(1000).max(1);
    ("retry-after".to_owned(), seconds.to_string())
}

/// The error event of a failure after content was sent. `last` is the frame before it.
pub(crate) fn broken(format: Format, failure: &Failure, last: Option<&[u8]>) -> Bytes {
    let kind = kind(format, failure.class);
    let code = match format {
        Format::Chat if may_be_repeated(failure.class) => REPEAT,
        Format::Chat | Format::Responses | Format::Messages => kind,
    };
    in_band(format, kind, code, &failure.message, last.and_then(sequence_number))
}

/// The format's error event. No end marker follows it.
fn in_band(format: Format, kind: &str, code: &str, message: &str, sequence: Option<u64>) -> Bytes {
    let text = match format {
        Format::Chat => {
            let error = json!({"error": {"message": message, "type": kind, "param": null, "code": code}});
            format!("data: {error}\n\n")
        }
        Format::Messages => {
            let error = json!({"type": "error", "error": {"type": kind, "message": message}});
            format!("event: error\ndata: {error}\n\n")
        }
        Format::Responses => {
            let next = sequence.map_or(0, |last| last + 1);
            let error = json!({"type": "error", "code": code, "message": message, "param": null,
                "sequence_number": next});
            format!("event: error\ndata: {error}\n\n")
        }
    };
    Bytes::from(text)
}

/// Whether another answer may be better. The same classes have a status that clients repeat.
fn may_be_repeated(class: ErrorClass) -> bool {
    matches!(status(Format::Chat, class), 502..=504)
}

/// What keeps a silent stream alive, in the words of its format. `has_begun`: an event was sent.
pub(crate) fn heartbeat(format: Format, has_begun: bool) -> Bytes {
    Bytes::from_static(match format {
        Format::Messages => b"event: ping\ndata: {\"type\": \"ping\"}\n\n",
        Format::Chat => b": keep-alive\n\n",
        // OpenAI's clients fail if the first event is not `response.created`.
        Format::Responses if !has_begun => b": keep-alive\n\n",
        Format::Responses => b"event: keepalive\ndata: {\"type\":\"keepalive\"}\n\n",
    })
}

/// The number of an event of the responses format.
fn sequence_number(frame: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(frame).ok()?;
    let data = text.lines().find_map(|line| line.strip_prefix("data:"))?;
    let event: Value = serde_json::from_str(data).ok()?;
    event.get("sequence_number")?.as_u64()
}

/// The status for a failure that has no answer of a provider to pass on.
fn status(format: Format, class: ErrorClass) -> u16 {
    match class {
        ErrorClass::RateLimited | ErrorClass::QuotaExhausted => 429,
        ErrorClass::Overloaded if format == Format::Messages => 529,
        ErrorClass::Overloaded => 503,
        ErrorClass::Auth => 401,
        // Clients would repeat a 502, and the output limit would be the same.
        ErrorClass::InvalidRequest
        | ErrorClass::ContextOverflow
        | ErrorClass::OutputLimit
        | ErrorClass::Refused => 400,
        ErrorClass::ModelUnavailable => 404,
        ErrorClass::Stalled | ErrorClass::Timeout => 504,
        ErrorClass::Internal => 500,
        ErrorClass::Unreachable
        | ErrorClass::TransportLost
        | ErrorClass::StreamCorrupt
        | ErrorClass::StreamSpliced
        | ErrorClass::Incomplete
        | ErrorClass::EmptyOutput
        | ErrorClass::ProviderError
        | ErrorClass::NotAStream
        | ErrorClass::Cancelled
        | ErrorClass::Budget
        | ErrorClass::NotStarted
        | ErrorClass::AgentExited
        | ErrorClass::AgentError => 502,
    }
}

/// The type of an error: Anthropic's words for messages, otherwise the class.
fn kind(format: Format, class: ErrorClass) -> &'static str {
    match (format, class) {
        (Format::Messages, ErrorClass::RateLimited | ErrorClass::QuotaExhausted) => "rate_limit_error",
        (Format::Messages, ErrorClass::Overloaded) => "overloaded_error",
        (Format::Messages, ErrorClass::Auth) => "authentication_error",
        (
            Format::Messages,
            ErrorClass::InvalidRequest
            | ErrorClass::ContextOverflow
            | ErrorClass::OutputLimit
            | ErrorClass::Refused,
        ) => "invalid_request_error",
        (Format::Messages, ErrorClass::ModelUnavailable) => "not_found_error",
        (Format::Messages, ErrorClass::Stalled | ErrorClass::Timeout) => "timeout_error",
        (Format::Messages, _) => "api_error",
        (Format::Chat | Format::Responses, class) => class.as_str(),
    }
}
