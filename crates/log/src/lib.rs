//! The durable session log: every event is on disk before anyone sees it.
//!
//! One [`Log`] has a store: a data directory that it owns. An [`Appender`] is the one writer of a session, fenced by its owner epoch. What
//! all sessions append while one commit is under way goes into the next one; only then is it published, as
//! [`Committed`] events, which nothing outside this crate can make. A [`Follower`] is a cursor: it reads at its own
//! pace from memory or from the store, and nothing is ever dropped for it.

#[cfg(test)]
extern crate self as turnstream_log;

mod appender;
mod attempts;
mod batch;
mod committed;
mod embedded;
mod error;
mod figures;
mod follow;
mod health;
mod importer;
mod log;
mod open;
mod page;
mod projection;
mod queue;
mod remove;
mod search;
mod session;
mod sessions;
mod snapshot;
mod store;
mod stored;
mod summary;
mod totals;
mod trim;
mod trouble;
mod waker;
mod weight;
mod writer;

pub use appender::{Appender, Receipt};
pub use attempts::{Attempts, AttemptsReader};
pub use committed::Committed;
pub use error::{AppendError, ClaimError, OpenError, ReadError, RemoveError};
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
pub use snapshot::Which;
pub use store::Removal;
pub use summary::Summary;
pub use totals::Removed;
pub use trim::{Keep, Kept, Trimmed};
