//! A data directory of sessions: open it, claim sessions, read and follow them.

use crate::appender::Appender;
pub use crate::batch::Merge;
use crate::batch::TurnChange;
use crate::committed::Committed;
use crate::directory::Directory;
use crate::error::{AppendError, ClaimError, OpenError, ReadError};
use crate::follow::Follower;
use crate::health::{Health, HealthWatch, Sides};
use crate::queue::Queue;
use crate::segment::Segments;
use crate::segment::record::Recovered;
use crate::session::Session;
use crate::settler::{Claim, ClaimKind, Claimed, Settler};
use crate::sqlite::{self, Chunks, Known, Readers, Store, TurnRow};
use crate::unsettled::Unsettled;
use crate::writer::Writer;
use bytes::Bytes;
use rusqlite::Connection;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use turnstream_model::cursor::{Cursor, Generation, Seq};
use turnstream_model::event::{Body, Draft, Event};
use turnstream_model::id::{SessionId, TurnId};

/// How long events may be in segments only. This is also how far the sqlite3 shell is behind.
const LAG: Duration = Duration::from_secs(1);

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

/// A turn that was open when its owner went away. Whoever takes the session over settles it, once: the end is
/// durable together with the fact that it is no longer open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abandoned {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The owner epoch that started it.
    pub epoch: u64,
}

/// What was found on opening.
pub struct Opened {
    /// The log.
    pub log: Log,
    /// Turns that nobody owns any more.
    pub abandoned: Vec<Abandoned>,
    /// The database is not the one this directory had last: every session has a new generation.
    pub restored: bool,
    /// Events that were durable and not yet in the database when the last owner went away.
    pub recovered: u64,
    /// A commit that was cut off: the file, and from which byte on it is not read. Nobody was told it was durable.
    pub torn: Option<(PathBuf, u64)>,
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
    directory: Mutex<Option<Directory>>,
}

/// Sessions in use.
#[derive(Default)]
pub(crate) struct Sessions {
    by_id: Mutex<HashMap<String, Arc<Session>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Maps that a panic leaves as they were before the call that panicked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log {
    /// Opens the log in this directory, making it if there is none. What a crash left in segments is settled first.
    pub fn open(path: &Path, options: &Options) -> Result<Opened, OpenError> {
        let directory = Directory::open(path)?;
        let database = directory.database();
        let mut opening = sqlite::open(&database)?;
        let io = |source| OpenError::Directory { path: directory.path().to_owned(), source };
        let store = |problem: String| OpenError::Store { path: database.clone(), problem };
        let sql = |error: rusqlite::Error| store(error.to_string());

        let last_boot = opening.boot.as_deref().and_then(|boot| u64::from_str_radix(boot, 16).ok());
        let (mut segments, replay) =
            Segments::open(directory.path(), last_boot, options.segment).map_err(io)?;
        let readers = Arc::new(Readers::new(&database));
        let recovered = recover(&mut opening.connection, &readers, replay.groups).map_err(store)?;

        let note = directory.read_note().map_err(io)?.unwrap_or_default();
        let identity = directory.database_identity().map_err(io)?;
        let ours = opening.boot.as_ref().map(|boot| format!("{boot} {identity}\n"));
        let restored = ours.as_ref().is_some_and(|ours| !note.contains(ours));
        let boot = fastrand::u64(..);
        let next = format!("{boot:016x} {identity}\n");
        // Between these two a crash may leave either boot in the database: both are ours.
        let last = ours.filter(|_| !restored).unwrap_or_default();
        directory.write_note(&format!("{next}{last}")).map_err(io)?;
        opening.begin(&format!("{boot:016x}"), restored).map_err(sql)?;
        directory.write_note(&next).map_err(io)?;
        segments.begin(boot);
        segments.spares().top_up().map_err(io)?;

        let abandoned = readers.open_turns().map_err(sql)?;
        let sessions = Arc::new(Sessions::default());
        let queue = Arc::new(Queue::default());
        let (writer_health, settler_health, health) = Sides::watch();
        let refused = Arc::new(AtomicU64::new(0));
        let budget_bytes = u32::try_from(options.budget).unwrap_or(u32::MAX).max(1);
        let budget = Arc::new(Semaphore::new(budget_bytes as usize));
        let unsettled = Arc::new(Unsettled::new(options.debounce.min(LAG), budget_bytes as usize));
        let settler = Settler {
            store: Store::new(opening.connection),
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
            given_up: false,
        };
        let start = |name: &str, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.into()).spawn(run).map_err(io)
        };
        let threads = vec![
            start("log-settler", Box::new(move || settler.run()))?,
            start("log-writer", Box::new(move || writer.run()))?,
        ];
        let inner = Inner {
            refused,
            queue,
            unsettled,
            readers,
            sessions,
            budget,
            budget_bytes,
            health,
            threads: Mutex::new(threads),
            directory: Mutex::new(Some(directory)),
        };
        let abandoned = abandoned.into_iter().map(|(session, turn, epoch)| Abandoned {
            session: SessionId::from(session),
            turn: TurnId::from(turn),
            epoch,
        });
        let log = Self { inner: Arc::new(inner) };
        Ok(Opened { log, abandoned: abandoned.collect(), restored, recovered, torn: replay.torn })
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
            let batch = self.inner.read_some(&session, next, usize::MAX)?;
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

