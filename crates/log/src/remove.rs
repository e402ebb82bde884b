//! Deleting sessions, and being sure that their bytes are gone.

use crate::error::{ReadError, RemoveError};
use crate::log::Log;
use crate::store::Removal;
use crate::totals::Removed;
use turnstream_model::id::SessionId;

impl Log {
    /// Deletes a session, whether or not it has an owner: nobody finds it any more, and its owner's appends are refused with
    /// [`AppendError::Deleted`](crate::AppendError::Deleted). That is durable when this returns; [`Log::erased`] tells when
    /// its bytes are gone. Followers are handed what is still in memory and then
    /// [`Follow::Deleted`](crate::Follow::Deleted). Another session may be made under the same id, with a generation of its
    /// own.
    pub async fn delete(&self, id: &SessionId) -> Result<(), RemoveError> {
        let session = self.find(id).map_err(|error| remove_error(&error))?;
        self.inner().store.delete(session).await?;
        self.inner().removed.deleted();
        Ok(())
    }

    /// Returns when nothing of what was deleted or trimmed before the call is in any file of the log: no row, no free page, no
    /// rest of an older commit. It waits as long as the disk fails.
    pub async fn erased(&self) -> Result<(), RemoveError> {
        self.inner().store.erase().await
    }

    /// How far the removal of a deleted session is; `None` when no session of that id was deleted, or so long ago that it is
    /// not remembered.
    pub fn removal(&self, id: &SessionId) -> Result<Option<Removal>, ReadError> {
        self.inner().store.removal(id)
    }

    /// What was removed since the log was opened.
    pub fn removed(&self) -> Removed {
        self.inner().removed.now()
    }
}

pub(crate) fn remove_error(error: &ReadError) -> RemoveError {
    match error {
        ReadError::Unknown(id) => RemoveError::Unknown(id.clone()),
        ReadError::Store(problem) => RemoveError::Store(problem.clone()),
        ReadError::Missing { .. } | ReadError::Trimmed { .. } => RemoveError::Store(error.to_string()),
    }
}
