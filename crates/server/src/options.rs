//! How a server behaves.

use std::fmt;
use std::time::Duration;

/// What whoever starts a server decides.
#[derive(Clone, Debug)]
pub struct Options {
    /// What clients have to show. Without one only loopback is served.
    pub token: Option<Token>,
    /// How long a stream may be silent before it says that it is alive.
    pub heartbeat: Duration,
    /// How long the body of a request may take to come. That of an import may pause for so long.
    pub body: Duration,
    /// What the body of an import may weigh. It is on the disk while it is judged, never in memory.
    pub import: u64,
    /// The agent for clients that name none.
    pub default_agent: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            token: None,
            heartbeat: Duration::from_secs(15),
            body: Duration::from_secs(60),
            import: 4 << 30,
            default_agent: None,
        }
    }
}

/// The secret that clients show. It is never printed.
#[derive(Clone)]
pub struct Token(String);

/// Why a text is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// There is nothing in it.
    #[error(
        "the token is empty; use one that is hard to guess, for example what `openssl rand -hex 16` prints"
    )]
    Empty,
    /// It could not be sent in a header.
    #[error(
        "the token holds a space or a character that is not printable ASCII; use letters, digits and signs, for \
         example what `openssl rand -hex 16` prints"
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

    /// Whether this is what a client showed. Takes as long for a wrong one as for the right one.
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
