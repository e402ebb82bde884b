//! The durable session log: every event is on disk before anyone sees it.
//!
//! A [`Log`] has a store: a data directory that it owns. An [`Appender`] is the only writer of a session,
//! fenced by its owner epoch. Everything that sessions append during one commit goes into the next commit.
//! Events are published after their commit, as [`Committed`], which only this crate can make.
//!
//! A [`Follower`] is a cursor. It reads at its own pace from memory or from the store, and no event is
//! skipped.
//!
//! | term | meaning |
//! |---|---|
//! | commit | One write and one `fdatasync` of a segment file: the events of all sessions that waited. |
//! | segment | A pre-allocated file in front of the database. It is reused after its events are flushed. |
//! | flush | Moving committed events from segments into SQLite, together with the stored folds. |
//! | stored fold | The state of a session in SQLite. It may lag behind the events. |
//! | erase | Removing the bytes of deleted and trimmed events from every file. |

#[cfg(test)]
extern crate self as turnstream_log;

mod appender;
mod attempts;
mod batch;
mod committed;
mod diagnostics;
mod embedded;
mod error;
mod figures;
mod follow;
mod heads;
mod health;
mod importer;
mod log;
mod open;
mod outage;
mod page;
mod projection;
mod queue;
mod remove;
mod search;
mod session;
mod sessions;
mod snapshot;
mod store;
mod stored_fold;
mod summary;
mod totals;
mod trim;
mod waker;
mod weight;
mod writer;

pub use appender::{Appender, Receipt};
pub use attempts::{Attempts, AttemptsReader};
pub use committed::Committed;
pub use error::{
    AppendError, ClaimError, DamagedEvent, OpenError, ReadError, RemoveError, StoreFault, is_disk_full,
};
pub use figures::{Figures, Latency};
pub use follow::{Follow, Follower};
pub use health::{Health, HealthWatch};
pub use importer::{Imported, Importer};
pub use log::{Log, Merge, Options};
pub use open::{Abandoned, Opened, Restored};
pub use page::{EventsPage, EventsQuery, ItemsPage, ItemsQuery, PageError};
pub use search::{
    Hit, Interest, MOST_HITS, MOST_QUERY_BYTES, Page, Part, Query, SearchError, Subject, USUAL_HITS, Waiting,
};
pub use store::Removal;
pub use summary::Summary;
pub use totals::Removed;
pub use trim::{Keep, Kept, Trimmed};
