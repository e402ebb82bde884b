//! The store of one process on one directory: segment files for commits, SQLite for all else, and a thread between them.

mod catch_up;
mod directory;
mod erase;
mod leases;
mod note;
mod open;
mod recover;
mod segment;
mod settler;
mod sqlite;
mod unsettled;

pub(crate) use directory::make as make_directory;
pub(crate) use open::{Found, open};
pub(crate) use sqlite::scrub;

use crate::batch::Group;
use crate::committed::Committed;
use crate::error::{ClaimError, ReadError, RemoveError};
use crate::importer::Imported;
use crate::log::{Options, Reports};
use crate::open::Abandoned;
use crate::page::{Window, WindowQuery};
use crate::search::{Found as FoundHits, Search, SearchError};
use crate::session::Session;
use crate::store::{
    Claiming, Commit, Cut, Known, Removal, Removing, Settling, Size, Stale, Store, StoreError, Take,
};
use crate::stored::damaged;
use crate::summary::Summary;
use catch_up::CatchUp;
use directory::Directory;
use erase::Eraser;
use leases::{Lease, Leases};
use note::{Entry, Note};
use open::Ready;
use segment::Segments;
use settler::{Claim, Order, Settler, Wanted};
use sqlite::{Readers, Revision};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;
use turnstream_model::cursor::Seq;
use turnstream_model::fold::{Fold, State};
use turnstream_model::id::SessionId;
use unsettled::{Haste, Unsettled};

/// How long events may be in segments only. This is also how far the sqlite3 shell is behind.
const LAG: Duration = Duration::from_secs(1);

/// What everyone has of the store.
pub(crate) struct Embedded {
    readers: Arc<Readers>,
    unsettled: Arc<Unsettled>,
    leases: Arc<Leases>,
    catch_up: Arc<CatchUp>,
    settler: Mutex<Option<JoinHandle<()>>>,
    /// Released when everything is closed.
    held: Mutex<Option<Held>>,
}

/// What the writer has of it: commits go into segments, and from there to the settler.
pub(crate) struct Commits {
    segments: Segments,
    unsettled: Arc<Unsettled>,
    /// The segment of the last commit.
    serial: u64,
}

/// A directory in use, and what its note says when the store is closed.
struct Held {
    directory: Directory,
    entry: Entry,
    revision: Revision,
}

impl Embedded {
    /// Starts the settler of a directory that was opened.
    pub(crate) fn start(ready: Ready, options: &Options, reports: Reports) -> io::Result<(Commits, Self)> {
        let Ready { directory, database, readers, segments, entry } = ready;
        let held = Held { directory, entry, revision: database.revision().clone() };
        let unsettled = Arc::new(Unsettled::new(options.debounce.min(LAG), options.budget));
        let leases = Arc::new(Leases::default());
        let catch_up = Arc::new(CatchUp::find(&readers).map_err(io::Error::other)?);
        let eraser =
            Eraser::new(database.is_removing().map_err(|error| io::Error::other(error.to_string()))?);
        let settler = Settler {
            database,
            readers: readers.clone(),
            spares: segments.spares(),
            debounce: options.debounce,
            projections: HashMap::new(),
            unsettled: unsettled.clone(),
            leases: leases.clone(),
            catch_up: catch_up.clone(),
            unrevealed: Vec::new(),
            reports: Arc::new(reports),
            eraser,
        };
        let commits = Commits { segments, unsettled: unsettled.clone(), serial: 0 };
        let thread = std::thread::Builder::new().name("log-settler".into()).spawn(move || settler.run())?;
        let (settler, held) = (Mutex::new(Some(thread)), Mutex::new(Some(held)));
        Ok((commits, Self { readers, unsettled, leases, catch_up, settler, held }))
    }

    fn ask(&self, wanted: Wanted) -> Claiming {
        let (done, answer) = oneshot::channel();
        let asked = self.unsettled.order(Order::Claim(Claim { wanted, done }));
        Box::pin(async move {
            asked.map_err(|_| ClaimError::Closed)?;
            answer.await.unwrap_or(Err(ClaimError::Closed)).map(Lease::keep)
        })
    }
}

impl Embedded {
    /// Has the settler do it.
    fn remove<T: Send + 'static>(
        &self,
        order: impl FnOnce(oneshot::Sender<Result<T, RemoveError>>) -> Order,
    ) -> Removing<T> {
        let (done, answer) = oneshot::channel();
        let asked = self.unsettled.order(order(done));
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
        // The disk may be full now and not later: an error of it is never taken to last.
        self.serial = self.segments.append(rest).map_err(|error| StoreError::Passing(error.to_string()))?;
        Ok(stale)
    }

    fn keep(&mut self, groups: Vec<Group>) {
        self.unsettled.put(groups, self.serial);
    }

    fn between(&mut self) {
        // If it fails now, it is wanted again.
        if let Ok(Some(serial)) = self.segments.turn_over_if_wanted() {
            self.serial = serial;
            self.unsettled.turned_over(serial);
        }
    }
}

