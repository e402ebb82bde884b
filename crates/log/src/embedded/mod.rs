//! The store of one process in one directory: segment files for commits, SQLite for everything else, and a
//! flusher thread between them.

mod claims;
mod directory;
mod erase;
mod flush_queue;
mod flusher;
mod full_disk;
mod index_backlog;
mod leases;
mod note;
mod open;
mod recover;
mod reserve;
mod segment;
mod sqlite;

pub(crate) use directory::make as make_directory;
pub(crate) use open::{OpenedDirectory, open};
pub(crate) use sqlite::scrub;

use crate::batch::Group;
use crate::committed::Committed;
use crate::diagnostics::{DamagedFolds, Retried, join};
use crate::error::{ClaimError, DamagedJson, ReadError, RemoveError, StoreFault};
use crate::importer::Imported;
use crate::log::{Options, StoreReports};
use crate::open::Abandoned;
use crate::page::{Window, WindowQuery};
use crate::search::{FoundPage, Search, SearchError};
use crate::session::Session;
use crate::store::{
    ClaimMode, Claiming, Commit, Cut, Flushing, Removal, Removing, SessionRecord, Size, Stale, Store,
    StoreError,
};
use crate::stored_fold::DamagedFold;
use crate::summary::Summary;
use claims::{Claim, ClaimKind};
use directory::Directory;
use erase::Eraser;
use flush_queue::{FlushQueue, FlushRequest};
use flusher::{Flusher, FlusherCommand};
use index_backlog::IndexBacklog;
use leases::{Lease, Leases};
use note::{BootEntry, BootNote};
use open::Ready;
use segment::Segments;
use sqlite::{FoldError, Readers, Revision};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;
use tracing::{debug, warn};
use turnstream_model::Chain;
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::fold::{Fold, State};
use turnstream_model::id::SessionId;

/// How long events may be only in segments. The sqlite3 shell sees them this much later.
const LAG: Duration = Duration::from_secs(1);

/// The shared side of the store.
pub(crate) struct Embedded {
    readers: Arc<Readers>,
    queue: Arc<FlushQueue>,
    leases: Arc<Leases>,
    index_backlog: Arc<IndexBacklog>,
    damaged_folds: Arc<DamagedFolds>,
    flusher: Mutex<Option<JoinHandle<()>>>,
    /// Released when everything is closed.
    open_directory: Mutex<Option<OpenDirectory>>,
}

/// The writer's side of the store: commits go into segments, and then to the flusher.
pub(crate) struct Commits {
    segments: Segments,
    queue: Arc<FlushQueue>,
    /// The segment of the last commit.
    serial: u64,
    rotation: Retried,
}

/// A locked directory, and the note to write when the store is closed.
struct OpenDirectory {
    directory: Directory,
    entry: BootEntry,
    revision: Revision,
}

impl Embedded {
    /// Starts the flusher of a directory that was opened.
    pub(crate) fn start(
        ready: Ready,
        options: &Options,
        reports: StoreReports,
    ) -> io::Result<(Commits, Self)> {
        let Ready { directory, database, readers, segments, entry, reserve } = ready;
        let open_directory = OpenDirectory { directory, entry, revision: database.revision().clone() };
        let queue = Arc::new(FlushQueue::new(options.debounce.min(LAG), options.budget));
        let leases = Arc::new(Leases::default());
        let index_backlog = Arc::new(IndexBacklog::find(&readers).map_err(io::Error::other)?);
        let damaged_folds = Arc::new(DamagedFolds::default());
        let eraser = Eraser::new(database.is_removing().map_err(io::Error::other)?);
        let flusher = Flusher {
            database,
            readers: readers.clone(),
            pool: segments.pool(),
            debounce: options.debounce,
            projections: HashMap::new(),
            queue: queue.clone(),
            leases: leases.clone(),
            index_backlog: index_backlog.clone(),
            unpublished_imports: Vec::new(),
            reports: Arc::new(reports),
            eraser,
            damaged_folds: damaged_folds.clone(),
            checkpoints: Retried::new("truncating the write-ahead log"),
            segment_files: Retried::new("making a segment file ahead of time"),
            reserve,
            reserve_file: Retried::new("keeping space in reserve"),
            is_removing: false,
            deletes: Arc::default(),
        };
        let rotation = Retried::new("the change to a new segment");
        let commits = Commits { segments, queue: queue.clone(), serial: 0, rotation };
        let thread = std::thread::Builder::new().name("log-flusher".into()).spawn(move || flusher.run())?;
        let (flusher, open_directory) = (Mutex::new(Some(thread)), Mutex::new(Some(open_directory)));
        Ok((commits, Self { readers, queue, leases, index_backlog, damaged_folds, flusher, open_directory }))
    }

