//! The credentials of a client: read once, and once more after a 401.

use super::password::{AnySource, PasswordError, PasswordSource};
use super::secret::Secret;
use reqwest::RequestBuilder;
use std::fmt;
use tokio::sync::Mutex;

/// The credentials in use, shared by all requests of a client.
pub(super) struct Credentials {
    source: Box<dyn AnySource>,
    current: Mutex<Option<Credential>>,
}

/// The credentials of one request.
#[derive(Clone)]
pub(super) struct Credential {
    password: Option<Secret>,
    /// Grows with every refresh. A request that failed with an older one need not refresh again.
    age: u64,
}

impl Credentials {
    pub(super) fn new(source: impl PasswordSource) -> Self {
        Self { source: Box::new(source), current: Mutex::new(None) }
    }

    pub(super) fn user(&self) -> &str {
        self.source.user()
    }

    /// What a person can do if the server refuses the password.
    pub(super) fn remedy(&self) -> String {
        self.source.remedy()
    }

    /// The current credentials.
    pub(super) async fn current(&self) -> Result<Credential, PasswordError> {
        let mut current = self.current.lock().await;
        if let Some(known) = &*current {
            return Ok(known.clone());
        }
        let fresh = Credential { password: self.source.password().await?, age: 0 };
        *current = Some(fresh.clone());
        Ok(fresh)
    }

    /// Fresh credentials after these were refused; `None` if there are no others. Concurrent requests that
    /// are refused ask the source once.
    pub(super) async fn instead_of(&self, refused: &Credential) -> Result<Option<Credential>, PasswordError> {
        let mut current = self.current.lock().await;
        if let Some(known) = &*current
            && known.age > refused.age
        {
            return Ok((known.password != refused.password).then(|| known.clone()));
        }
        let fresh = Credential { password: self.source.refresh().await?, age: refused.age + 1 };
        let other = fresh.password != refused.password;
        *current = Some(fresh.clone());
        Ok(other.then_some(fresh))
    }

    pub(super) fn apply(&self, credential: &Credential, request: RequestBuilder) -> RequestBuilder {
        match &credential.password {
            Some(password) => request.basic_auth(self.user(), Some(password.reveal())),
            None => request,
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user()).finish_non_exhaustive()
    }
}
