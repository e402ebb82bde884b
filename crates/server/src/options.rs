//! Options of a server.

use crate::limits::Limits;
use std::fmt;
use std::time::Duration;

/// Options of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// The token that every request needs. Without a token only loopback is served.
    pub token: Option<Token>,
    /// How long a stream may be silent before it sends a heartbeat.
    pub heartbeat: Duration,
    /// How long the body of a request may take. For an import it is the longest pause.
    pub body: Duration,
    /// Most bytes in the body of an import. It is written to a file, and not held in memory.
    pub import: u64,
    /// How much clients may take of the server at once.
    pub limits: Limits,
    /// The agent for clients that do not name one.
    pub default_agent: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            token: None,
            heartbeat: Duration::from_secs(15),
            body: Duration::from_secs(60),
            import: 4 << 30,
            limits: Limits::default(),
            default_agent: None,
        }
    }
}

/// The secret that clients send. It is never printed.
#[derive(Clone)]
pub struct Token(String);

/// Why a text cannot be a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is empty.
    #[error("the token is empty; use one that is hard to guess, for example from `openssl rand -hex 16`")]
    Empty,
    /// It could not be sent in a header.
    #[error(
        "the token contains a space or a character that is not printable ASCII; use letters, digits and punctuation, \
         for example from `openssl rand -hex 16`"
    )]
    Unsendable,
}

impl Token {
    /// A token: printable ASCII, not empty.
    pub fn new(token: impl Into<String>) -> Result<Self, TokenError> {
        let token = token.into();
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Unsendable);
        }
        if token.is_empty() {
            return Err(TokenError::Empty);
        }
        Ok(Self(token))
    }

    /// Whether a client sent this token. Takes the same time for a wrong one as for the right one.
    pub(crate) fn is(&self, shown: &str) -> bool {
        let (token, shown) = (self.0.as_bytes(), shown.as_bytes());
        let mut differences = token.len() ^ shown.len();
        for (at, byte) in token.iter().enumerate() {
            let other = shown.get(at).copied().unwrap_or_default();
            differences |= usize::from(std::hint::black_box(byte ^ other));
        }
        std::hint::black_box(differences) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::{Token, TokenError};

    #[test]
    fn only_the_same_token_is_the_same() {
        let token = Token::new("0123456789abcdef").unwrap();
        assert!(token.is("0123456789abcdef"));
        for other in ["", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeF"] {
            assert!(!token.is(other), "{other}");
        }
        assert_eq!(format!("{token:?}"), "Token(…)");
    }

    #[test]
    fn a_token_that_is_empty_or_cannot_be_sent_is_refused() {
        assert_eq!(Token::new("").unwrap_err(), TokenError::Empty);
        assert_eq!(Token::new("0123456789 abcdef").unwrap_err(), TokenError::Unsendable);
    }
}
