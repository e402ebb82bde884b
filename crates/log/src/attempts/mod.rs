//! The ledger of attempts and the parked waits, in a database beside the log's.
//!
//! A row must be durable before a request leaves. It must not wait for the log's commits or delay them, so it
//! has its own file, connection and thread. An operator can read the database with the sqlite3 shell.

mod database;
mod reader;
mod requests;
mod schema;

use crate::diagnostics::join;
use crate::error::OpenError;
use database::Database;
use requests::Request;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use tokio::sync::oneshot;
use turnstream_model::attempts::{
    AgentAttempt, Answer, Attempt, AttemptName, Begun, Ended, Evidence, Ledger, Parked, Retention, Unkept,
    Waits,
};
use turnstream_model::id::{SessionId, TurnId};
use turnstream_model::time::Time;

pub use reader::AttemptsReader;

const DATABASE: &str = "attempts.db";
const LOCK: &str = "attempts.lock";
/// Requests that may wait for the disk; further callers wait for a place. A model call takes longer than a
/// row, so a healthy disk never fills the queue.
const QUEUE: usize = 1024;

/// The attempts of one data directory. Clones share it. It closes with [`Attempts::close`] or when the last
/// clone is dropped.
#[derive(Clone)]
pub struct Attempts {
    inner: Arc<Inner>,
}

struct Inner {
    work: Mutex<Option<mpsc::SyncSender<Request>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Attempts {
    /// Opens the attempts of this directory and creates them if needed. Rows that an earlier run left without
    /// an end become `unknown`. A second owner is refused, because it would mark the rows of the first one.
    ///
    /// The lock is separate from the log's: both can be open in one process, and a proxy without sessions
    /// needs no log.
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        crate::embedded::make_directory(directory)
            .map_err(|source| OpenError::Directory { path: directory.to_owned(), source })?;
        let lock = lock(directory)?;
        let path = directory.join(DATABASE);
        let database = Database::open(&path)?;
        let (sender, receiver) = mpsc::sync_channel(QUEUE);
        let run = move || {
            requests::run(database, &receiver);
            // The lock is released after the last row is written.
            drop(lock);
        };
        let thread = std::thread::Builder::new()
            .name("log-attempts".into())
            .spawn(run)
            .map_err(|source| OpenError::Directory { path, source })?;
        let inner = Inner { work: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)) };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// True if this directory has an attempts database.
    pub fn are_in(directory: &Path) -> bool {
        directory.join(DATABASE).exists()
    }

    /// Writes the queued rows and releases the directory. Later requests are refused.
    pub fn close(&self) {
        self.inner.close();
    }

    /// Links a row to the attempt in the log of its session that it belongs to. The first link stays.
    pub fn link(&self, name: AttemptName, of: AgentAttempt) -> Answer<()> {
        self.ask(|done| Request::Link(name, of, done))
    }

    fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(oneshot::Sender<Result<T, Unkept>>) -> Request,
    ) -> Answer<T> {
        let (done, answer) = oneshot::channel();
        let sender = self.inner.work.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Sent here and not in the future, so that requests are executed in call order.
        let mut refused = sender.is_none();
        let mut full = None;
        if let Some(sender) = sender {
            match sender.try_send(work(done)) {
                Ok(()) => {}
                Err(mpsc::TrySendError::Disconnected(_)) => refused = true,
                Err(mpsc::TrySendError::Full(work)) => full = Some((sender, work)),
            }
        }
        Box::pin(async move {
            if refused {
                return Err(Unkept::Closed);
            }
            if let Some((sender, work)) = full {
                let sent = tokio::task::spawn_blocking(move || sender.send(work).is_ok()).await;
                if !matches!(sent, Ok(true)) {
                    return Err(Unkept::Closed);
                }
            }
            answer.await.unwrap_or(Err(Unkept::Closed))
        })
    }
}

impl Inner {
    fn close(&self) {
        drop(self.work.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            join(thread);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

impl Ledger for Attempts {
    fn begin(&self, begun: Begun) -> Answer<()> {
        self.ask(|done| Request::Begin(begun, done))
    }

    fn end(&self, name: AttemptName, ended: Ended) -> Answer<()> {
        self.ask(|done| Request::End(name, Box::new(ended), done))
    }

    fn attempts(&self, session: SessionId) -> Answer<Vec<Attempt>> {
        self.ask(|done| Request::Attempts(session, done))
    }

    fn evidence(&self, name: AttemptName) -> Answer<Option<Evidence>> {
        self.ask(|done| Request::Evidence(name, done))
    }
}

impl Waits for Attempts {
    fn park(&self, parked: Parked) -> Answer<()> {
        self.ask(|done| Request::Park(Box::new(parked), done))
    }

    fn restate(&self, parked: Parked) -> Answer<bool> {
        self.ask(|done| Request::Restate(Box::new(parked), done))
    }

    fn unpark(&self, session: SessionId, turn: TurnId) -> Answer<bool> {
        self.ask(|done| Request::Unpark(session, turn, done))
    }

    fn parked(&self) -> Answer<Vec<Parked>> {
        self.ask(Request::Parked)
    }
}

impl Retention for Attempts {
    fn forget(&self, session: SessionId) -> Answer<u64> {
        self.ask(|done| Request::Forget(session, done))
    }

    fn trim(&self, before: Time) -> Answer<u64> {
        self.ask(|done| Request::Trim(before, done))
    }
}

fn lock(directory: &Path) -> Result<File, OpenError> {
    let path: PathBuf = directory.join(LOCK);
    let failed = |source| OpenError::Directory { path: path.clone(), source };
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(directory.to_owned())),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}
