//! A summary of every session, from the heads of the stored folds.

use crate::error::ReadError;
use crate::log::Log;
use turnstream_model::fold::State;
use turnstream_model::id::SessionId;

/// A session as the store knows it.
pub struct Summary {
    /// The session's id.
    pub id: SessionId,
    /// The state at the head, without turns, items, approvals, questions and prompts that have an outcome.
    /// `None` if the stored fold lags behind; then request a snapshot.
    pub state: Option<State>,
}

impl Log {
    /// Every session, in creation order.
    pub fn summaries(&self) -> Result<Vec<Summary>, ReadError> {
        let mut summaries = self.inner().store.summaries()?;
        for summary in &mut summaries {
            // A session in use may have events that the store does not have yet.
            if let Some(session) = self.inner().in_use(&summary.id) {
                summary.state = summary.state.take().filter(|state| state.seq == session.head());
            }
        }
        Ok(summaries)
    }
}
