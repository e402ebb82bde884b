//! A log: creates, claims, reads and follows the sessions of one store.

use crate::appender::Appender;
pub use crate::batch::Merge;
use crate::committed::Committed;
use crate::diagnostics::{SlowCommits, join};
use crate::error::{ClaimError, ReadError, StoreFault};
use crate::figures::{Figures, Meter};
use crate::follow::Follower;
use crate::health::{Health, HealthBySource, HealthReporter, HealthWatch};
use crate::queue::Queue;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::store::{ClaimMode, Commit, SessionRecord, Store};
use crate::totals::RemovalCounts;
use crate::waker::Waker;
use crate::writer::Writer;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;
use tracing::{error, info, warn};
use turnstream_model::Chain;
use turnstream_model::cursor::{Cursor, Generation, Seq};
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// Bytes per read of the store, regardless of how much is requested.
const READ_BYTES: usize = 128 * 1024;

/// Options of a log.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether adjacent deltas that wait for the same commit are merged.
    pub merge: Merge,
    /// Bytes that may be appended and not yet flushed, over all sessions. Further appends wait. Imports have
    /// an extra budget of an eighth of this, so that they do not delay live sessions.
    pub budget: usize,
    /// Size of a segment file in bytes.
    pub segment: u64,
    /// How long the stored fold of an active session may lag behind. Readers always see the latest state.
    pub debounce: Duration,
    /// Bytes of disk that are kept in reserve, for opening the log and deleting sessions when the disk is
    /// full. Without room for them the log is degraded. Zero keeps none.
    pub reserve: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            merge: Merge::AdjacentDeltas,
            budget: 64 << 20,
            segment: 8 << 20,
            debounce: Duration::from_secs(1),
            reserve: 32 << 20,
        }
    }
}

/// The durable log of many sessions. Clones share it. It closes on [`Log::close`], or when the last clone,
/// reader and writer are dropped.
#[derive(Clone)]
pub struct Log {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    refused: Arc<AtomicU64>,
    meter: Arc<Meter>,
    pub(crate) removed: Arc<RemovalCounts>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) store: Arc<dyn Store>,
    sessions: Arc<Sessions>,
    health: watch::Receiver<HealthBySource>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// A log before it has a store.
pub(crate) struct LogBuilder {
    queue: Arc<Queue>,
    pub(crate) sessions: Arc<Sessions>,
    refused: Arc<AtomicU64>,
    removed: Arc<RemovalCounts>,
    writer_health: HealthReporter,
    health: watch::Receiver<HealthBySource>,
    merge: Merge,
}

/// How a store reports to its log.
pub(crate) struct StoreReports {
    /// The health of the store's work after commits.
    pub(crate) health: HealthReporter,
    /// Whether there is room in reserve.
    pub(crate) reserve_health: HealthReporter,
    queue: Arc<Queue>,
    refused: Arc<AtomicU64>,
    removed: Arc<RemovalCounts>,
}

impl StoreReports {
    /// Counts late partial writes that the store refused (L8).
    pub(crate) fn refused(&self, writes: u64) {
        if writes > 0 {
            self.refused.fetch_add(writes, Ordering::Relaxed);
            warn!(rows = writes, "refused late partial writes of items");
        }
    }

    /// Everything that was deleted or trimmed before is erased from every file.
    pub(crate) fn erased(&self) {
        self.removed.erased();
    }

    /// Wakes the writer, which then calls [`Commit::between_commits`].
    pub(crate) fn wake_writer(&self) {
        self.queue.wake_writer();
    }

    /// The store has ended, for whatever reason. Further appends are refused.
    pub(crate) fn store_ended(&self) {
        self.queue.close();
    }
}

