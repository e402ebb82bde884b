//! When a session was last active, by its log.

use turnstream_log::{DamagedEvent, Log, ReadError};
use turnstream_model::cursor::Seq;
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// Why the last event of a session cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LastEventError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Damaged(#[from] DamagedEvent),
}

/// The time of the last event, also when retention has removed it. `None` for a session without events, for
/// one that was deleted meanwhile, and for one that an earlier version trimmed.
pub(crate) fn last_time(log: &Log, id: &SessionId) -> Result<Option<Time>, LastEventError> {
    match read_last_time(log, id) {
        Err(LastEventError::Read(ReadError::Unknown(_))) => Ok(None),
        found => found,
    }
}

fn read_last_time(log: &Log, id: &SessionId) -> Result<Option<Time>, LastEventError> {
    let (_, head) = log.head(id)?;
    let Some(before) = head.0.checked_sub(1) else { return Ok(None) };
    let last = match log.read(id, Seq(before), 1) {
        Ok(mut events) => events.pop(),
        Err(ReadError::Trimmed { .. }) => return Ok(log.base(id)?.trimmed),
        Err(error) => return Err(error.into()),
    };
    let Some(last) = last else { return Ok(None) };
    // The error of the parser may repeat a part of the conversation.
    let event = last.event().map_err(|error| DamagedEvent::new(last.seq(), &error))?;
    Ok(Some(event.time))
}
