//! The sessions of one store: claim them, read and follow them.

use crate::appender::Appender;
pub use crate::batch::Merge;
use crate::committed::Committed;
use crate::error::{ClaimError, ReadError};
use crate::figures::{Figures, Meter};
use crate::follow::Follower;
use crate::health::{Health, HealthWatch, Reporter, Sides};
use crate::queue::Queue;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::store::{Commit, Known, Store, Take};
use crate::totals::Counts;
use crate::waker::Waker;
use crate::writer::Writer;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;
use turnstream_model::cursor::{Cursor, Generation, Seq};
use turnstream_model::id::SessionId;

/// How much is read at a time, however much is asked for.
const READ_BYTES: usize = 128 * 1024;

/// How a log behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether deltas that wait for the same commit are merged.
    pub merge: Merge,
    /// Bytes that may be on their way into the database, over all sessions; appends wait beyond it. Imports have
    /// an eighth of it once more for themselves, so that none makes others wait.
    pub budget: usize,
    /// Bytes of one segment file.
    pub segment: u64,
    /// How long the stored fold of a session may be behind while it talks. Readers never are.
    pub debounce: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            merge: Merge::AdjacentDeltas,
            budget: 64 << 20,
            segment: 8 << 20,
            debounce: Duration::from_secs(1),
        }
    }
}

/// The durable log of many sessions. Cloning shares it; it closes when [`Log::close`] is called or the last clone and
/// the last reader and writer of it are gone.
#[derive(Clone)]
pub struct Log {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    refused: Arc<AtomicU64>,
    meter: Arc<Meter>,
    pub(crate) removed: Arc<Counts>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) store: Arc<dyn Store>,
    sessions: Arc<Sessions>,
    health: watch::Receiver<Sides>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// A log that has no store yet.
pub(crate) struct Front {
    queue: Arc<Queue>,
    pub(crate) sessions: Arc<Sessions>,
    refused: Arc<AtomicU64>,
    removed: Arc<Counts>,
    writer_health: Reporter,
    health: watch::Receiver<Sides>,
    merge: Merge,
}

/// What a store tells its log.
pub(crate) struct Reports {
    /// How the store is doing, apart from commits.
    pub(crate) health: Reporter,
    queue: Arc<Queue>,
    refused: Arc<AtomicU64>,
    removed: Arc<Counts>,
}

impl Reports {
    /// So many late partial writes were refused (L8).
    pub(crate) fn refused(&self, writes: u64) {
        self.refused.fetch_add(writes, Ordering::Relaxed);
    }

    /// What was removed before is in no file any more.
    pub(crate) fn erased(&self) {
        self.removed.erased();
    }

    /// The writer is wanted: it calls [`Commit::between`].
    pub(crate) fn nudge(&self) {
        self.queue.nudge();
    }

    /// The store is at its end, however it came to it: nothing more may be accepted.
    pub(crate) fn gone(&self) {
        self.queue.close();
    }
}

impl Front {
    pub(crate) fn new(options: &Options) -> (Self, Reports) {
        let queue = Arc::new(Queue::new(options.budget));
        let refused = Arc::new(AtomicU64::new(0));
        let removed = Arc::new(Counts::default());
        let (writer_health, store_health, health) = Sides::watch();
        let reports = Reports {
            health: store_health,
            queue: queue.clone(),
            refused: refused.clone(),
            removed: removed.clone(),
        };
        let (sessions, merge) = (Arc::new(Sessions::default()), options.merge);
        (Self { queue, sessions, refused, removed, writer_health, health, merge }, reports)
    }

