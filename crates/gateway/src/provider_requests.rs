//! Removal of records about requests to model providers. They are in a database of their own, which exists
//! only if this machine sends such requests.

use crate::error::RequestError;
use std::path::{Path, PathBuf};
use turnstream_log::Attempts;
use turnstream_model::Chain;
use turnstream_model::attempts::Retention;
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// The records in a data directory, if there are any. Their database has a lock that refuses a second
/// owner, so users of this type wait for each other.
pub(crate) struct ProviderRequests {
    data: PathBuf,
    in_use: tokio::sync::Mutex<()>,
}

impl ProviderRequests {
    pub(crate) fn new(data: &Path) -> Self {
        Self { data: data.to_owned(), in_use: tokio::sync::Mutex::default() }
    }

    /// Removes all records of a session.
    pub(crate) async fn forget(&self, session: &SessionId) -> Result<(), RequestError> {
        let _owner = self.in_use.lock().await;
        let Some(attempts) = open(&self.data).await? else { return Ok(()) };
        let forgotten = attempts.forget(session.clone()).await;
        close(attempts).await;
        forgotten.map(drop).map_err(RequestError::log)
    }

    /// Removes records of requests that ended before this time.
    pub(crate) async fn trim(&self, before: Time) -> Result<(), RequestError> {
        let _owner = self.in_use.lock().await;
        let Some(attempts) = open(&self.data).await? else { return Ok(()) };
        let trimmed = attempts.trim(before).await;
        close(attempts).await;
        trimmed.map(drop).map_err(RequestError::log)
    }
}

async fn open(data: &Path) -> Result<Option<Attempts>, RequestError> {
    if !Attempts::are_in(data) {
        return Ok(None);
    }
    let data = data.to_owned();
    let opened = tokio::task::spawn_blocking(move || Attempts::open(&data)).await;
    let opened = opened.map_err(RequestError::log)?;
    opened.map(Some).map_err(RequestError::log)
}

async fn close(attempts: Attempts) {
    if let Err(error) = tokio::task::spawn_blocking(move || attempts.close()).await {
        tracing::warn!(error = %Chain(&error), "the records of provider requests were not closed");
    }
}
