//! A data directory of sessions: open it, claim sessions, read and follow them.

use crate::appender::Appender;
pub use crate::batch::Merge;
use crate::committed::Committed;
use crate::directory::Directory;
use crate::error::{AppendError, ClaimError, ReadError};
use crate::follow::Follower;
use crate::health::{Health, HealthWatch, Sides};
use crate::note::{Entry, Note};
use crate::open::Ready;
use crate::queue::Queue;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::settler::{Claim, ClaimKind, Claimed, Settler};
use crate::sqlite::{self, Readers, Revision};
use crate::unsettled::Unsettled;
use crate::writer::Writer;
use bytes::Bytes;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use turnstream_model::cursor::{Cursor, Generation, Seq};
use turnstream_model::id::SessionId;

/// How long events may be in segments only. This is also how far the sqlite3 shell is behind.
const LAG: Duration = Duration::from_secs(1);

/// How much is read at a time, however much is asked for.
const READ_BYTES: usize = 128 * 1024;

/// How a log behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether deltas that wait for the same commit are merged.
    pub merge: Merge,
    /// Bytes that may be on their way into the database, over all sessions; appends wait beyond it.
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
    pub(crate) queue: Arc<Queue>,
    unsettled: Arc<Unsettled>,
    readers: Arc<Readers>,
    sessions: Arc<Sessions>,
    budget: Arc<Semaphore>,
    budget_bytes: u32,
    health: watch::Receiver<Sides>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Released when everything is closed.
    held: Mutex<Option<Held>>,
}

