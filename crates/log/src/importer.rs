//! Importing a session from elsewhere, completely or not at all.

use crate::appender::enqueue;
use crate::error::{AppendError, ClaimError, ReadError};
use crate::log::{Inner, Log};
use crate::queue::Content;
use crate::session::Session;
use crate::store::SessionRecord;
use crate::weight;
use std::sync::Arc;
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::event::Event;
use turnstream_model::fold::State;
use turnstream_model::id::SessionId;

/// What the log knows about an imported session besides its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The agent's own id of the session on the machine it came from. No agent here may use it: the session
    /// may still be in use there.
    pub native_id: Option<String>,
}

/// The right to fill one session with events that already have a seq and a time. Nobody sees the session
/// before [`Importer::finish`]. An importer that is dropped earlier leaves nothing behind, and neither does a
/// crash.
pub struct Importer {
    log: Arc<Inner>,
    /// Not registered in `Sessions`, where others would find it.
    session: Arc<Session>,
    epoch: u64,
    next: Seq,
    finished: bool,
}

impl Log {
    /// Starts the import of a session. The id is reserved from now on.
    pub async fn import(&self, id: &SessionId) -> Result<Importer, ClaimError> {
        self.import_after(id, State::default()).await
    }

    /// Starts the import of a session whose beginning was trimmed at its origin. Its events follow `base`,
    /// which is stored as it is ([`Log::base`]).
    pub async fn import_after(&self, id: &SessionId, base: State) -> Result<Importer, ClaimError> {
        let log = self.shared_inner();
        let next = base.seq.next();
        let known: SessionRecord = log.store.import(id, base).await?;
        let session = Arc::new(Session::new(id, &known));
        Ok(Importer { log, session, epoch: known.epoch, next, finished: false })
    }

    /// The import record of a session, if it was imported.
    pub fn imported(&self, id: &SessionId) -> Result<Option<Imported>, ReadError> {
        self.inner().store.imported(id)
    }
}

impl Importer {
    /// Appends the next events. They are durable when this returns. The size limit is that of
    /// [`Appender`](crate::Appender).
    pub async fn append(&mut self, events: Vec<Event>) -> Result<(), AppendError> {
        let mut next = self.next;
        let mut weight = 0;
        for Event { seq, time: _, draft } in &events {
            if *seq != next {
                let session = self.session.id.to_string();
                return Err(AppendError::OutOfPlace { session, expected: next, found: *seq });
            }
            next = next.next();
            weight += weight::of(draft);
        }
        let content = Content::Events(events);
        enqueue(&self.log, &self.session, self.epoch, content, weight).await?.await?;
        self.next = next;
        turnstream_failpoint::reach("log.import.appended");
        Ok(())
    }

    /// Publishes the complete session. `native_id` is the id that its last agent gave it; see [`Imported`].
    pub async fn finish(mut self, native_id: Option<String>) -> Result<Generation, ClaimError> {
        turnstream_failpoint::reach("log.import.finish");
        let known = self.log.store.reveal(self.session.clone(), native_id).await?;
        self.finished = true;
        Ok(known.generation)
    }
}

impl Drop for Importer {
    fn drop(&mut self) {
        if !self.finished {
            self.log.store.give_up(self.session.clone());
        }
        self.log.store.release(self.session.key, self.epoch);
    }
}
