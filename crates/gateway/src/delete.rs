//! Deleting a session: it ends, its agent is let go, and then the log removes it.

use crate::board::DELETED;
use crate::error::RequestError;
use crate::gateway::{Gateway, Shared};
use crate::request::Request;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;
use turnstream_model::id::SessionId;
use turnstream_model::machine::Refusal;

/// How long a keeper and its agent may take to end; then they are ended by force.
const KEEPER: Duration = Duration::from_secs(5);
/// How long whoever deletes waits for the bytes to be gone.
const ERASED: Duration = Duration::from_secs(5);

/// How far a delete has come when it is answered. Either way nobody finds the session any more, also after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// Nothing of it is in any file of the log.
    Erased,
    /// Its bytes are being removed. Deleting it again waits again, and tells.
    Pending,
}

/// Sessions that are being deleted: no keeper of them is woken.
#[derive(Default)]
pub(crate) struct Deletions(watch::Sender<HashSet<SessionId>>);

/// Held while a session is being deleted.
struct Deleting {
    shared: Arc<Shared>,
    id: SessionId,
}

impl Gateway {
    /// Deletes a session for good. Its turn ends, its agent is let go, whoever follows it is told, and its log is removed.
    /// That is durable when this returns. A session that was deleted before is deleted.
    pub async fn delete(&self, id: &SessionId) -> Result<Deleted, RequestError> {
        self.refuse_if_closing()?;
        if self.board().get(id).is_some() {
            self.refuse_if_degraded()?;
            // Carried through, also when nobody waits for it any more.
            let (gateway, of) = (self.clone(), id.clone());
            let work = tokio::spawn(async move {
                match gateway.ask(&of, |reply| Request::End(DELETED.to_owned(), reply)).await {
                    Ok(()) | Err(RequestError::Refused(Refusal::SessionEnded)) => gateway.remove(&of).await,
                    // Somebody else deletes it.
                    Err(RequestError::UnknownSession(_)) => gateway.remove(&of).await,
                    Err(error) => Err(error),
                }
            });
            work.await.unwrap_or_else(|error| Err(RequestError::Log(error.to_string())))?;
        }
        if self.log().removal(id).map_err(RequestError::of_read)?.is_none() {
            return Err(RequestError::UnknownSession(id.clone()));
        }
        match timeout(ERASED, self.log().erased()).await {
            Ok(Ok(())) => Ok(Deleted::Erased),
            // What was deleted stays deleted; the rest is done at the next start, or when there is time.
            Ok(Err(_)) | Err(_) => Ok(Deleted::Pending),
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
            // Somebody else does it.
            shared.deletions.over(id).await;
            return Ok(());
        };
        let Some(session) = shared.board.get(id) else { return Ok(()) };
        turnstream_failpoint::reach("keeper.deleting");
        if let Some(keeper) = shared.take_keeper(id) {
            let number = keeper.number;
            if timeout(KEEPER, keeper.clone().stop()).await.is_err() {
                shared.abort_keeper(number);
                // It is gone at its next await. Whatever it still appends, the log refuses.
                let _ = timeout(KEEPER, keeper.ended()).await;
            }
        }
        if let Some(agent) = shared.agent(&session.agent) {
            // Before the log: a crash in between leaves a session that can be deleted again.
            agent.forget(id).await.map_err(RequestError::Log)?;
        }
        shared.ledger.forget(id).await?;
        turnstream_failpoint::reach("keeper.forgotten");
        match shared.log.delete(id).await {
            Ok(()) | Err(turnstream_log::RemoveError::Unknown(_)) => {}
            Err(error) => return Err(RequestError::of_remove(error)),
        }
        turnstream_failpoint::reach("keeper.deleted");
        shared.board.remove(id);
        Ok(())
    }
}

impl Deletions {
    pub(crate) fn is_under_way(&self, id: &SessionId) -> bool {
        self.0.borrow().contains(id)
    }

    /// Returns when that session is not being deleted any more.
    pub(crate) async fn over(&self, id: &SessionId) {
        // The sender lives as long as this does: waiting cannot fail.
        let _ = self.0.subscribe().wait_for(|under_way| !under_way.contains(id)).await;
    }
}

impl Deleting {
    /// None when somebody else deletes it.
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
