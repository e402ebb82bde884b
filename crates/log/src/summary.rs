//! Every session in one look: what the stored folds say, without their lists.

use crate::error::ReadError;
use crate::log::Log;
use turnstream_model::fold::State;
use turnstream_model::id::SessionId;

/// A session as the store knows it.
pub struct Summary {
    /// Its id.
    pub id: SessionId,
    /// Its fold at the head without turns, items, approvals, questions and settled prompts; `None` when the stored fold is
    /// behind, and a snapshot has to be asked for.
    pub state: Option<State>,
}

impl Log {
    /// Every session, in the order they were made.
    pub fn summaries(&self) -> Result<Vec<Summary>, ReadError> {
        let failed = |error: rusqlite::Error| ReadError::Store(error.to_string());
        let rows = self.inner().readers().fold_heads().map_err(failed)?;
        let mut summaries = Vec::with_capacity(rows.len());
        for (id, body) in rows {
            let id = SessionId::from(id);
            let (_, head) = self.head(&id)?;
            // A stored fold that cannot be read is only a shorter way that is not there.
            let state: Option<State> = body.and_then(|body| serde_json::from_str(&body).ok());
            summaries.push(Summary { id, state: state.filter(|state| state.seq == head) });
        }
        Ok(summaries)
    }
}
