//! Claims: creating sessions, changing their owner, and publishing or discarding imports.
//!
//! They run on the flusher thread, which owns the database.

use super::flusher::Flusher;
use super::leases::Lease;
use super::sqlite::{self, FIRST_EPOCH, Visibility};
use crate::diagnostics::answer;
use crate::error::{ClaimError, StoreFault};
use crate::session::Session;
use crate::store::{ClaimMode, SessionRecord};
use std::sync::Arc;
use tokio::sync::oneshot;
use tracing::{debug, info};
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::fold::State;
use turnstream_model::id::SessionId;

/// A change of ownership. It is durable before it is answered.
pub(crate) struct Claim {
    pub(super) kind: ClaimKind,
    pub(super) done: oneshot::Sender<Result<Lease, ClaimError>>,
}

/// The kind of a claim.
pub(super) enum ClaimKind {
    /// Create a session.
    New(SessionId),
    /// Create a session for an import, invisible until it is complete, with the state before its first event.
    Import(SessionId, Box<State>),
    /// Publish an imported session once it is flushed.
    Reveal(Arc<Session>, Option<String>),
    /// Discard an unfinished import.
    GiveUp(Arc<Session>),
    /// Claim the next epoch of an existing session.
    Next(Arc<Session>, ClaimMode),
}

impl Flusher {
    /// Claims run one after the other on this thread, so that only one of two claimants finds a session free.
    pub(super) fn claim(&mut self, claim: Claim) {
        let Claim { kind, done } = claim;
        let known = match kind {
            ClaimKind::Reveal(session, native_id) if !session.is_all_flushed() => {
                return self
                    .unpublished_imports
                    .push(Claim { kind: ClaimKind::Reveal(session, native_id), done });
            }
            ClaimKind::New(id) => self.create(&id, Visibility::Immediate),
            ClaimKind::Import(id, base) => self.create(&id, Visibility::AfterImport { base: &base }),
            ClaimKind::Reveal(session, native_id) => self.reveal(&session, native_id.as_deref()),
            ClaimKind::GiveUp(session) => self.give_up(&session),
            ClaimKind::Next(session, ClaimMode::IfFree) if self.leases.is_held(session.key) => {
                Err(ClaimError::Held(session.id.to_string()))
            }
            ClaimKind::Next(session, ClaimMode::IfFree | ClaimMode::TakeOver) => self.next_epoch(&session),
        };
        // If the caller has stopped waiting, the lease is dropped and the session is free again. The epoch
        // stays used.
        answer(done, known.map(|known| self.leases.hold(known)));
    }

    fn next_epoch(&mut self, session: &Session) -> Result<SessionRecord, ClaimError> {
        let epoch = self.persist(|database| database.next_epoch(session.key)).map_err(failure(session))?;
        let epoch = epoch.ok_or_else(|| ClaimError::Unknown(session.id.to_string()))?;
        session.set_epoch(epoch);
        debug!(session = %session.id, epoch, "session claimed");
        Ok(known(session))
    }

    fn reveal(&mut self, session: &Session, native_id: Option<&str>) -> Result<SessionRecord, ClaimError> {
        self.persist(|database| database.reveal(session.key, native_id)).map_err(failure(session))?;
        Ok(known(session))
    }

    fn give_up(&mut self, session: &Session) -> Result<SessionRecord, ClaimError> {
        // The import that wanted to publish it has been dropped.
        self.unpublished_imports.retain(|claim| match &claim.kind {
            ClaimKind::Reveal(waiting, _) => waiting.key != session.key,
            ClaimKind::New(_) | ClaimKind::Import(..) | ClaimKind::GiveUp(_) | ClaimKind::Next(..) => true,
        });
        if self.persist(|database| database.give_up(session.key)).map_err(failure(session))? {
            session.delete();
            self.forget(session);
            info!(session = %session.id, "an unfinished import was discarded");
        }
        Ok(known(session))
    }

    fn create(&mut self, id: &SessionId, seen: Visibility<'_>) -> Result<SessionRecord, ClaimError> {
        let failed = |problem| ClaimError::Store { session: id.to_string(), problem };
        let name = sqlite::fresh_generation();
        let key = self.persist(|database| database.create(id.as_str(), &name, seen)).map_err(failed)?;
        let key = key.ok_or_else(|| ClaimError::Exists(id.to_string()))?;
        let generation = Generation::new(name).map_err(|error| failed(StoreFault::new(error)))?;
        let head = match seen {
            Visibility::Immediate => Seq(0),
            Visibility::AfterImport { base } => base.seq,
        };
        Ok(SessionRecord { key, generation, epoch: FIRST_EPOCH, oldest: head.next(), head })
    }
}

/// The record of a session that is in use.
fn known(session: &Session) -> SessionRecord {
    let (generation, epoch) = (session.generation.clone(), session.epoch());
    SessionRecord { key: session.key, generation, epoch, oldest: session.oldest(), head: session.head() }
}

fn failure(session: &Session) -> impl Fn(StoreFault) -> ClaimError {
    |problem| ClaimError::Store { session: session.id.to_string(), problem }
}
