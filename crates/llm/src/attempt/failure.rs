//! What a provider says went wrong, and bodies that are no stream.

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
    /// What the provider's profile knows about this object.
    pub profile: Option<ProfileSays>,
    /// The JSON as it came, at most [`Body::LIMIT`] bytes.
    pub raw: String,
}

/// What only the profile can know of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileSays {
    /// Throttling, whatever the type says.
    Throttled,
    /// The message came as the text of an answer, with a finish that this provider uses for errors. Its kind is the
    /// finish.
    ErrorAsContent,
}

/// A response body that is no event stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// What it looks like.
    pub kind: BodyKind,
    /// Its beginning, at most [`Body::LIMIT`] bytes.
    pub bytes: Vec<u8>,
    /// How long all of it was.
    pub length: u64,
    /// The error object in it.
    pub error: Option<ProviderError>,
    /// The title of a page.
    pub title: Option<String>,
}

/// What a body that is no stream looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// JSON.
    Json,
    /// A web page.
    Html,
    /// Compressed, although nothing compressed was asked for.
    Gzip,
    /// Anything else, or nothing.
    Text,
}

impl Body {
    /// How much of a body is kept.
    pub const LIMIT: usize = 64 * 1024;
}
