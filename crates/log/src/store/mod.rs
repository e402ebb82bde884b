//! What a log needs of the place where its sessions are kept, and what a store promises.
//!
//! A log numbers events, groups what waits into one commit, publishes it when it is durable, and holds the newest events
//! in memory for its followers. A store makes commits durable, decides who owns a session, and answers questions about
//! what it has. How it does that is its own affair: the embedded store has segment files in front of a database and a
//! thread between them; in a database that several replicas share, a commit is a transaction. Every store passes the
//! tests in `store/conformance`.

#[cfg(test)]
mod conformance;
#[cfg(test)]
pub(crate) mod memory;

use crate::batch::Group;
use crate::committed::Committed;
use crate::error::{ClaimError, ReadError, RemoveError};
use crate::importer::Imported;
use crate::open::Abandoned;
use crate::page::{Window, WindowQuery};
use crate::search::{Found, Search, SearchError};
use crate::session::Session;
use crate::summary::Summary;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::fold::{Fold, Gone, State};
use turnstream_model::id::SessionId;

/// The answer to a claim. Whoever drops it instead of waiting leaves the session free.
pub(crate) type Claiming = Pin<Box<dyn Future<Output = Result<Known, ClaimError>> + Send>>;

/// Ends when what it was asked for is settled, or never will be.
pub(crate) type Settling = Pin<Box<dyn Future<Output = ()> + Send>>;
/// The answer to a delete, a trim or an erase.
pub(crate) type Removing<T> = Pin<Box<dyn Future<Output = Result<T, RemoveError>> + Send>>;

/// The writing side of a store. A log has one, on one thread; when it is dropped, there will be no other commit.
pub(crate) trait Commit: Send {
    /// Makes the events of these groups durable, in one step: when it returns, no crash can take them away. On an error
    /// none of them is, and the same groups may be given again.
    ///
    /// The store compares the epoch of each group with the one that holds. A group of an older one is left out, however
    /// many others are in the same commit, and is named in the answer. Of the groups of one session at most one is not
    /// left out, and it begins behind the last event that the store has of that session. Groups of a session that was
    /// deleted are left out too.
    fn commit(&mut self, groups: &[Group]) -> Result<Vec<Stale>, StoreError>;

    /// Takes over what was committed and published. Nobody waits for what is done here: it is the place for all that need
    /// not be durable before events are seen, such as the stored folds.
    ///
    /// The log keeps the events in memory until the store calls [`Group::settled`], which says that its readers find
    /// them, and holds their part of the budget until the group is dropped.
    fn keep(&mut self, groups: Vec<Group>);

    /// Called by the writer when it was woken, between two commits: the place for what only the writing thread can do.
    fn between(&mut self) {}
}

/// The side of a store that everyone has. It blocks only as long as the database behind it does.
pub(crate) trait Store: Send + Sync {
    /// Makes a session and takes its first owner epoch, which is durable before the answer.
    fn create(&self, id: &SessionId) -> Claiming;

    /// Makes a session for events that happened elsewhere and takes its first owner epoch. Its events follow `base`: the empty
    /// state, or what was left of it where it was trimmed. Until [`Store::reveal`] it is found by nobody, and its id is
    /// taken; a store that is opened again has nothing of it.
    fn import(&self, id: &SessionId, base: State) -> Claiming;

    /// Shows an imported session with all its events, durably and in one step, as soon as its readers find them.
    /// `native_id` is how its last agent called it: see [`Imported`].
    fn reveal(&self, session: Arc<Session>, native_id: Option<String>) -> Claiming;

    /// An import ended before it was shown: its id is free again. Does not wait.
    fn give_up(&self, session: Arc<Session>);

    /// Whether the session of that id was imported.
    fn imported(&self, id: &SessionId) -> Result<Option<Imported>, ReadError>;

    /// Takes the next owner epoch, which is durable before the answer. No commit that begins after the answer succeeds
    /// under an older one, in whatever process; one of this log that is under way may still end, and the log waits for it.
    /// The head in the answer is at least the last event that another log committed.
    fn claim(&self, session: Arc<Session>, how: Take) -> Claiming;

    /// The owner of that epoch is gone. Changes nothing when a newer one has the session. Does not wait.
    fn release(&self, key: i64, epoch: u64);

    /// The session of that id, as far as it is settled.
    fn session(&self, id: &SessionId) -> Result<Option<Known>, ReadError>;

    /// Events from this one on without a hole, about `max_bytes` of them but at least one; none when it is not settled.
    /// Reads no more of the session than that, however long it is.
    fn read(&self, key: i64, from: Seq, max_bytes: usize) -> Result<Vec<Committed>, ReadError>;