    /// Starts the thread that commits to this store.
    pub(crate) fn start(self, commits: Box<dyn Commit>, store: Arc<dyn Store>) -> io::Result<Log> {
        let Self { queue, sessions, refused, removed, writer_health, health, merge } = self;
        let meter = Arc::new(Meter::default());
        let writer = Writer {
            commits,
            meter: meter.clone(),
            queue: queue.clone(),
            merge,
            health: writer_health,
            sessions: sessions.clone(),
            waker: Waker::start()?,
            given_up: None,
            trouble: None,
            untold: Vec::new(),
        };
        let thread = std::thread::Builder::new().name("log-writer".into()).spawn(move || writer.run())?;
        let writer = Mutex::new(Some(thread));
        let inner = Inner { refused, removed, meter, queue, store, sessions, health, writer };
        Ok(Log { inner: Arc::new(inner) })
    }
}

impl Log {
    /// Makes a session and takes its first owner epoch.
    pub async fn create(&self, id: &SessionId) -> Result<Appender, ClaimError> {
        let Known { key, epoch, .. } = self.inner.store.create(id).await?;
        // Looked for, and not made from the answer: somebody may have taken it over since, and written to it.
        let session = self.find(id).map_err(|error| {
            self.inner.store.release(key, epoch);
            claim_error(id, &error)
        })?;
        Ok(Appender::new(self.inner.clone(), session, epoch))
    }

    /// Takes the next owner epoch of a session that has no owner.
    pub async fn claim(&self, id: &SessionId) -> Result<Appender, ClaimError> {
        self.take(id, Take::IfFree).await
    }

    /// Takes the next owner epoch whether or not there is an owner: a living one can no longer append.
    pub async fn take_over(&self, id: &SessionId) -> Result<Appender, ClaimError> {
        self.take(id, Take::Over).await
    }

    async fn take(&self, id: &SessionId, how: Take) -> Result<Appender, ClaimError> {
        let session = self.find(id).map_err(|error| claim_error(id, &error))?;
        let known = self.inner.store.claim(session.clone(), how).await?;
        let mut appender = Appender::new(self.inner.clone(), session, known.epoch);
        // A commit of the old owner may be under way here that began before the new epoch. It ends before this one does:
        // what the new owner reads from here on is all there is.
        appender
            .settle_in()
            .await
            .map_err(|error| ClaimError::Store { session: id.to_string(), problem: error.to_string() })?;
        // What owners elsewhere wrote.
        self.inner.sessions.heard(id, known.head);
        Ok(appender)
    }

    /// The ids of all sessions, in the order they were made.
    pub fn sessions(&self) -> Result<Vec<SessionId>, ReadError> {
        Ok(self.inner.store.summaries()?.into_iter().map(|summary| summary.id).collect())
    }

    /// The generation and the last durable event of a session.
    pub fn head(&self, id: &SessionId) -> Result<(Generation, Seq), ReadError> {
        let session = self.find(id)?;
        Ok((session.generation.clone(), session.head()))
    }

    /// Events after this one, up to `limit` of them, as far as they are durable. [`ReadError::Trimmed`] when the first of them
    /// is no longer kept.
    pub fn read(&self, id: &SessionId, after: Seq, limit: usize) -> Result<Vec<Committed>, ReadError> {
        let session = self.find(id)?;
        let mut events = Vec::new();
        let mut next = after.next();
        while events.len() < limit && next <= session.head() {
            let batch = self.inner.read_some(&session, next, READ_BYTES)?;
            events.extend(batch.into_iter().take(limit - events.len()));
            next = events.last().map_or(next, |event: &Committed| event.seq().next());
        }
        Ok(events)
    }

    /// Every event after the cursor exactly once, in order, then live ones.
    pub fn follow(&self, id: &SessionId, cursor: &Cursor) -> Result<Follower, ReadError> {
        let session = self.find(id)?;
        // Where several logs share a store, another one may have handed this cursor out before its news came here.
        if cursor.seq > session.head()
            && let Some(known) = self.inner.store.session(id)?
        {
            session.heard(known.head);
        }
        Ok(Follower::new(self.inner.clone(), session, cursor))
    }

    /// Whether commits succeed at the moment.
    pub fn health(&self) -> Health {
        self.inner.health.borrow().worst()
    }

    /// Follows the health from now on.
    pub fn watch_health(&self) -> HealthWatch {
        HealthWatch::new(self.inner.health.clone())
    }

