//! Sources of the server's password.

use super::secret::Secret;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use thiserror::Error;

/// The default user name of opencode. It answers any other with 401 (capture `p-errors`).
pub const USER: &str = "opencode";

/// A source of credentials. The client keeps a password until the server answers 401, and then asks once
/// for a fresh one.
pub trait PasswordSource: Send + Sync + 'static {
    /// The password for the first request. `None` sends no credentials.
    fn password(&self) -> impl Future<Output = Result<Option<Secret>, PasswordError>> + Send;

    /// The password after the server refused the last one. Must not come from a cache: the same password
    /// again means that there is no other, and the request fails.
    fn refresh(&self) -> impl Future<Output = Result<Option<Secret>, PasswordError>> + Send {
        self.password()
    }

    /// The user name.
    fn user(&self) -> &str {
        USER
    }

    /// What a person can do if the server refuses the password.
    fn remedy(&self) -> String {
        "check OPENCODE_SERVER_PASSWORD and OPENCODE_SERVER_USERNAME of the server".to_owned()
    }

    /// The same passwords under another user name (`OPENCODE_SERVER_USERNAME`).
    fn with_user(self, user: impl Into<String>) -> WithUser<Self>
    where
        Self: Sized,
    {
        WithUser { source: self, user: user.into() }
    }
}

/// Why a source has no password.
#[derive(Debug, Error)]
pub enum PasswordError {
    /// The variable is not set.
    #[error("the environment variable {0} is not set or not text; set it to the server's password")]
    Variable(String),
    /// The file cannot be read.
    #[error("cannot read the password file {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// Another source failed, with this message.
    #[error("no password: {0}")]
    Other(String),
}

/// No credentials, for a server without a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPassword;

/// The password is in an environment variable of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FromEnv(String);

/// The password is the text of a file, without its last line ending. The file is read again after a 401.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FromFile(PathBuf);

/// A source with another user name; made by [`PasswordSource::with_user`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithUser<S> {
    source: S,
    user: String,
}

// === impl sources ===

/// A password that does not change.
impl PasswordSource for Secret {
    async fn password(&self) -> Result<Option<Secret>, PasswordError> {
        Ok(Some(self.clone()))
    }
}

impl PasswordSource for NoPassword {
    async fn password(&self) -> Result<Option<Secret>, PasswordError> {
        Ok(None)
    }

    fn remedy(&self) -> String {
        "no password is configured; set password_env or password_file to where the server's OPENCODE_SERVER_PASSWORD is"
            .to_owned()
    }
}

impl FromEnv {
    /// The password in this variable.
    pub fn new(variable: impl Into<String>) -> Self {
        Self(variable.into())
    }
}

impl PasswordSource for FromEnv {
    async fn password(&self) -> Result<Option<Secret>, PasswordError> {
        let value = std::env::var(&self.0).map_err(|_| PasswordError::Variable(self.0.clone()))?;
        Ok(Some(Secret::new(value)))
    }

    fn remedy(&self) -> String {
        format!("set the environment variable {} to the server's OPENCODE_SERVER_PASSWORD", self.0)
    }
}

impl FromFile {
    /// The password in this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }
}

impl PasswordSource for FromFile {
    async fn password(&self) -> Result<Option<Secret>, PasswordError> {
        let text = tokio::fs::read_to_string(&self.0).await;
        let text = text.map_err(|error| PasswordError::File { path: self.0.clone(), error })?;
        Ok(Some(Secret::new(text.trim_end_matches(['\r', '\n']))))
    }

    fn remedy(&self) -> String {
        format!("write the server's OPENCODE_SERVER_PASSWORD into the file {}", self.0.display())
    }
}

impl<S: PasswordSource> PasswordSource for WithUser<S> {
    fn password(&self) -> impl Future<Output = Result<Option<Secret>, PasswordError>> + Send {
        self.source.password()
    }

    fn refresh(&self) -> impl Future<Output = Result<Option<Secret>, PasswordError>> + Send {
        self.source.refresh()
    }

    fn user(&self) -> &str {
        &self.user
    }

    fn remedy(&self) -> String {
        self.source.remedy()
    }
}

/// A source that is chosen by configuration.
#[derive(Debug, Clone)]
pub enum Configured {
    /// No credentials.
    Nothing,
    /// This password.
    Fixed(Secret),
    /// From an environment variable.
    Env(FromEnv),
    /// From a file, which is read again after a 401.
    File(FromFile),
}

impl PasswordSource for Configured {
    async fn password(&self) -> Result<Option<Secret>, PasswordError> {
        match self {
            Self::Nothing => Ok(None),
            Self::Fixed(secret) => Ok(Some(secret.clone())),
            Self::Env(source) => PasswordSource::password(source).await,
            Self::File(source) => PasswordSource::password(source).await,
        }
    }

    fn remedy(&self) -> String {
        match self {
            Self::Nothing => PasswordSource::remedy(&NoPassword),
            Self::Fixed(secret) => PasswordSource::remedy(secret),
            Self::Env(source) => PasswordSource::remedy(source),
            Self::File(source) => PasswordSource::remedy(source),
        }
    }
}

// === any source behind one type ===

type Asked<'a> = Pin<Box<dyn Future<Output = Result<Option<Secret>, PasswordError>> + Send + 'a>>;

/// An object-safe [`PasswordSource`], so that a client has no type parameter.
pub(super) trait AnySource: Send + Sync {
    fn password(&self) -> Asked<'_>;
    fn refresh(&self) -> Asked<'_>;
    fn user(&self) -> &str;
    fn remedy(&self) -> String;
}

impl<S: PasswordSource> AnySource for S {
    fn password(&self) -> Asked<'_> {
        Box::pin(PasswordSource::password(self))
    }

    fn refresh(&self) -> Asked<'_> {
        Box::pin(PasswordSource::refresh(self))
    }

    fn user(&self) -> &str {
        PasswordSource::user(self)
    }

    fn remedy(&self) -> String {
        PasswordSource::remedy(self)
    }
}
