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
        let mut summaries = self.inner().store.summaries()?;
        for summary in &mut summaries {
            let (_, head) = self.head(&summary.id)?;
            summary.state = summary.state.take().filter(|state| state.seq == head);
        }
        Ok(summaries)
    }
}
