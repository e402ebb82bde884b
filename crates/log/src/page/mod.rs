//! Pages of a session's history. A page reads from the store what is on it, however long the session is, and
//! agrees with the log at one moment: the generation and the head that it carries.

mod events;
mod items;
mod window;

pub use events::{EventsPage, EventsQuery};
pub use items::{ItemsPage, ItemsQuery};
pub(crate) use window::{MOST_TURNS, Reach, Window, WindowQuery, number_of};

use crate::error::ReadError;
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::id::ItemId;

/// What a page may hold, about: the one item or event that is larger has a page of its own.
pub(crate) const PAGE_BYTES: usize = 4 << 20;
/// How often a page is read that is trimmed each time.
const TRIES: u32 = 8;

/// Why there is no such page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The session cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The session never had that item.
    #[error("session {session} has no item {item}; leave it out to get the newest items")]
    UnknownItem {
        /// The session.
        session: String,
        /// What was asked for.
        item: ItemId,
    },
    /// The place is one of another history.
    #[error(
        "session {session} has the generation {}, not {}: what was read before is no longer its history; leave it \
         out to begin again", current.as_str(), asked.as_str()
    )]
    Generation {
        /// The session.
        session: String,
        /// What was asked for.
        asked: Generation,
        /// The generation of the log now.
        current: Generation,
    },
    /// The log does not reach so far.
    #[error("session {session} ends with event {head}; event {} comes next, {asked} is beyond it", head.next())]
    BeyondHead {
        /// The session.
        session: String,
        /// What was asked for.
        asked: Seq,
        /// Its last event.
        head: Seq,
    },
}
