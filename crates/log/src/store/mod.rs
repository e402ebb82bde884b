//! The interface between a log and its store, and what every store promises.
//!
//! A log numbers events, groups them into commits, publishes them once they are durable, and keeps the newest
//! ones in memory for followers. A store makes commits durable, decides who owns a session, and answers
//! queries.
//!
//! The embedded store has segment files in front of a database, and a flusher thread between them. In a
//! database that several replicas share, a commit would be a transaction. Every store passes the tests in
//! `store/conformance`.

#[cfg(test)]
mod conformance;
#[cfg(test)]
pub(crate) mod memory;

use crate::batch::Group;
use crate::committed::Committed;
use crate::error::{ClaimError, ReadError, RemoveError, StoreFault};
use crate::importer::Imported;
use crate::open::Abandoned;
use crate::page::{Window, WindowQuery};
use crate::search::{FoundPage, Search, SearchError};
use crate::session::Session;
use crate::summary::Summary;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::fold::{Fold, Gone, State};
use turnstream_model::id::SessionId;

/// The answer to a claim. Dropping it leaves the session free.
pub(crate) type Claiming = Pin<Box<dyn Future<Output = Result<SessionRecord, ClaimError>> + Send>>;

/// Resolves when the requested events are flushed, or never will be.
pub(crate) type Flushing = Pin<Box<dyn Future<Output = ()> + Send>>;
/// The answer to a delete, a trim or an erase.
pub(crate) type Removing<T> = Pin<Box<dyn Future<Output = Result<T, RemoveError>> + Send>>;

/// The writing side of a store. A log uses one, on one thread. After it is dropped there are no further
/// commits.
pub(crate) trait Commit: Send {
    /// Makes the events of these groups durable in one step: after it returns, no crash can lose them. On an
    /// error none of them is durable, and the caller may retry with the same groups.
    ///
    /// The store compares the epoch of each group with the current one. A group with an older epoch is left
    /// out of the commit and returned as [`Stale`], and so is a group of a deleted session. Of the groups of
    /// one session at most one remains; it begins after the last event that the store has.
    fn commit(&mut self, groups: &[Group]) -> Result<Vec<Stale>, StoreError>;

    /// Hands over groups that were committed and published. Nobody waits for this call, so everything that
    /// need not be durable before publication belongs here, such as stored folds.
    ///
    /// The log keeps the events in memory until the store calls [`Group::mark_flushed`]: from then on readers
    /// of the store find them. Their share of the byte budget is released when the group is dropped.
    fn published(&mut self, groups: Vec<Group>);

    /// Called on the writer thread between two commits, also when it was only woken. For work that must run
    /// on that thread.
    fn between_commits(&mut self) {}
}

/// The shared side of a store. It blocks only as long as its database does.
pub(crate) trait Store: Send + Sync {
    /// Creates a session and claims its first owner epoch. Durable before the answer.
    fn create(&self, id: &SessionId) -> Claiming;

    /// Creates a session for an import and claims its first owner epoch. Its events follow `base`, which is
    /// empty unless the session was trimmed at its origin.
    ///
    /// Readers do not find the session before [`Store::reveal`], but its id is reserved. If the store is
    /// opened again before that, nothing of the import remains.
    fn import(&self, id: &SessionId, base: State) -> Claiming;

    /// Publishes an imported session, durably and in one step, once all its events are flushed. `native_id`
    /// is the id that its last agent gave it; see [`Imported`].
    fn reveal(&self, session: Arc<Session>, native_id: Option<String>) -> Claiming;

    /// Discards an unfinished import: its id is free again. Does not wait.
    fn give_up(&self, session: Arc<Session>);

    /// The import record of the session with this id, if it was imported.
    fn imported(&self, id: &SessionId) -> Result<Option<Imported>, ReadError>;

    /// Claims the next owner epoch. Durable before the answer.
    ///
    /// After the answer, no process can begin a commit under an older epoch. A commit of this log that is in
    /// progress may still succeed; the log waits for it. The head in the answer includes everything that
    /// other logs have committed.
    fn claim(&self, session: Arc<Session>, how: ClaimMode) -> Claiming;

    /// Releases a session whose owner is gone. Does nothing if a newer owner has it. Does not wait.
    fn release(&self, key: i64, epoch: u64);

    /// The session with this id, up to its last flushed event.
    fn session(&self, id: &SessionId) -> Result<Option<SessionRecord>, ReadError>;

    /// Consecutive events from `from` on, up to about `max_bytes` but at least one. Empty if `from` is not
    /// flushed. Reads no more than that, however long the session is.
    fn read(&self, key: i64, from: Seq, max_bytes: usize) -> Result<Vec<Committed>, ReadError>;

    /// The stored fold of a session, read at one moment. It may be behind the head, and is empty if none is
    /// stored; the log applies the later events.
    fn fold(&self, key: i64) -> Result<Fold, ReadError>;

    /// A window of the stored fold, read at one moment, for a page of items. It may be behind the head. Reads
    /// no more than the window, however long the session is.
    fn window(&self, key: i64, wanted: &WindowQuery) -> Result<Window, ReadError>;

