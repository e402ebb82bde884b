//! The secrets that clients send, and how they are made.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use std::fmt;

/// Bits that a token needs where other machines can reach the gateway.
const STRONG_BITS: usize = 128;

/// The secret that clients send. It is never printed.
#[derive(Clone, PartialEq, Eq)]
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

/// The operating system gave no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the operating system gives no random bytes: {0}")]
pub struct NoRandomness(#[source] getrandom::Error);

/// What is kept of a secret: enough to recognise it, and nothing that opens a gateway.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint([u8; 32]);

// === impl Token ===

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

    /// A new random token with 256 bits.
    pub fn random() -> Result<Self, NoRandomness> {
        secret("tst_").map(Self)
    }

    /// The text itself, for the header of a request. It must not reach a log line or an error.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether it can be used where other machines reach the gateway: it can hold 128 bits.
    ///
    /// The bits are those of a random text of its length and alphabet. Few different characters are not
    /// random, however many there are.
    pub(crate) fn is_strong(&self) -> bool {
        let bytes = self.0.as_bytes();
        let all = |is: fn(&u8) -> bool| bytes.iter().all(is);
        // Bits of one character, and how many different ones a random text of that length has at least.
        let (bits_each, least_different) = if all(u8::is_ascii_digit) {
            (3, 8)
        } else if all(u8::is_ascii_hexdigit) {
            (4, 10)
        } else if all(u8::is_ascii_lowercase) || all(u8::is_ascii_uppercase) {
            (4, 12)
        } else {
            (6, 12)
        };
        let mut different = bytes.to_vec();
        different.sort_unstable();
        different.dedup();
        bytes.len() * bits_each >= STRONG_BITS && different.len() >= least_different
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// A random text with 256 bits that begins like this. The beginning tells kinds of secrets apart, and lets
/// the redactor find them.
pub(crate) fn secret(prefix: &str) -> Result<String, NoRandomness> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(NoRandomness)?;
    Ok(format!("{prefix}{}", BASE64_URL_SAFE_NO_PAD.encode(bytes)))
}

// === impl Fingerprint ===

impl Fingerprint {
    /// Comparing fingerprints takes a time that says nothing about the secret.
    pub(crate) fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret).into())
    }

    pub(crate) fn to_text(self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.0)
    }

    pub(crate) fn from_text(text: &str) -> Option<Self> {
        BASE64_URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok().map(Self)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::{Fingerprint, Token, TokenError};

    #[test]
    fn only_the_same_token_has_the_same_fingerprint() {
        let token = Token::new("0123456789abcdef").unwrap();
        assert_eq!(token.fingerprint(), Fingerprint::of("0123456789abcdef"));
        for other in ["", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeF"] {
            assert_ne!(token.fingerprint(), Fingerprint::of(other), "{other}");
        }
        assert_eq!(format!("{token:?}"), "Token(…)");
        let text = token.fingerprint().to_text();
        assert_eq!(Fingerprint::from_text(&text), Some(token.fingerprint()));
        assert_eq!(Fingerprint::from_text("AAAA"), None);
    }

    #[test]
    fn a_token_that_is_empty_or_cannot_be_sent_is_refused() {
        assert_eq!(Token::new("").unwrap_err(), TokenError::Empty);
        assert_eq!(Token::new("0123456789 abcdef").unwrap_err(), TokenError::Unsendable);
    }

    #[test]
    fn a_token_is_strong_with_128_bits() {
        let is_strong = |text: &str| Token::new(text).unwrap().is_strong();
        assert!(is_strong("4f1d0c9b7a6e5d3c2b1a09f8e7d6c5b4"), "32 hexadecimal digits");
        assert!(!is_strong("4f1d0c9b7a6e5d3c2b1a09f8e7d6c5b"), "31 hexadecimal digits");
        assert!(is_strong("kJ8-xQ2_vN5tYw7zR4pLmC"), "22 other characters");
        assert!(!is_strong("kJ8-xQ2_vN5tYw7zR4pLm"), "21 other characters");
        for weak in [
            "passwordpasswordpasswordpassw",
            "12345678901234567890123456789012",
            "abcdefghabcdefghabcdef",
            "qwertyuiopqwertyuiopqw",
        ] {
            assert!(!is_strong(weak), "{weak}");
        }
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert!(one.is_strong() && one != other && one.expose().starts_with("tst_"));
    }
}
