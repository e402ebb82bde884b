//! The ledger of attempts and the parked waits, in a database of their own beside the log's.
//!
//! A row has to be durable before a request leaves, and that must neither wait for the log's commits nor make them
//! wait: another file, another connection, another thread. An operator can read it with the sqlite3 shell.

mod database;
mod reader;
mod schema;
mod work;

use crate::error::OpenError;
use database::Database;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use tokio::sync::oneshot;
use turnstream_model::attempts::{
    Answer, Attempt, AttemptName, Begun, Ended, Evidence, Ledger, Parked, Retention, Unkept, Waits,
};
use turnstream_model::id::{SessionId, TurnId};
use turnstream_model::time::Time;
use work::Work;

pub use reader::AttemptsReader;

const DATABASE: &str = "attempts.db";
const LOCK: &str = "attempts.lock";
/// Requests that may wait for the disk. A request to a provider takes longer than a row, so this is never reached in
/// order; beyond it callers wait.
const QUEUE: usize = 1024;

/// The attempts of one data directory. Clones share it; it closes when the last one is gone, or by
/// [`Attempts::close`].
#[derive(Clone)]
pub struct Attempts {
    inner: Arc<Inner>,
}

struct Inner {
    work: Mutex<Option<mpsc::SyncSender<Work>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Attempts {
    /// Opens the attempts in this directory, making them if there are none. Rows that an earlier owner left without an
    /// end are `unknown` from now on. A second owner is refused: it would call the first one's rows so.
    ///
    /// The lock is not the log's, so that both can be open in one process, and a proxy that keeps no sessions needs
    /// no log.
    pub fn open(directory: &Path) -> Result<Self, OpenError> {
        crate::embedded::make_directory(directory)
            .map_err(|source| OpenError::Directory { path: directory.to_owned(), source })?;
        let lock = lock(directory)?;
        let path = directory.join(DATABASE);
        let database = Database::open(&path)?;
        let (sender, receiver) = mpsc::sync_channel(QUEUE);
        let run = move || {
            work::run(database, &receiver);
            // Held until the last row is written.
            drop(lock);
        };
        let thread = std::thread::Builder::new()
            .name("log-attempts".into())
            .spawn(run)
            .map_err(|source| OpenError::Directory { path, source })?;
        let inner = Inner { work: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)) };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// True when there are attempts in this directory, open or not.
    pub fn are_in(directory: &Path) -> bool {
        directory.join(DATABASE).exists()
    }

    /// Writes what was asked for and gives the directory free. Whoever asks later is told so.
    pub fn close(&self) {
        self.inner.close();
    }

    fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(oneshot::Sender<Result<T, Unkept>>) -> Work,
    ) -> Answer<T> {
        let (done, answer) = oneshot::channel();
        let sender = self.inner.work.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Sent here and not in the future: what was asked happens in the order of asking.
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
            // A panic of the thread has been printed; the directory is free all the same.
            let _ = thread.join();
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
        self.ask(|done| Work::Begin(begun, done))
    }

    fn end(&self, name: AttemptName, ended: Ended) -> Answer<()> {
        self.ask(|done| Work::End(name, Box::new(ended), done))
    }

    fn attempts(&self, session: SessionId) -> Answer<Vec<Attempt>> {
        self.ask(|done| Work::Attempts(session, done))
    }

    fn evidence(&self, name: AttemptName) -> Answer<Option<Evidence>> {
        self.ask(|done| Work::Evidence(name, done))
    }
}

impl Waits for Attempts {
    fn park(&self, parked: Parked) -> Answer<()> {
        self.ask(|done| Work::Park(Box::new(parked), done))
    }

    fn restate(&self, parked: Parked) -> Answer<bool> {
        self.ask(|done| Work::Restate(Box::new(parked), done))
    }

    fn unpark(&self, session: SessionId, turn: TurnId) -> Answer<bool> {
        self.ask(|done| Work::Unpark(session, turn, done))
    }

    fn parked(&self) -> Answer<Vec<Parked>> {
        self.ask(Work::Parked)
    }
}

impl Retention for Attempts {
    fn forget(&self, session: SessionId) -> Answer<u64> {
        self.ask(|done| Work::Forget(session, done))
    }

    fn trim(&self, before: Time) -> Answer<u64> {
        self.ask(|done| Work::Trim(before, done))
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