    /// The fold of a session and the seq it is at, as they were at one moment. It may be behind the head, and without a
    /// stored fold it is the empty one: the log folds the events after it on top.
    fn fold(&self, key: i64) -> Result<Fold, ReadError>;

    /// A part of the fold of a session, as it was at one moment: what is on a page. It may be behind the
    /// head, as the fold may. Reads no more of the session than that, however long it is.
    fn window(&self, key: i64, wanted: &WindowQuery) -> Result<Window, ReadError>;

    /// The session as it was after the last event that is no longer kept; the empty state when every event is.
    fn base(&self, key: i64) -> Result<State, ReadError>;

    /// How much is kept of a session. What is not settled yet may be left out.
    fn size(&self, key: i64) -> Result<Size, ReadError>;

    /// Forgets the beginning of a session: the events up to `cut.base.seq`, which are settled, and what they said. From one
    /// moment on, which is durable before the answer, readers find `cut.base` as the base, no event before it, a fold
    /// without what is gone, and a session whose oldest event follows the base. The names in `cut.gone` leave whatever else
    /// is kept of them, such as an index. False, and nothing is changed, when the base is not at `cut.after`, the session is
    /// not there, or the store is not so far.
    ///
    /// The store tells the session with [`Session::trim`]. It goes on removing the bytes by itself; [`Store::erase`] tells
    /// when they are gone.
    fn trim(&self, session: Arc<Session>, cut: Cut) -> Removing<bool>;

    /// Deletes a session. From one moment on, which is durable before the answer, no reader finds it, no claim takes it and
    /// no commit of it succeeds, in whatever process, and another one may be made under its id, with another key and another
    /// generation: a key is never used again. A crash after that moment does not bring it back: the store goes on
    /// removing its bytes when it is opened again. A session that is not there is [`RemoveError::Unknown`].
    ///
    /// The store tells the session with [`Session::delete`].
    fn delete(&self, session: Arc<Session>) -> Removing<()>;

    /// Returns when nothing of what was deleted or trimmed before the call is in any file of the store: not behind the end of
    /// what is used in one either.
    fn erase(&self) -> Removing<()>;

    /// What is known of a session of that id that was deleted. The store may forget it long after its bytes are gone.
    fn removal(&self, id: &SessionId) -> Result<Option<Removal>, ReadError>;

    /// Every session in the order in which they were made, with the head of its stored fold.
    fn summaries(&self) -> Result<Vec<Summary>, ReadError>;

    /// Turns that were started and not ended, in sessions whose owner is gone: known by epochs, never by a clock.
    fn abandoned(&self) -> Result<Vec<Abandoned>, ReadError>;

    /// What is finished and fits, the newest first: never an item that is partial, tainted, superseded or removed, and
    /// never two entries of one thing. It finds what is settled, or says that it does not yet. Pages that follow each
    /// other neither skip nor repeat what was there when the first was taken and is there still, whatever comes
    /// meanwhile. A page is left incomplete when its effort is spent, and gets on by at least one entry before that.
    fn search(&self, search: &Search) -> Result<Found, SearchError>;

    /// Settles these sessions up to these events, which are committed, and all that search does not find yet.
    fn settle(&self, sessions: Vec<(Arc<Session>, Seq)>) -> Settling;

    /// Ends it, with everything settled that can be. The writing side has been dropped before.
    fn close(&self);
}

/// Whether an owner that is there stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    /// Only when the session has none.
    IfFree,
    /// In any case: a living one can no longer append.
    Over,
}

/// A session as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// The store's name for it.
    pub(crate) key: i64,
    pub(crate) generation: Generation,
    /// The newest owner epoch.
    pub(crate) epoch: u64,
    /// The first event that is kept; one after the head when none is.
    pub(crate) oldest: Seq,
    /// Its last event.
    pub(crate) head: Seq,
}

/// A group that was left out of a commit because its session has a newer owner, or none any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stale {
    /// Its place among the groups.
    pub(crate) group: usize,
    /// The epoch that holds; `None` when the session was deleted.
    pub(crate) current: Option<u64>,
}

/// What a trim takes away, and what it leaves.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// Where the base was when the cut was decided.
    pub(crate) after: Seq,
    /// What is left; the events up to its seq go.
    pub(crate) base: State,
    pub(crate) gone: Gone,
}

/// How much is kept of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Of its events, as JSON.
    pub(crate) bytes: u64,
    pub(crate) turns: u64,
}

/// How far the removal of a deleted session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Nobody can read it, and its bytes are being removed.
    Pending,
    /// Nothing of it is in any file of the store.
    Done,
}

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StoreError {
    /// It may succeed later: the disk is full, slow or failing, or the file is locked.
    #[error("{0}")]
    Passing(String),
    /// It will not.
    #[error("{0}")]
    Lasting(String),
}
