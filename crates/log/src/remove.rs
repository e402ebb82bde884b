//! Deleting sessions, and waiting until their bytes are erased.

use crate::error::{ReadError, RemoveError, StoreFault};
use crate::log::Log;
use crate::store::Removal;
use crate::totals::Removed;
use tracing::debug;
use turnstream_model::id::SessionId;

impl Log {
    /// Deletes a session, whether or not it has an owner. The deletion is durable when this returns;
    /// [`Log::erased`] waits until the bytes are gone.
    ///
    /// Readers no longer find the session, and its owner's appends fail with
    /// [`AppendError::Deleted`](crate::AppendError::Deleted). Followers receive the events still in memory
    /// and then [`Follow::Deleted`](crate::Follow::Deleted). A new session may be created under the same id,
    /// with its own generation.
    pub async fn delete(&self, id: &SessionId) -> Result<(), RemoveError> {
        let session = self.find(id).map_err(remove_error)?;
        self.inner().store.delete(session).await?;
        self.inner().removed.deleted();
        // The caller knows more about the session, and logs that it is deleted.
        debug!(session = %id, "the session is deleted from the log");
        Ok(())
    }

    /// Returns when everything that was deleted or trimmed before the call is erased from every file of the
    /// log: rows, free pages, and old commits in segments. While the disk fails, this waits.
    pub async fn erased(&self) -> Result<(), RemoveError> {
        self.inner().store.erase().await
    }

    /// The state of the removal of a deleted session. `None` if no session of this id was deleted, or it was
    /// so long ago that the log has forgotten it.
    pub fn removal(&self, id: &SessionId) -> Result<Option<Removal>, ReadError> {
        self.inner().store.removal(id)
    }

    /// What was removed since the log was opened.
    pub fn removed(&self) -> Removed {
        self.inner().removed.now()
    }
}

pub(crate) fn remove_error(error: ReadError) -> RemoveError {
    match error {
        ReadError::Unknown(id) => RemoveError::Unknown(id),
        ReadError::Store(fault) => RemoveError::Store(fault),
        ReadError::Missing { .. } | ReadError::Trimmed { .. } => RemoveError::Store(StoreFault::new(error)),
    }
}
