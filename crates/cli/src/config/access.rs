//! Who may use the gateway: `auth`, `token`, `public_url` and `origins`.

use super::keys::FromVariable;
use super::{ConfigError, TokenText};
use crate::data_directory;
use serde::{Deserialize, Deserializer};
use std::path::Path;
use turnstream_server::{Auth, Origin, Token, TokenFile, TokenFileError};

/// The key `auth`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AuthChoice {
    /// Every request needs a token.
    #[default]
    Token,
    /// Nobody needs one. Only on loopback.
    None,
}

/// The key `public_url`.
#[derive(Clone, Debug)]
pub(crate) struct PublicUrl(pub(crate) Origin);

/// The key `origins`.
#[derive(Clone, Debug)]
pub(crate) struct Origins(pub(crate) Vec<Origin>);

/// Who may use the gateway. Without a configured token, the one in the data directory counts; it is made if
/// there is none.
pub(super) fn auth(
    choice: AuthChoice,
    configured: Option<&TokenText>,
    data: &Path,
) -> Result<Auth, ConfigError> {
    match (choice, configured) {
        (AuthChoice::None, Some(_)) => Err(ConfigError::TokenWithoutAuth),
        (AuthChoice::None, None) => Ok(Auth::None),
        (AuthChoice::Token, Some(text)) => Ok(Auth::Token(Token::new(text.expose())?)),
        (AuthChoice::Token, None) => {
            data_directory::prepare(data)?;
            Ok(Auth::File(TokenFile::open_or_make(data)?))
        }
    }
}

/// The token that a client sends to the gateway of this data directory. `None`: no token is configured, and
/// no gateway has made one.
pub(super) fn sent_token(
    choice: AuthChoice,
    configured: Option<TokenText>,
    data: &Path,
) -> Result<Option<TokenText>, ConfigError> {
    match (choice, configured) {
        (_, Some(configured)) => Ok(Some(configured)),
        (AuthChoice::None, None) => Ok(None),
        (AuthChoice::Token, None) => match TokenFile::open(data).and_then(|file| file.token()) {
            Ok(token) => Ok(Some(TokenText::from(token.expose().to_owned()))),
            Err(TokenFileError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        },
    }
}

impl FromVariable for AuthChoice {
    fn from_variable(text: &str) -> Result<Self, String> {
        match text {
            "token" => Ok(Self::Token),
            "none" => Ok(Self::None),
            _ => Err("it must be token or none".to_owned()),
        }
    }
}

impl FromVariable for PublicUrl {
    fn from_variable(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error: turnstream_server::OriginError| error.to_string())
    }
}

impl<'de> Deserialize<'de> for PublicUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Origins {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        let origins: Result<_, _> = texts.iter().map(|text| text.parse()).collect();
        origins.map(Self).map_err(serde::de::Error::custom)
    }
}