impl LogBuilder {
    pub(crate) fn new(options: &Options) -> (Self, StoreReports) {
        let queue = Arc::new(Queue::new(options.budget));
        let refused = Arc::new(AtomicU64::new(0));
        let removed = Arc::new(RemovalCounts::default());
        let (reporters, health) = HealthBySource::watch();
        let reports = StoreReports {
            health: reporters.store,
            reserve_health: reporters.reserve,
            queue: queue.clone(),
            refused: refused.clone(),
            removed: removed.clone(),
        };
        let (sessions, merge) = (Arc::new(Sessions::default()), options.merge);
        let writer_health = reporters.writer;
        (Self { queue, sessions, refused, removed, writer_health, health, merge }, reports)
    }

    /// Starts the writer thread for this store.
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
            refusal: None,
            outage: None,
            unnotified: Vec::new(),
            slow_commits: SlowCommits::default(),
        };
        let thread = std::thread::Builder::new().name("log-writer".into()).spawn(move || writer.run())?;
        let writer = Mutex::new(Some(thread));
        let inner = Inner { refused, removed, meter, queue, store, sessions, health, writer };
        Ok(Log { inner: Arc::new(inner) })
    }
}

impl Log {
    /// Creates a session and claims its first owner epoch.
    pub async fn create(&self, id: &SessionId) -> Result<Appender, ClaimError> {
        let SessionRecord { key, epoch, .. } = self.inner.store.create(id).await?;
        // Looked up instead of made from the answer: another owner may have taken the session over and
        // written to it.
        let session = self.find(id).map_err(|error| {
            self.inner.store.release(key, epoch);
            claim_error(id, error)
        })?;
        Ok(Appender::new(self.inner.clone(), session, epoch))
    }

    /// Claims the next owner epoch of a session that has no owner.
    pub async fn claim(&self, id: &SessionId) -> Result<Appender, ClaimError> {
        self.claim_with(id, ClaimMode::IfFree).await
    }

    /// Claims the next owner epoch even if the session has an owner. That owner can no longer append.
    pub async fn take_over(&self, id: &SessionId) -> Result<Appender, ClaimError> {
        self.claim_with(id, ClaimMode::TakeOver).await
    }

    async fn claim_with(&self, id: &SessionId, mode: ClaimMode) -> Result<Appender, ClaimError> {
        let session = self.find(id).map_err(|error| claim_error(id, error))?;
        let known = self.inner.store.claim(session.clone(), mode).await?;
        let mut appender = Appender::new(self.inner.clone(), session, known.epoch);
        // A commit of the previous owner may have begun before the new epoch. Wait for it, so that the new
        // owner reads everything there is.
        appender.wait_for_earlier_commits().await.map_err(|error| ClaimError::Store {
            session: id.to_string(),
            problem: StoreFault::new(error),
        })?;
        // Events that owners in other processes wrote.
        self.inner.sessions.advance_head(id, known.head);
        appender.stamp(self.last_time(id).await);
        Ok(appender)
    }

    /// The time of the last event of a session, also if retention has removed it.
    async fn last_time(&self, id: &SessionId) -> Time {
        let (log, of) = (self.clone(), id.clone());
        let read = tokio::task::spawn_blocking(move || {
            let session = log.find(&of)?;
            let head = session.head();
            if head == Seq(0) {
                return Ok(None);
            }
            match log.inner.read_some(&session, head, 1) {
                Ok(last) => Ok(last.last().and_then(|last| last.event().ok()).map(|last| last.time)),
                Err(ReadError::Trimmed { .. }) => Ok(log.inner.store.base(session.key)?.trimmed),
                Err(error) => Err(error),
            }
        });
        let error = match read.await {
            Ok(Ok(time)) => return time.unwrap_or_default(),
            Ok(Err(error)) => Chain(&error).to_string(),
            Err(error) => Chain(&error).to_string(),
        };
        warn!(session = %id, error, "the time of the last event cannot be read; the clock alone decides");
        Time::default()
    }

    /// The ids of all sessions, in creation order.
    pub fn sessions(&self) -> Result<Vec<SessionId>, ReadError> {
        Ok(self.inner.store.summaries()?.into_iter().map(|summary| summary.id).collect())
    }

    /// The generation and the last durable event of a session.
    pub fn head(&self, id: &SessionId) -> Result<(Generation, Seq), ReadError> {
        let session = self.find(id)?;
        Ok((session.generation.clone(), session.head()))
    }