    /// The state of the session after its last event that is no longer kept. Empty if every event is kept.
    fn base(&self, key: i64) -> Result<State, ReadError>;

    /// What is kept of a session. Events that are not flushed may be missing.
    fn size(&self, key: i64) -> Result<Size, ReadError>;

    /// Removes the beginning of a session: its flushed events up to `cut.base.seq` and their content. The
    /// change is atomic and durable before the answer.
    ///
    /// After it, readers find `cut.base` as the base, no event before it, and a fold without the removed
    /// content. The ids in `cut.gone` are removed from everything else, such as the index. Returns false and
    /// changes nothing if the base is not at `cut.after`, the session does not exist, or the store is behind.
    ///
    /// The store calls [`Session::trim`]. It removes the bytes in the background; [`Store::erase`] waits for
    /// that.
    fn trim(&self, session: Arc<Session>, cut: Cut) -> Removing<bool>;

    /// Deletes a session. The change is atomic and durable before the answer.
    ///
    /// After it, no process can read, claim or write the session. A new session may be created under its id,
    /// with another key and generation; keys are never reused. A crash does not bring the session back: the
    /// store continues to remove its bytes when it is opened again. [`RemoveError::Unknown`] if there is no
    /// such session.
    ///
    /// The store calls [`Session::delete`].
    fn delete(&self, session: Arc<Session>) -> Removing<()>;

    /// Returns when everything that was deleted or trimmed before the call is erased from every file of the
    /// store, including unused parts of files.
    fn erase(&self) -> Removing<()>;

    /// The state of the removal of a deleted session. The store may forget it long after the bytes are
    /// erased.
    fn removal(&self, id: &SessionId) -> Result<Option<Removal>, ReadError>;

    /// Every session in creation order, with the head of its stored fold if that has every stored event.
    fn summaries(&self) -> Result<Vec<Summary>, ReadError>;

    /// The generation and the last stored event of every session.
    fn heads(&self) -> Result<HashMap<SessionId, (Generation, Seq)>, ReadError>;

    /// Turns without an end in sessions whose owner is gone. Decided by epochs, never by a clock.
    fn abandoned(&self) -> Result<Vec<Abandoned>, ReadError>;

    /// Searches finished entries, newest first. An incomplete, tainted, superseded or removed item is never
    /// found, and nothing is found twice. The result covers everything that is flushed, or says that the
    /// index is incomplete.
    ///
    /// Consecutive pages neither skip nor repeat an entry that exists from the first to the last page,
    /// whatever is written meanwhile. A page ends early when its budget is used up, but not before it has
    /// made progress by one entry.
    fn search(&self, search: &Search) -> Result<FoundPage, SearchError>;

    /// Flushes these sessions up to these committed events, and indexes the backlog.
    fn flush(&self, sessions: Vec<(Arc<Session>, Seq)>) -> Flushing;

    /// Closes the store, after flushing what it can. The writing side was dropped before.
    fn close(&self);
}

/// Whether a claim replaces an existing owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimMode {
    /// Fail if the session has an owner.
    IfFree,
    /// Replace the owner, who can no longer append.
    TakeOver,
}

/// A session as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionRecord {
    /// The store's key.
    pub(crate) key: i64,
    pub(crate) generation: Generation,
    /// The newest owner epoch.
    pub(crate) epoch: u64,
    /// The first event that is kept; head + 1 if none is.
    pub(crate) oldest: Seq,
    /// The last event.
    pub(crate) head: Seq,
}

/// A group that was left out of a commit because its session has a newer owner or was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stale {
    /// The index of the group.
    pub(crate) group: usize,
    /// The current epoch. `None` if the session was deleted.
    pub(crate) current: Option<u64>,
}

/// A trim: what is removed and what remains.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// The seq of the base when the cut was decided.
    pub(crate) after: Seq,
    /// The new base. Events up to its seq are removed.
    pub(crate) base: State,
    pub(crate) gone: Gone,
}

/// What is kept of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Bytes of its events as JSON.
    pub(crate) bytes: u64,
    pub(crate) turns: u64,
}

/// The state of the removal of a deleted session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Readers cannot find it, and its bytes are being erased.
    Pending,
    /// Its bytes are erased from every file of the store.
    Done,
}

/// Why a store operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StoreError {
    /// It may succeed later: the disk is full, slow or failing, or the file is locked.
    #[error(transparent)]
    Transient(StoreFault),
    /// It will not succeed without an operator.
    #[error(transparent)]
    Permanent(StoreFault),
}

impl StoreError {
    /// Whether a disk or a quota is full.
    pub(crate) fn is_disk_full(&self) -> bool {
        match self {
            Self::Transient(fault) | Self::Permanent(fault) => crate::error::is_disk_full(fault.get_ref()),
        }
    }

    /// The error itself, whether or not it will go away.
    pub(crate) fn into_fault(self) -> StoreFault {
        match self {
            Self::Transient(fault) | Self::Permanent(fault) => fault,
        }
    }
}

impl From<std::io::Error> for StoreError {
    /// Every disk error may go away, for example when a full disk is cleaned up.
    fn from(error: std::io::Error) -> Self {
        Self::Transient(StoreFault::new(error))
    }
}