    /// Commits what was appended, and gives the directory free. Appends that come later are refused.
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
    /// Waits until the events fit into what may be under way. A single append larger than all of it goes alone.
    pub(crate) async fn budget(&self, drafts: &[Draft]) -> Result<OwnedSemaphorePermit, AppendError> {
        let bytes: usize = drafts.iter().map(weight).sum();
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX).clamp(1, self.budget_bytes);
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
        lock(&self.directory).take();
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

/// Puts into the database what a crash left in segments. Returns how many events that were.
fn recover(connection: &mut Connection, readers: &Readers, groups: Vec<Recovered>) -> Result<u64, String> {
    let mut heads: HashMap<i64, u64> = HashMap::new();
    let (mut chunks, mut turns, mut recovered) = (Chunks::default(), Vec::new(), 0);
    for Recovered { session, epoch, first, count, data } in groups {
        let head = match heads.get(&session) {
            Some(head) => *head,
            None => readers.head(session).map_err(|error| error.to_string())?,
        };
        if first.0 + count <= head + 1 {
            heads.insert(session, head);
            continue;
        }
        if first.0 != head + 1 {
            return Err(format!(
                "segment has event {first} of session {session}, the database ends at {head}"
            ));
        }
        for (seq, line) in (first.0..).zip(data.lines()) {
            chunks.push(session, Seq(seq), line);
            let event =
                Event::from_json(line).map_err(|error| format!("a segment holds no event: {error}"))?;
            turns.extend(TurnChange::of(&event.draft).map(|change| TurnRow::new(session, epoch, &change)));
        }
        heads.insert(session, head + count);
        recovered += count;
    }
    if !chunks.is_empty() {
        Store::settle_on(connection, &chunks, &turns, &[]).map_err(|error| error.to_string())?;
    }
    Ok(recovered)
}

/// About what a draft will weigh; its text is what can be large.
fn weight(draft: &Draft) -> usize {
    const ENVELOPE: usize = 128;
    ENVELOPE
        + match &draft.body {
            Body::ItemDelta { text, .. } | Body::ItemReplaced { text, .. } => text.len(),
            Body::PromptAccepted { content, .. } => content.iter().map(|block| block.to_string().len()).sum(),
            _ => 512,
        }
}

impl Sessions {
    /// The session, from memory or from the database.
    pub(crate) fn find(&self, id: &str, readers: &Readers) -> Result<Arc<Session>, ReadError> {
        // Held throughout, so that two callers get the same one.
        let mut by_id = lock(&self.by_id);
        if let Some(session) = by_id.get(id) {
            return Ok(session.clone());
        }
        let found = readers.session(id).map_err(|error| ReadError::Store(error.to_string()))?;
        let Some(Known { key, generation, epoch, head }) = found else {
            return Err(ReadError::Unknown(id.to_owned()));
        };
        let generation = Generation::new(generation).map_err(|error| ReadError::Store(error.to_string()))?;
        let session = Arc::new(Session::new(SessionId::from(id), key, generation, epoch, Seq(head)));
        by_id.insert(id.to_owned(), session.clone());
        Ok(session)
    }

    /// Adds a session that was just made, and returns the one there is.
    pub(crate) fn add(&self, session: Session) -> Arc<Session> {
        lock(&self.by_id).entry(session.id.to_string()).or_insert_with(|| Arc::new(session)).clone()
    }
}
