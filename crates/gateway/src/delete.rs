//! Deletion of a session: it ends, its agent is stopped, and then the log removes it.

use crate::disk_failure::{self, DiskFailure};
use crate::error::RequestError;
use crate::gateway::{Gateway, Shared};
use crate::request::Request;
use crate::session_states::DELETED;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::Instrument;
use turnstream_model::Chain;
use turnstream_model::SharedError;
use turnstream_model::id::SessionId;
use turnstream_model::machine::Refusal;

/// How long a keeper and its agent may take to end before they are aborted.
const KEEPER: Duration = Duration::from_secs(5);
/// The same on a full disk, where a keeper may wait for the room that only the delete makes.
const KEEPER_ON_FULL_DISK: Duration = Duration::from_secs(1);
/// How long a delete on a full disk is waited for.
const FULL_DISK: Duration = Duration::from_secs(60);

/// How far a delete has come when it is answered. In both cases the session cannot be found any more, also
/// after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// Nothing of it is in any file of the log.
    Erased,
    /// Its bytes are being erased. A repeated delete waits for that again.
    Pending,
}

/// Sessions that are being deleted: no keeper of them is started.
#[derive(Default)]
pub(crate) struct Deletions(watch::Sender<HashSet<SessionId>>);

/// Held while a session is being deleted.
struct Deleting {
    shared: Arc<Shared>,
    id: SessionId,
}

impl Gateway {
    /// Deletes a session. Its turn ends, its agent is stopped, its followers are told, and its log is
    /// removed. That is durable when this returns. Deleting a deleted session succeeds.
    pub async fn delete(&self, id: &SessionId) -> Result<Deleted, RequestError> {
        self.refuse_if_closing()?;
        if self.states().get(id).is_some() {
            let is_disk_full = self.log().is_disk_full();
            if !is_disk_full {
                self.refuse_if_degraded()?;
            }
            // In a task of its own, so that it is completed also when the client disconnects.
            let (gateway, of) = (self.clone(), id.clone());
            let work = async move {
                // There is no room for the events of its end. Its followers only learn that it is gone.
                if is_disk_full {
                    return gateway.remove(&of).await;
                }
                match gateway.ask(&of, |reply| Request::End(DELETED.to_owned(), reply)).await {
                    Ok(()) | Err(RequestError::Refused(Refusal::SessionEnded)) => gateway.remove(&of).await,
                    // Another request deletes it.
                    Err(RequestError::UnknownSession(_)) => gateway.remove(&of).await,
                    // The disk has become full meanwhile.
                    Err(error) if error.is_disk_full() => gateway.remove(&of).await,
                    Err(error) => Err(error),
                }
            };
            let work = tokio::spawn(work.in_current_span());
            let done = if is_disk_full {
                // Without enough room it goes on in the background, and is done when there is some.
                timeout(FULL_DISK, work).await.map_err(|_| {
                    let full = || DiskFailure::Temporary(SharedError::new("the disk is full"));
                    disk_failure::current(self.log()).unwrap_or_else(full).not_durable_yet()
                })?
            } else {
                work.await
            };
            done.unwrap_or_else(|error| Err(RequestError::log(error)))?;
        }
        if self.log().removal(id).map_err(RequestError::of_read)?.is_none() {
            return Err(RequestError::UnknownSession(id.clone()));
        }
        let wait = self.settings().erasure;
        match timeout(wait, self.log().erased()).await {
            Ok(Ok(())) => Ok(Deleted::Erased),
            // The deletion is durable. Erasing goes on in the background, or at the next start.
            Ok(Err(error)) => {
                tracing::warn!(session = %id, error = %Chain(&error), "a deleted session is not erased yet");
                Ok(Deleted::Pending)
            }
            Err(_) => {
                tracing::debug!(session = %id, after = ?wait, "a deleted session is not erased yet");
                Ok(Deleted::Pending)
            }
        }
    }

    /// Deletes a session if nothing is open in it. False when something is.
    pub(crate) async fn delete_if_quiet(&self, id: &SessionId) -> Result<bool, RequestError> {
        match self.ask(id, |reply| Request::EndIfQuiet(DELETED.to_owned(), reply)).await {
            Ok(false) => Ok(false),
            Ok(true) | Err(RequestError::Refused(Refusal::SessionEnded)) => {
                self.remove(id).await.map(|()| true)
            }
            Err(error) => Err(error),
        }
    }

    /// Removes a session that has ended.
    async fn remove(&self, id: &SessionId) -> Result<(), RequestError> {
        let shared = self.shared();
        let Some(_deleting) = Deleting::begin(&shared, id) else {
            // Another request removes it.
            shared.deletions.over(id).await;
            return Ok(());
        };
        let Some(session) = shared.states.get(id) else { return Ok(()) };
        turnstream_failpoint::reach("keeper.deleting");
        if let Some(keeper) = shared.remove_keeper(id) {
            let number = keeper.number;
            let grace = if shared.log.is_disk_full() { KEEPER_ON_FULL_DISK } else { KEEPER };
            if timeout(grace, keeper.clone().stop()).await.is_err() {
                tracing::warn!(session = %id, after = ?grace, "a session did not end in time, and is aborted");
                shared.abort_keeper(number);
                // It ends at its next await. The log refuses what it still appends.
                if timeout(KEEPER, keeper.ended()).await.is_err() {
                    tracing::warn!(session = %id, "an aborted session has not ended");
                }
            }
        }
        if let Some(agent) = shared.agent(&session.agent) {
            // Before the log: after a crash in between, the session can be deleted again.
            agent.forget(id).await.map_err(RequestError::log)?;
        }
        shared.mcp.forget(id).await.map_err(RequestError::log)?;
        let forgotten = shared.provider_requests.forget(id).await;
        // On a full disk there may be room for it once the session is gone.
        if !shared.log.is_disk_full() {
            forgotten.clone()?;
        }
        turnstream_failpoint::reach("keeper.forgotten");
        match shared.log.delete(id).await {
            Ok(()) | Err(turnstream_log::RemoveError::Unknown(_)) => {}
            Err(error) => return Err(RequestError::of_remove(error)),
        }
        if forgotten.is_err() {
            shared.provider_requests.forget(id).await?;
        }
        turnstream_failpoint::reach("keeper.deleted");
        shared.states.remove(id);
        tracing::info!(session = %id, agent = session.agent, "session deleted");
        Ok(())
    }
}

impl Deletions {
    pub(crate) fn is_under_way(&self, id: &SessionId) -> bool {
        self.0.borrow().contains(id)
    }

    /// Returns when that session is not being deleted any more.
    pub(crate) async fn over(&self, id: &SessionId) {
        // Fails only without a sender, and this is the sender.
        drop(self.0.subscribe().wait_for(|under_way| !under_way.contains(id)).await);
    }
}

impl Deleting {
    /// `None` when another request deletes it.
    fn begin(shared: &Arc<Shared>, id: &SessionId) -> Option<Self> {
        let is_first = shared.deletions.0.send_if_modified(|under_way| under_way.insert(id.clone()));
        is_first.then(|| Self { shared: shared.clone(), id: id.clone() })
    }
}

impl Drop for Deleting {
    fn drop(&mut self) {
        self.shared.deletions.0.send_modify(|under_way| {
            under_way.remove(&self.id);
        });
    }
}
