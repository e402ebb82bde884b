//! Error objects of providers, and bodies that are not event streams.

/// An error object of a provider. Classification reads its type, code and status; the message is for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProviderError {
    /// `error.type`: `overloaded_error`, `insufficient_quota` …
    pub kind: Option<String>,
    /// `error.code`, a number as its digits.
    pub code: Option<String>,
    /// `error.message`.
    pub message: String,
    /// The HTTP status: of the response, or the one that the object itself names.
    pub status: Option<u16>,
    /// The rule of the provider's profile that applies to this object.
    pub profile: Option<ProfileRule>,
    /// The JSON as received, at most [`Body::LIMIT`] bytes.
    pub raw: String,
}

/// A rule of a provider's profile about an error object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileRule {
    /// The error is throttling, whatever its type says.
    Throttled,
    /// The request is longer than the model's context, which this provider says only in its message.
    Overflow,
    /// The message came as the text of an answer, under a finish that this provider uses for errors. The
    /// error's `kind` is that finish.
    ErrorAsContent,
}

/// A response body that is not an event stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// The detected kind.
    pub kind: BodyKind,
    /// Its beginning, at most [`Body::LIMIT`] bytes.
    pub bytes: Vec<u8>,
    /// The full length in bytes.
    pub length: u64,
    /// The error object, if there is one.
    pub error: Option<ProviderError>,
    /// The title, if it is an HTML page.
    pub title: Option<String>,
}

/// The detected kind of a body that is not an event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// JSON.
    Json,
    /// A web page.
    Html,
    /// Compressed data, although the request allows none.
    Gzip,
    /// Any other text, or an empty body.
    Text,
}

impl Body {
    /// The largest number of bytes that are kept.
    pub const LIMIT: usize = 64 * 1024;
}