/// A directory in use, and what its note says when the log is closed.
struct Held {
    directory: Directory,
    entry: Entry,
    revision: Revision,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Maps that a panic leaves as they were before the call that panicked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log {
    /// Starts the threads of a log.
    pub(crate) fn start(ready: Ready, options: &Options) -> io::Result<Self> {
        let Ready { directory, store, readers, segments, entry } = ready;
        let held = Held { directory, entry, revision: store.revision().clone() };
        let sessions = Arc::new(Sessions::default());
        let queue = Arc::new(Queue::default());
        let (writer_health, settler_health, health) = Sides::watch();
        let refused = Arc::new(AtomicU64::new(0));
        let budget_bytes = u32::try_from(options.budget).unwrap_or(u32::MAX).max(1);
        let budget = Arc::new(Semaphore::new(budget_bytes as usize));
        let unsettled = Arc::new(Unsettled::new(options.debounce.min(LAG), budget_bytes as usize));
        let settler = Settler {
            store,
            readers: readers.clone(),
            spares: segments.spares(),
            queue: queue.clone(),
            budget: budget.clone(),
            debounce: options.debounce,
            projections: HashMap::new(),
            refused: refused.clone(),
            unsettled: unsettled.clone(),
            sessions: sessions.clone(),
            health: settler_health,
        };
        let writer = Writer {
            segments,
            queue: queue.clone(),
            merge: options.merge,
            health: writer_health,
            unsettled: unsettled.clone(),
            sessions: sessions.clone(),
            given_up: false,
            trouble: None,
            untold: Vec::new(),
        };
        let start = |name: &str, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.into()).spawn(run)
        };
        let threads = vec![
            start("log-settler", Box::new(move || settler.run()))?,
            start("log-writer", Box::new(move || writer.run()))?,
        ];
        let (threads, held) = (Mutex::new(threads), Mutex::new(Some(held)));
        let inner = Inner {
            refused,
            queue,
            unsettled,
            readers,
            sessions,
            budget,
            budget_bytes,
            health,
            threads,
            held,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Makes a session and takes its first owner epoch.
    pub async fn create(&self, id: &SessionId) -> Result<Appender, ClaimError> {
        let generation = sqlite::fresh_generation();
        let claimed = self.claim_with(id, ClaimKind::Create { generation }).await?;
        Ok(Appender::new(self.inner.clone(), claimed))
    }

    /// Takes the next owner epoch of a session that has no owner.
    pub async fn claim(&self, id: &SessionId) -> Result<Appender, ClaimError> {
        let session = self.find(id).map_err(|error| claim_error(id, &error))?;
        self.claim_next(id, ClaimKind::IfFree { session }).await
    }

    /// Takes the next owner epoch whether or not there is an owner: a living one can no longer append.
    pub async fn take_over(&self, id: &SessionId) -> Result<Appender, ClaimError> {
        let session = self.find(id).map_err(|error| claim_error(id, &error))?;
        self.claim_next(id, ClaimKind::TakeOver { session }).await
    }

    async fn claim_next(&self, id: &SessionId, kind: ClaimKind) -> Result<Appender, ClaimError> {
        let claimed = self.claim_with(id, kind).await?;
        let mut appender = Appender::new(self.inner.clone(), claimed);
        // A commit of the old owner may be under way that began before the new epoch. It ends before this one does: what
        // the new owner reads from here on is all there is.
        appender
            .settle_in()
            .await
            .map_err(|error| ClaimError::Store { session: id.to_string(), problem: error.to_string() })?;
        Ok(appender)
    }

    async fn claim_with(&self, id: &SessionId, kind: ClaimKind) -> Result<Claimed, ClaimError> {
        let (done, answer) = oneshot::channel();
        let claim = Claim { session: id.to_string(), kind, done };
        self.inner.unsettled.claim(claim).map_err(|_| ClaimError::Closed)?;
        answer.await.unwrap_or(Err(ClaimError::Closed))
    }

    /// The ids of all sessions, in the order they were made.
    pub fn sessions(&self) -> Result<Vec<SessionId>, ReadError> {
        let ids = self.inner.readers.session_ids().map_err(|error| ReadError::Store(error.to_string()))?;
        Ok(ids.into_iter().map(SessionId::from).collect())
    }

    /// The generation and the last durable event of a session.
    pub fn head(&self, id: &SessionId) -> Result<(Generation, Seq), ReadError> {
        let session = self.find(id)?;
        Ok((session.generation.clone(), session.head()))
    }

    /// Events after this one, up to `limit` of them, as far as they are durable.
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

    /// Late partial writes that the database refused since the log was opened.
    pub fn refused_writes(&self) -> u64 {
        self.inner.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    pub(crate) fn find(&self, id: &SessionId) -> Result<Arc<Session>, ReadError> {
        self.inner.sessions.find(id.as_str(), &self.inner.readers)
    }
}

fn claim_error(id: &SessionId, error: &ReadError) -> ClaimError {
    match error {
        ReadError::Unknown(id) => ClaimError::Unknown(id.clone()),
        ReadError::Store(problem) => ClaimError::Store { session: id.to_string(), problem: problem.clone() },
        ReadError::Missing { .. } => {
            ClaimError::Store { session: id.to_string(), problem: error.to_string() }
        }
    }
}

impl Inner {
    /// Waits until events of that weight fit into what may be under way. A single append larger than all of it goes alone.
    pub(crate) async fn budget(&self, weight: usize) -> Result<OwnedSemaphorePermit, AppendError> {
        let permits = u32::try_from(weight).unwrap_or(u32::MAX).clamp(1, self.budget_bytes);
        self.budget.clone().acquire_many_owned(permits).await.map_err(|_| AppendError::Closed)
    }

    pub(crate) fn readers(&self) -> &Readers {
        &self.readers
    }

    pub(crate) async fn read_off_thread(
        self: Arc<Self>,
        session: Arc<Session>,
        from: Seq,
        max_bytes: usize,
    ) -> Result<Vec<Committed>, ReadError> {
        let read = tokio::task::spawn_blocking(move || self.read_some(&session, from, max_bytes));
        read.await.unwrap_or_else(|error| Err(ReadError::Store(error.to_string())))
    }

    /// Events from `from` on, which must be durable: from memory, or else from the database.
    pub(crate) fn read_some(
        &self,
        session: &Session,
        from: Seq,
        max_bytes: usize,
    ) -> Result<Vec<Committed>, ReadError> {
        // What leaves memory between the two looks is in the database at the second.
        if let Some(events) = session.recent_from(from, max_bytes).filter(|events| !events.is_empty()) {
            return Ok(events);
        }
        let chunks = self.readers.chunks(session.key, from.0, max_bytes);
        let chunks = chunks.map_err(|error| ReadError::Store(error.to_string()))?;
        let mut events = Vec::new();
        let (mut next, mut bytes) = (from, 0);
        for chunk in chunks.into_iter().filter(|chunk| chunk.first + chunk.count > from.0) {
            if chunk.first > next.0 {
                break;
            }
            for event in lines(chunk.first, chunk.data, next) {
                bytes += event.json().len();
                if bytes > max_bytes && !events.is_empty() {
                    return Ok(events);
                }
                next = event.seq().next();
                events.push(event);
            }
        }
        if events.is_empty() {
            return Err(ReadError::Missing {
                session: session.id.to_string(),
                seq: from,
                head: session.head(),
            });
        }
        Ok(events)
    }

    fn shut_down(&self) {
        self.queue.close();
        self.budget.close();
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            // A panic of a thread has been printed; the directory is given free all the same.
            let _ = thread.join();
        }
        if let Some(Held { directory, entry, revision }) = lock(&self.held).take() {
            // A backup that is put back later is then recognised without the segments. If it cannot be written now, they
            // know almost as much.
            let _ = directory.write_note(&Note::of(Entry { revision: revision.get(), ..entry }));
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// The lines of a row from one event on.
pub(crate) fn lines(first: u64, data: String, from: Seq) -> Vec<Committed> {
    let data = Bytes::from(data);
    let mut events = Vec::new();
    let mut start = 0;
    for (offset, line) in data.split(|byte| *byte == b'\n').enumerate() {
        let range = start..start + line.len();
        start = range.end + 1;
        let seq = Seq(first + offset as u64);
        if seq >= from {
            events.push(Committed::new(seq, data.slice(range)));
        }
    }
    events
}