    fn ask(&self, kind: ClaimKind) -> Claiming {
        let (done, answer) = oneshot::channel();
        let asked = self.queue.submit(FlusherCommand::Claim(Claim { kind, done }));
        Box::pin(async move {
            asked.map_err(|_| ClaimError::Closed)?;
            answer.await.unwrap_or(Err(ClaimError::Closed)).map(Lease::keep)
        })
    }
}

impl Embedded {
    /// Sends a removal to the flusher.
    fn remove<T: Send + 'static>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, RemoveError>>) -> FlusherCommand,
    ) -> Removing<T> {
        let (done, answer) = oneshot::channel();
        let asked = self.queue.submit(command(done));
        Box::pin(async move {
            asked.map_err(|_| RemoveError::Closed)?;
            answer.await.unwrap_or(Err(RemoveError::Closed))
        })
    }
}

impl Commit for Commits {
    fn commit(&mut self, groups: &[Group]) -> Result<Vec<Stale>, StoreError> {
        let fenced = groups.iter().enumerate().filter_map(|(group, Group { session, epoch, .. })| {
            let current = (!session.is_deleted()).then(|| session.epoch());
            (Some(*epoch) != current).then_some(Stale { group, current })
        });
        let stale: Vec<Stale> = fenced.collect();
        let is_stale = |place| stale.iter().any(|stale| stale.group == place);
        let rest = groups.iter().enumerate().filter(|(place, _)| !is_stale(*place)).map(|(_, group)| group);
        self.serial = self.segments.append(rest)?;
        Ok(stale)
    }

    fn published(&mut self, groups: Vec<Group>) {
        self.queue.push(groups, self.serial);
    }

    fn between_commits(&mut self) {
        let rotated = self.segments.rotate_if_requested();
        if let Some(Some(serial)) = self.rotation.note(rotated) {
            self.serial = serial;
            self.queue.segment_changed(serial);
        }
    }
}

impl Drop for Commits {
    fn drop(&mut self) {
        // The flusher flushes what is left, and ends.
        self.queue.writer_ended();
    }
}

impl Store for Embedded {
    fn create(&self, id: &SessionId) -> Claiming {
        self.ask(ClaimKind::New(id.clone()))
    }

    fn import(&self, id: &SessionId, base: State) -> Claiming {
        self.ask(ClaimKind::Import(id.clone(), Box::new(base)))
    }

    fn reveal(&self, session: Arc<Session>, native_id: Option<String>) -> Claiming {
        self.ask(ClaimKind::Reveal(session, native_id))
    }

    fn give_up(&self, session: Arc<Session>) {
        // Nobody waits for it. If it is not done now, the next start does it.
        drop(self.ask(ClaimKind::GiveUp(session)));
    }

    fn imported(&self, id: &SessionId) -> Result<Option<Imported>, ReadError> {
        self.readers.imported(id.as_str()).map_err(unreadable)
    }

    fn claim(&self, session: Arc<Session>, how: ClaimMode) -> Claiming {
        self.ask(ClaimKind::Next(session, how))
    }

    fn release(&self, key: i64, epoch: u64) {
        self.leases.release(key, epoch);
    }

    fn session(&self, id: &SessionId) -> Result<Option<SessionRecord>, ReadError> {
        self.readers.session(id.as_str()).map_err(unreadable)
    }

    fn read(&self, key: i64, from: Seq, max_bytes: usize) -> Result<Vec<Committed>, ReadError> {
        let chunks = self.readers.chunks(key, from.0, max_bytes).map_err(unreadable)?;
        let mut events = Vec::new();
        let (mut next, mut bytes) = (from, 0);
        for chunk in chunks.into_iter().filter(|chunk| chunk.first + chunk.count > from.0) {
            if chunk.first > next.0 {
                break;
            }
            for event in Committed::of_lines(chunk.first, chunk.data, next) {
                bytes += event.json().len();
                if bytes > max_bytes && !events.is_empty() {
                    return Ok(events);
                }
                next = event.seq().next();
                events.push(event);
            }
        }
        Ok(events)
    }

    fn fold(&self, key: i64) -> Result<Fold, ReadError> {
        match self.readers.stored(key).map_err(unreadable)?.fold() {
            Ok(fold) => Ok(fold),
            Err(error) => {
                self.damaged_folds.note(key, || self.readers.name_of(key), &error);
                Ok(Fold::from(self.base(key)?))
            }
        }
    }

