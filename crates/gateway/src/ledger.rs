//! Forgetting also what is kept of requests to model providers: their rows and the bytes of those that went wrong are in a
//! database of their own, which is there only where somebody asks providers from here.

use crate::error::RequestError;
use std::path::{Path, PathBuf};
use turnstream_log::Attempts;
use turnstream_model::attempts::Retention;
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// The ledger in a data directory, if there is one. It has one owner at a time, and the lock of it refuses the others: here
/// they wait for each other.
pub(crate) struct Ledger {
    data: PathBuf,
    in_use: tokio::sync::Mutex<()>,
}

impl Ledger {
    pub(crate) fn new(data: &Path) -> Self {
        Self { data: data.to_owned(), in_use: tokio::sync::Mutex::default() }
    }

    /// Removes all there is of a session.
    pub(crate) async fn forget(&self, session: &SessionId) -> Result<(), RequestError> {
        let _owner = self.in_use.lock().await;
        let Some(attempts) = open(&self.data).await? else { return Ok(()) };
        let forgotten = attempts.forget(session.clone()).await;
        close(attempts).await;
        forgotten.map(drop).map_err(|error| RequestError::Log(error.to_string()))
    }

    /// Removes what ended before this.
    pub(crate) async fn trim(&self, before: Time) -> Result<(), RequestError> {
        let _owner = self.in_use.lock().await;
        let Some(attempts) = open(&self.data).await? else { return Ok(()) };
        let trimmed = attempts.trim(before).await;
        close(attempts).await;
        trimmed.map(drop).map_err(|error| RequestError::Log(error.to_string()))
    }
}

async fn open(data: &Path) -> Result<Option<Attempts>, RequestError> {
    if !Attempts::are_in(data) {
        return Ok(None);
    }
    let data = data.to_owned();
    let opened = tokio::task::spawn_blocking(move || Attempts::open(&data)).await;
    let opened = opened.map_err(|error| RequestError::Log(error.to_string()))?;
    opened.map(Some).map_err(|error| RequestError::Log(error.to_string()))
}

async fn close(attempts: Attempts) {
    // A panic of it has been printed, and leaves nothing open.
    let _ = tokio::task::spawn_blocking(move || attempts.close()).await;
}