    /// Commits what was appended, and gives the directory free. Appends that come later are refused, and followers end
    /// with [`Follow::Closed`](crate::Follow::Closed) when they have seen all there is.
    pub async fn close(self) {
        let inner = self.inner.clone();
        // The threads end within the writer's deadline for a failing disk.
        let _ = tokio::task::spawn_blocking(move || inner.shut_down()).await;
    }

    /// Late partial writes that the store refused since the log was opened.
    pub fn refused_writes(&self) -> u64 {
        self.inner.refused.load(Ordering::Relaxed)
    }

    /// What it did since it was opened, and what is under way.
    pub fn figures(&self) -> Figures {
        let (under_way, most_under_way) = self.inner.queue.under_way();
        self.inner.meter.read(self.refused_writes(), under_way, most_under_way)
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    pub(crate) fn shared_inner(&self) -> Arc<Inner> {
        self.inner.clone()
    }

    pub(crate) fn find(&self, id: &SessionId) -> Result<Arc<Session>, ReadError> {
        self.inner.sessions.find(id, &*self.inner.store)
    }
}

fn claim_error(id: &SessionId, error: &ReadError) -> ClaimError {
    match error {
        ReadError::Unknown(id) => ClaimError::Unknown(id.clone()),
        ReadError::Store(problem) => ClaimError::Store { session: id.to_string(), problem: problem.clone() },
        ReadError::Missing { .. } | ReadError::Trimmed { .. } => {
            ClaimError::Store { session: id.to_string(), problem: error.to_string() }
        }
    }
}

impl Inner {
    pub(crate) async fn read_off_thread(
        self: Arc<Self>,
        session: Arc<Session>,
        from: Seq,
        max_bytes: usize,
    ) -> Result<Vec<Committed>, ReadError> {
        let read = tokio::task::spawn_blocking(move || self.read_some(&session, from, max_bytes));
        read.await.unwrap_or_else(|error| Err(ReadError::Store(error.to_string())))
    }

    /// Events from `from` on, which must be durable: from memory, or else from the store.
    pub(crate) fn read_some(
        &self,
        session: &Session,
        from: Seq,
        max_bytes: usize,
    ) -> Result<Vec<Committed>, ReadError> {
        // What leaves memory between the two looks is in the store at the second.
        if let Some(events) = session.recent_from(from, max_bytes).filter(|events| !events.is_empty()) {
            return Ok(events);
        }
        if !session.is_deleted() {
            let events = self.store.read(session.key, from, max_bytes)?;
            if !events.is_empty() {
                return Ok(events);
            }
        }
        Err(self.why_missing(session, from)?)
    }

    /// Why the store does not have that event. It may know more than the session here: whoever removes something changes the
    /// store first.
    fn why_missing(&self, session: &Session, seq: Seq) -> Result<ReadError, ReadError> {
        let known = self.store.session(&session.id)?.filter(|known| known.key == session.key);
        let Some(known) = known.filter(|_| !session.is_deleted()) else {
            session.delete();
            return Ok(ReadError::Unknown(session.id.to_string()));
        };
        session.trim(known.oldest);
        let (session, oldest) = (session.id.to_string(), known.oldest);
        Ok(if seq < oldest {
            ReadError::Trimmed { session, seq, oldest }
        } else {
            ReadError::Missing { session, seq, head: known.head }
        })
    }

    /// The sessions that have events which the store's readers do not find yet, and how far those go.
    pub(crate) fn unsettled(&self) -> Vec<(Arc<Session>, Seq)> {
        let live = self.sessions.live().into_iter().map(|session| (session.head(), session));
        live.filter(|(head, session)| !session.is_settled(*head))
            .map(|(head, session)| (session, head))
            .collect()
    }

    fn shut_down(&self) {
        self.queue.close();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            // A panic of the thread has been printed; the store is closed all the same.
            let _ = writer.join();
        }
        self.store.close();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shut_down();
    }
}
