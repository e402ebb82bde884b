//! The heads of all sessions at once, for lists.

use crate::error::ReadError;
use crate::log::Log;
use std::collections::HashMap;
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::id::SessionId;

impl Log {
    /// The generation and the last durable event of every session. Of many sessions this takes a small part
    /// of the time that [`Log::head`] takes for each.
    pub fn heads(&self) -> Result<HashMap<SessionId, (Generation, Seq)>, ReadError> {
        // Held until the store was read: it has every event of the sessions that are not in use.
        let in_use = self.inner().all_in_use();
        let mut heads = self.inner().store.heads()?;
        for session in in_use.iter().filter(|session| !session.is_deleted()) {
            // An import in progress is in use, and not in the store's answer.
            if let Some(known) = heads.get_mut(&session.id)
                && known.0 == session.generation
            {
                known.1 = known.1.max(session.head());
            }
        }
        Ok(heads)
    }
}
