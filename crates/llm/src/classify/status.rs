//! HTTP statuses, for answers whose body says nothing better.

use turnstream_model::event::ErrorClass;

/// The class of an error status; none for one that is no error.
pub(super) fn class(status: u16) -> Option<ErrorClass> {
    match status {
        // Never followed, since it would be another POST: the address is wrong, and stays so.
        300..=399 => Some(ErrorClass::InvalidRequest),
        401 | 403 | 407 => Some(ErrorClass::Auth),
        402 => Some(ErrorClass::QuotaExhausted),
        404 | 410 => Some(ErrorClass::ModelUnavailable),
        // The server's own deadlines: it asks for the same request again.
        408 | 409 | 425 => Some(ErrorClass::ProviderError),
        413 => Some(ErrorClass::ContextOverflow),
        429 => Some(ErrorClass::RateLimited),
        400..=499 => Some(ErrorClass::InvalidRequest),
        503 | 529 => Some(ErrorClass::Overloaded),
        500..=599 => Some(ErrorClass::ProviderError),
        _ => None,
    }
}

/// Whether a status says more than that something is wrong with the request, or with the server.
pub(super) fn is_telling(status: u16) -> bool {
    matches!(status, 401 | 402 | 403 | 404 | 407 | 410 | 413 | 429 | 503 | 529)
}