    fn window(&self, key: i64, wanted: &WindowQuery) -> Result<Window, ReadError> {
        match self.readers.window(key, wanted).map_err(unreadable)? {
            Ok(window) => Ok(window),
            Err(FoldError::Damaged(error)) => {
                self.damaged_folds.note(key, || self.readers.name_of(key), &error);
                Ok(Window::of(self.fold(key)?.into_state(), wanted))
            }
            Err(FoldError::Sqlite(error)) => Err(unreadable(error)),
        }
    }

    fn base(&self, key: i64) -> Result<State, ReadError> {
        let Some(body) = self.readers.base(key).map_err(unreadable)? else { return Ok(State::default()) };
        serde_json::from_str(&body)
            .map_err(|error| ReadError::Store(StoreFault::new(DamagedFold::Row(error.into()))))
    }

    fn size(&self, key: i64) -> Result<Size, ReadError> {
        self.readers.size(key).map_err(unreadable)
    }

    fn trim(&self, session: Arc<Session>, cut: Cut) -> Removing<bool> {
        self.remove(|done| FlusherCommand::Trim(session, Box::new(cut), done))
    }

    fn delete(&self, session: Arc<Session>) -> Removing<()> {
        self.remove(|done| FlusherCommand::Delete(session, done))
    }

    fn erase(&self) -> Removing<()> {
        let (done, told) = oneshot::channel();
        let asked = self.queue.submit(FlusherCommand::Erase(done));
        Box::pin(async move {
            asked.map_err(|_| RemoveError::Closed)?;
            told.await.map_err(|_| RemoveError::Closed)
        })
    }

    fn removal(&self, id: &SessionId) -> Result<Option<Removal>, ReadError> {
        self.readers.removal(id.as_str()).map_err(unreadable)
    }

    fn summaries(&self) -> Result<Vec<Summary>, ReadError> {
        let mut summaries = Vec::new();
        let add = |id: &str, head: Seq, body: Option<&str>| {
            let state: Option<State> = body.and_then(|body| match serde_json::from_str(body) {
                Ok(state) => Some(state),
                Err(error) => {
                    // A snapshot is requested instead, which reports it.
                    let error = DamagedJson::from(error);
                    debug!(session = id, %error, "the head of a stored fold is damaged");
                    None
                }
            });
            let state = state.filter(|state| state.seq == head);
            summaries.push(Summary { id: SessionId::from(id), state });
        };
        self.readers.fold_heads(add).map_err(unreadable)?;
        Ok(summaries)
    }

    fn heads(&self) -> Result<HashMap<SessionId, (Generation, Seq)>, ReadError> {
        self.readers.heads().map_err(unreadable)
    }

    fn abandoned(&self) -> Result<Vec<Abandoned>, ReadError> {
        let open = self.readers.open_turns().map_err(unreadable)?;
        Ok(open.into_iter().filter(|(key, _)| !self.leases.is_held(*key)).map(|(_, turn)| turn).collect())
    }

    fn search(&self, search: &Search) -> Result<FoundPage, SearchError> {
        // Read before the search: if the backlog is completed meanwhile, the page only claims to be behind.
        let is_indexing = !self.index_backlog.is_done();
        Ok(FoundPage { is_indexing, ..self.readers.search(search)? })
    }

    fn flush(&self, sessions: Vec<(Arc<Session>, Seq)>) -> Flushing {
        let (done, flushed) = oneshot::channel();
        self.queue.request_flush(FlushRequest { sessions, done });
        Box::pin(async move {
            // Without an answer, the flusher has ended and nothing more will be flushed.
            drop(flushed.await);
        })
    }

    fn close(&self) {
        if let Some(flusher) = lock(&self.flusher).take() {
            join(flusher);
        }
        if let Some(OpenDirectory { directory, entry, revision }) = lock(&self.open_directory).take() {
            // With this note, a backup that is restored later is recognised without the segments. If it
            // cannot be written, the segments know almost as much.
            let note = BootNote::of(BootEntry { revision: revision.get(), ..entry });
            if let Err(error) = directory.write_note(&note) {
                warn!(error = %Chain(&error), "the boot file could not be updated on close");
            }
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.close();
    }
}

fn unreadable(error: rusqlite::Error) -> ReadError {
    ReadError::Store(StoreFault::new(error))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Taking a value out of an option is a single step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
