//! What adapters do with the errors that agents report: the class of a status, and a short message.

use turnstream_model::event::ErrorClass;

/// The most characters of an error message that are kept.
const SHOWN: usize = 300;

/// The class of a provider's HTTP status. 413 is not known to be about the context.
pub(crate) fn class_of_status(status: u16) -> ErrorClass {
    match status {
        401 | 403 => ErrorClass::Auth,
        402 => ErrorClass::QuotaExhausted,
        408 | 504 => ErrorClass::Timeout,
        429 => ErrorClass::RateLimited,
        503 | 529 => ErrorClass::Overloaded,
        400..=499 => ErrorClass::InvalidRequest,
        _ => ErrorClass::ProviderError,
    }
}

/// The beginning of a foreign text.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