    /// Up to `limit` durable events after `after`. [`ReadError::Trimmed`] if the first of them is no longer
    /// kept.
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

    /// Follows a session: every event after the cursor exactly once, in order, then live events.
    pub fn follow(&self, id: &SessionId, cursor: &Cursor) -> Result<Follower, ReadError> {
        let session = self.find(id)?;
        // If several logs share a store, another log may have issued this cursor before its commit was
        // announced here.
        if cursor.seq > session.head()
            && let Some(known) = self.inner.store.session(id)?
        {
            session.advance_head(known.head);
        }
        Ok(Follower::new(self.inner.clone(), session, cursor))
    }

    /// Whether commits succeed at the moment.
    pub fn health(&self) -> Health {
        self.inner.health.borrow().worst()
    }

    /// Whether writes fail because the disk is full. Sessions can be deleted then.
    pub fn is_disk_full(&self) -> bool {
        self.inner.health.borrow().is_disk_full()
    }

    /// Watches the health from now on.
    pub fn watch_health(&self) -> HealthWatch {
        HealthWatch::new(self.inner.health.clone())
    }

    /// Commits what was appended and releases the directory. Later appends are refused. Followers receive the
    /// remaining events and then [`Follow::Closed`](crate::Follow::Closed).
    pub async fn close(self) {
        let inner = self.inner.clone();
        // Bounded: on a failing disk the threads give up after the writer's deadline.
        if let Err(error) = tokio::task::spawn_blocking(move || inner.shut_down()).await {
            error!(error = %Chain(&error), "the log could not be closed");
        }
    }

    /// Late partial writes that the store has refused since the log was opened.
    pub fn refused_writes(&self) -> u64 {
        self.inner.refused.load(Ordering::Relaxed)
    }

    /// Counters since the log was opened, and the current queue.
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

fn claim_error(id: &SessionId, error: ReadError) -> ClaimError {
    let problem = match error {
        ReadError::Unknown(id) => return ClaimError::Unknown(id),
        ReadError::Store(fault) => fault,
        ReadError::Missing { .. } | ReadError::Trimmed { .. } => StoreFault::new(error),
    };
    ClaimError::Store { session: id.to_string(), problem }
}

impl Inner {
    pub(crate) async fn read_off_thread(
        self: Arc<Self>,
        session: Arc<Session>,
        from: Seq,
        max_bytes: usize,
    ) -> Result<Vec<Committed>, ReadError> {
        let read = tokio::task::spawn_blocking(move || self.read_some(&session, from, max_bytes));
        read.await.unwrap_or_else(|error| Err(ReadError::Store(StoreFault::new(error))))
    }

    /// Durable events from `from` on, out of memory or else from the store.
    pub(crate) fn read_some(
        &self,
        session: &Session,
        from: Seq,
        max_bytes: usize,
    ) -> Result<Vec<Committed>, ReadError> {
        // An event that leaves memory after the first look is in the store before the second.
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

    /// Why the store does not have this event. The store may know more than the session: a removal changes
    /// the store first.
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

    /// The session, if it is in memory.
    pub(crate) fn in_use(&self, id: &SessionId) -> Option<Arc<Session>> {
        self.sessions.in_use(id)
    }

    /// Every session in memory.
    pub(crate) fn all_in_use(&self) -> Vec<Arc<Session>> {
        self.sessions.live()
    }

    /// The sessions with events that readers of the store cannot find yet, and the last such event of each.
    pub(crate) fn unflushed(&self) -> Vec<(Arc<Session>, Seq)> {
        let live = self.sessions.live().into_iter().map(|session| (session.head(), session));
        live.filter(|(head, session)| !session.is_flushed(*head))
            .map(|(head, session)| (session, head))
            .collect()
    }

    fn shut_down(&self) {
        self.queue.close();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let was_open = writer.is_some();
        if let Some(writer) = writer {
            join(writer);
        }
        self.store.close();
        if was_open {
            info!("log closed");
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shut_down();
    }
}
