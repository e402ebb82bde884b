//! Pages of a session's history. A page reads only what is on it, however long the session is. Its generation
//! and head say which moment of the log it shows.

mod events;
mod items;
mod window;

pub use events::{EventsPage, EventsQuery};
pub use items::{ItemsPage, ItemsQuery};
pub(crate) use window::{MOST_TURNS, MOST_WAITS, Reach, Window, WindowQuery, number_of};

use crate::error::ReadError;
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::id::ItemId;

/// The approximate size of a page. A larger item or event gets its own page.
pub(crate) const PAGE_BYTES: usize = 4 << 20;
/// Retries of a read during which the session was trimmed.
const TRIES: u32 = 8;

/// Why a page cannot be returned.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The session cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The session never had this item.
    #[error("session {session} has no item {item}; request the newest items instead")]
    UnknownItem {
        /// The session.
        session: String,
        /// The requested item.
        item: ItemId,
    },
    /// The requested position belongs to an earlier history of the session.
    #[error(
        "session {session} has generation {}, not {}: its history was replaced; read it again from the beginning",
        current.as_str(), asked.as_str()
    )]
    Generation {
        /// The session.
        session: String,
        /// The requested generation.
        asked: Generation,
        /// The current generation.
        current: Generation,
    },
    /// The requested position is beyond the head.
    #[error("session {session} ends with event {head}; event {} comes next, {asked} is beyond it", head.next())]
    BeyondHead {
        /// The session.
        session: String,
        /// The requested event.
        asked: Seq,
        /// The last event.
        head: Seq,
    },
}
