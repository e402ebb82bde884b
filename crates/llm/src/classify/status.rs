//! The class of an HTTP status, for responses whose body says nothing more specific.

use turnstream_model::event::ErrorClass;

/// The class of an error status; `None` if the status is not an error.
pub(super) fn class(status: u16) -> Option<ErrorClass> {
    match status {
        // Redirects are never followed, since that would be another POST. The route's URL is wrong.
        300..=399 => Some(ErrorClass::InvalidRequest),
        401 | 403 | 407 => Some(ErrorClass::Auth),
        402 => Some(ErrorClass::QuotaExhausted),
        404 | 410 => Some(ErrorClass::ModelUnavailable),
        // Timeouts and conflicts of the server: it asks for the same request again.
        // 424: the model behind Bedrock failed.
        408 | 409 | 424 | 425 => Some(ErrorClass::ProviderError),
        413 => Some(ErrorClass::ContextOverflow),
        429 => Some(ErrorClass::RateLimited),
        // Groq: no capacity for flex requests.
        498 => Some(ErrorClass::Overloaded),
        400..=499 => Some(ErrorClass::InvalidRequest),
        503 | 529 => Some(ErrorClass::Overloaded),
        500..=599 => Some(ErrorClass::ProviderError),
        _ => None,
    }
}

/// Whether a status is more specific than "bad request" or "server error".
pub(super) fn is_telling(status: u16) -> bool {
    matches!(status, 401 | 402 | 403 | 404 | 407 | 410 | 413 | 424 | 429 | 498 | 503 | 529)
}
