//! A session that happened elsewhere comes into the log whole, or not at all.

use crate::appender::enqueue;
use crate::error::{AppendError, ClaimError, ReadError};
use crate::log::{Inner, Log};
use crate::queue::Content;
use crate::session::Session;
use crate::store::Known;
use crate::weight;
use std::sync::Arc;
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::event::Event;
use turnstream_model::fold::State;
use turnstream_model::id::SessionId;

/// What the log knows of a session beyond its events, because they say nothing of where they come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// How the agent called it that it had before. No agent here may be asked for that: on the machine it comes from, the
    /// session there is still in use.
    pub native_id: Option<String>,
}

/// The right to fill one session with events that have their places and times already. Nobody sees the session until
/// [`Importer::finish`]; one that is dropped before leaves nothing, and so does a crash.
pub struct Importer {
    log: Arc<Inner>,
    /// Not among the sessions in use, where others would find it.
    session: Arc<Session>,
    epoch: u64,
    next: Seq,
    finished: bool,
}

impl Log {
    /// Begins to import a session. Its id is taken from here on.
    pub async fn import(&self, id: &SessionId) -> Result<Importer, ClaimError> {
        self.import_after(id, State::default()).await
    }

    /// Begins to import a session whose beginning was trimmed where it comes from: its events follow this base, which is
    /// kept as it is ([`Log::base`]).
    pub async fn import_after(&self, id: &SessionId, base: State) -> Result<Importer, ClaimError> {
        let log = self.shared_inner();
        let next = base.seq.next();
        let known: Known = log.store.import(id, base).await?;
        let session = Arc::new(Session::new(id, &known));
        Ok(Importer { log, session, epoch: known.epoch, next, finished: false })
    }

    /// Whether a session was imported.
    pub fn imported(&self, id: &SessionId) -> Result<Option<Imported>, ReadError> {
        self.inner().store.imported(id)
    }
}

impl Importer {
    /// Appends the next events. They are durable when this returns. One call may hold as much as an append.
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

    /// Shows the session, whole. `native_id` is how its last agent called it; see [`Imported`].
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
