//! Removal of records about requests to model providers. They are in a database of their own, which exists
//! only if this machine sends such requests.

use crate::error::RequestError;
use std::path::{Path, PathBuf};
use turnstream_log::Attempts;
use turnstream_model::Chain;
use turnstream_model::attempts::{Answer, Retention};
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// The records in a data directory, if there are any. Their database has a lock that refuses a second
/// owner. So it is kept open if requests are sent, and otherwise opened for each removal.
pub(crate) struct ProviderRequests {
    data: PathBuf,
    kept: tokio::sync::Mutex<Option<Attempts>>,
}

impl ProviderRequests {
    /// `kept` are the records that are open already.
    pub(crate) fn new(data: &Path, kept: Option<Attempts>) -> Self {
        Self { data: data.to_owned(), kept: tokio::sync::Mutex::new(kept) }
    }

    /// Writes what is queued, and releases the database.
    pub(crate) async fn close(&self) {
        if let Some(attempts) = self.kept.lock().await.take() {
            close(attempts).await;
        }
    }

    /// Removes all records of a session.
    pub(crate) async fn forget(&self, session: &SessionId) -> Result<(), RequestError> {
        self.remove(|attempts| attempts.forget(session.clone())).await
    }

    /// Removes records of requests that ended before this time.
    pub(crate) async fn trim(&self, before: Time) -> Result<(), RequestError> {
        self.remove(|attempts| attempts.trim(before)).await
    }

    async fn remove(&self, remove: impl FnOnce(&Attempts) -> Answer<u64>) -> Result<(), RequestError> {
        let kept = self.kept.lock().await;
        if let Some(attempts) = &*kept {
            return remove(attempts).await.map(drop).map_err(RequestError::log);
        }
        if !Attempts::are_in(&self.data) {
            return Ok(());
        }
        let attempts = open(&self.data).await?;
        let removed = remove(&attempts).await;
        close(attempts).await;
        removed.map(drop).map_err(RequestError::log)
    }
}

async fn open(data: &Path) -> Result<Attempts, RequestError> {
    let data = data.to_owned();
    let opened = tokio::task::spawn_blocking(move || Attempts::open(&data)).await;
    opened.map_err(RequestError::log)?.map_err(RequestError::log)
}

async fn close(attempts: Attempts) {
    if let Err(error) = tokio::task::spawn_blocking(move || attempts.close()).await {
        tracing::warn!(error = %Chain(&error), "the records of provider requests were not closed");
    }
}