impl Drop for Commits {
    fn drop(&mut self) {
        // The settler settles what it has, and ends.
        self.unsettled.end();
    }
}

impl Store for Embedded {
    fn create(&self, id: &SessionId) -> Claiming {
        self.ask(Wanted::New(id.clone()))
    }

    fn import(&self, id: &SessionId, base: State) -> Claiming {
        self.ask(Wanted::Import(id.clone(), Box::new(base)))
    }

    fn reveal(&self, session: Arc<Session>, native_id: Option<String>) -> Claiming {
        self.ask(Wanted::Reveal(session, native_id))
    }

    fn give_up(&self, session: Arc<Session>) {
        // Nobody waits: if it is not done now, it is when the directory is opened again.
        drop(self.ask(Wanted::GiveUp(session)));
    }

    fn imported(&self, id: &SessionId) -> Result<Option<Imported>, ReadError> {
        self.readers.imported(id.as_str()).map_err(unreadable)
    }

    fn claim(&self, session: Arc<Session>, how: Take) -> Claiming {
        self.ask(Wanted::Next(session, how))
    }

    fn release(&self, key: i64, epoch: u64) {
        self.leases.release(key, epoch);
    }

    fn session(&self, id: &SessionId) -> Result<Option<Known>, ReadError> {
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
        // One that is damaged is only a shorter way that is not there.
        match self.readers.stored(key).map_err(unreadable)?.fold() {
            Ok(fold) => Ok(fold),
            Err(_) => Ok(Fold::from(self.base(key)?)),
        }
    }

    fn window(&self, key: i64, wanted: &WindowQuery) -> Result<Window, ReadError> {
        match self.readers.window(key, wanted).map_err(unreadable)? {
            Ok(window) => Ok(window),
            // One that is damaged is only a shorter way that is not there.
            Err(_) => Ok(Window::of(self.fold(key)?.into_state(), wanted)),
        }
    }

    fn base(&self, key: i64) -> Result<State, ReadError> {
        let Some(body) = self.readers.base(key).map_err(unreadable)? else { return Ok(State::default()) };
        serde_json::from_str(&body).map_err(|error| ReadError::Store(damaged(&error)))
    }

    fn size(&self, key: i64) -> Result<Size, ReadError> {
        self.readers.size(key).map_err(unreadable)
    }

    fn trim(&self, session: Arc<Session>, cut: Cut) -> Removing<bool> {
        self.remove(|done| Order::Trim(session, Box::new(cut), done))
    }

    fn delete(&self, session: Arc<Session>) -> Removing<()> {
        self.remove(|done| Order::Delete(session, done))
    }

    fn erase(&self) -> Removing<()> {
        let (done, told) = oneshot::channel();
        let asked = self.unsettled.order(Order::Erase(done));
        Box::pin(async move {
            asked.map_err(|_| RemoveError::Closed)?;
            told.await.map_err(|_| RemoveError::Closed)
        })
    }

    fn removal(&self, id: &SessionId) -> Result<Option<Removal>, ReadError> {
        self.readers.removal(id.as_str()).map_err(unreadable)
    }

    fn summaries(&self) -> Result<Vec<Summary>, ReadError> {
        let heads = self.readers.fold_heads().map_err(unreadable)?;
        let summary = |(id, body): (String, Option<String>)| Summary {
            id: SessionId::from(id),
            state: body.and_then(|body| serde_json::from_str(&body).ok()),
        };
        Ok(heads.into_iter().map(summary).collect())
    }

    fn abandoned(&self) -> Result<Vec<Abandoned>, ReadError> {
        let open = self.readers.open_turns().map_err(unreadable)?;
        Ok(open.into_iter().filter(|(key, _)| !self.leases.is_held(*key)).map(|(_, turn)| turn).collect())
    }

    fn search(&self, search: &Search) -> Result<FoundHits, SearchError> {
        // Looked at first: what is filed in between is found, and said to be missing at worst.
        let is_indexing = !self.catch_up.is_done();
        Ok(FoundHits { is_indexing, ..self.readers.search(search)? })
    }

    fn settle(&self, sessions: Vec<(Arc<Session>, Seq)>) -> Settling {
        let (done, settled) = oneshot::channel();
        self.unsettled.hurry_up(Haste { sessions, done });
        Box::pin(async move {
            // Without an answer the settler is gone, and nothing more will be settled.
            let _ = settled.await;
        })
    }

    fn close(&self) {
        if let Some(settler) = lock(&self.settler).take() {
            // A panic of the thread has been printed; the directory is given free all the same.
            let _ = settler.join();
        }
        if let Some(Held { directory, entry, revision }) = lock(&self.held).take() {
            // A backup that is put back later is then recognised without the segments. If it cannot be written now, they
            // know almost as much.
            let _ = directory.write_note(&Note::of(Entry { revision: revision.get(), ..entry }));
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.close();
    }
}

fn unreadable(error: rusqlite::Error) -> ReadError {
    ReadError::Store(error.to_string())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is taken out is gone in one step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
