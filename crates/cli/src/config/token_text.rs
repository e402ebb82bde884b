//! The token as a user wrote it. It is checked where a gateway is started, and sent as it is to one.

use serde::Deserialize;
use std::fmt;

/// The text of a token. It is never printed.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct TokenText(String);

impl TokenText {
    /// The text itself, for a request or a check. It must not reach a line or an error.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for TokenText {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenText(…)")
    }
}
