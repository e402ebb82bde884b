//! Full-text search: words and filters in, a page of hits out, newest first.

pub(crate) mod budget;
mod entry;
mod interest;
mod snippet;
pub(crate) mod terms;
pub(crate) mod words;

pub(crate) use entry::Entry;
pub use entry::Subject;
pub use interest::{Interest, Waiting};
pub use snippet::Part;
pub(crate) use snippet::snippet;
pub use terms::MOST_QUERY_BYTES;

use crate::error::ReadError;
use crate::log::Log;
use budget::SearchBudget;
use std::sync::Arc;
use std::time::Duration;
use terms::Terms;
use turnstream_model::event::{ItemKind, Role};
use turnstream_model::id::{SessionId, TurnId};
use turnstream_model::time::Time;

/// The default number of hits on a page.
pub const USUAL_HITS: usize = 20;
/// The largest number of hits on a page.
pub const MOST_HITS: usize = 100;

/// A search query. Filters that are not set accept everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Words that must all occur; `"a phrase"`; `retr*` for a prefix; `-word` for a word that must not occur.
    pub words: String,
    /// Only this session.
    pub session: Option<SessionId>,
    /// Only sessions with this agent.
    pub agent: Option<String>,
    /// Only messages with this role.
    pub role: Option<Role>,
    /// Only items of this kind. A prompt counts as a message.
    pub kind: Option<ItemKind>,
    /// Only items that began at this time or later (inclusive).
    pub from: Option<Time>,
    /// Only items that began before this time (exclusive).
    pub to: Option<Time>,
    /// The number of hits on a page, 1 to [`MOST_HITS`]. [`USUAL_HITS`] if not set.
    pub limit: Option<usize>,
    /// [`Page::next`] of the previous page. All other members must be unchanged.
    pub cursor: Option<String>,
    /// The approximate time after which a page is returned with the hits so far. By default 60 ms for the
    /// first page, and 1 s for later ones. Every page makes some progress, so the last page is reached with
    /// any value.
    pub patience: Option<Duration>,
}

/// A page of hits, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The hits.
    pub hits: Vec<Hit>,
    /// The cursor of the next page. `None` on the last page. A page that is not the last may have fewer hits
    /// than requested.
    pub next: Option<String>,
    /// The index is being built after an upgrade or a crash: later searches may find more.
    pub is_indexing: bool,
    /// The time ran out before the page was full. [`Page::next`] continues from there.
    pub is_incomplete: bool,
}

/// A search hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The session.
    pub session: SessionId,
    /// The session's agent.
    pub agent: String,
    /// The item or prompt.
    pub subject: Subject,
    /// The turn. Background work and waiting prompts have none.
    pub turn: Option<TurnId>,
    /// The kind of the item.
    pub kind: ItemKind,
    /// The role of a message.
    pub role: Option<Role>,
    /// When the item or prompt began.
    pub time: Time,
    /// An excerpt around the match.
    pub snippet: Vec<Part>,
}

/// Why a search failed.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The query has no usable words.
    #[error("the query cannot be searched: {0}")]
    Words(String),
    /// The requested page size is out of range.
    #[error("a page cannot have {0} hits; ask for 1 to {MOST_HITS}")]
    Limit(usize),
    /// The cursor belongs to another index.
    #[error(
        "{0:?} is not a cursor of this index, which may have been rebuilt since; search again without one"
    )]
    Cursor(String),
    /// There is no such session, or the store failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// A validated query, as the store gets it.
pub(crate) struct Search {
    pub(crate) terms: Terms,
    /// The store's key of the session.
    pub(crate) session: Option<i64>,
    pub(crate) agent: Option<String>,
    pub(crate) role: Option<Role>,
    pub(crate) kind: Option<ItemKind>,
    pub(crate) from: Option<Time>,
    pub(crate) to: Option<Time>,
    pub(crate) limit: usize,
    pub(crate) after: Option<IndexPosition>,
    /// Shared with the callback that interrupts the search.
    pub(crate) budget: Arc<SearchBudget>,
}

/// A position in the order of all entries. Newer entries have higher ordinals, and no ordinal is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexPosition {
    /// The index that the ordinal belongs to.
    pub(crate) index: u64,
    pub(crate) ordinal: i64,
}

impl IndexPosition {
    fn parse(text: &str) -> Option<Self> {
        let (index, ordinal) = text.split_once('-')?;
        let is_plain = |digits: &str, most| {
            (1..=most).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_alphanumeric())
        };
        if !is_plain(index, 16) || !is_plain(ordinal, 18) {
            return None;
        }
        Some(Self { index: u64::from_str_radix(index, 16).ok()?, ordinal: ordinal.parse().ok()? })
    }

    fn shown(self) -> String {
        format!("{:x}-{}", self.index, self.ordinal)
    }
}

/// A page of hits, as the store returns it.
pub(crate) struct FoundPage {
    pub(crate) hits: Vec<Hit>,
    /// Where the next page begins, if there may be more.
    pub(crate) next: Option<IndexPosition>,
    pub(crate) is_indexing: bool,
    /// The page ended because the budget was used up, and not because it is full.
    pub(crate) is_incomplete: bool,
}

impl Log {
    /// Searches finished items and prompts. Blocks for about [`Query::patience`].
    ///
    /// Durable events can be found about a second later, when they are flushed; [`Log::flush`] waits for
    /// that.
    pub fn search(&self, query: &Query) -> Result<Page, SearchError> {
        self.search_with(query, SearchBudget::of(query))
    }

    /// The same, but stops early if the caller stops waiting. The result is then meaningless.
    pub fn search_while(&self, query: &Query, interest: Interest) -> Result<Page, SearchError> {
        self.search_with(query, SearchBudget::of(query).while_wanted(interest))
    }

    fn search_with(&self, query: &Query, budget: SearchBudget) -> Result<Page, SearchError> {
        let Query { words, session, agent, role, kind, from, to, limit, cursor, patience: _ } = query;
        let limit = limit.unwrap_or(USUAL_HITS);
        if !(1..=MOST_HITS).contains(&limit) {
            return Err(SearchError::Limit(limit));
        }
        let place =
            |text: &String| IndexPosition::parse(text).ok_or_else(|| SearchError::Cursor(text.clone()));
        let after = cursor.as_ref().map(place).transpose()?;
        let terms = Terms::parse(words)?;
        let session = session.as_ref().map(|id| self.find(id)).transpose()?.map(|session| session.key);
        let (agent, role, kind, from, to) = (agent.clone(), *role, *kind, *from, *to);
        let budget = Arc::new(budget);
        let search = Search { terms, session, agent, role, kind, from, to, limit, after, budget };
        let FoundPage { hits, next, is_indexing, is_incomplete } = self.inner().store.search(&search)?;
        Ok(Page { hits, next: next.map(IndexPosition::shown), is_indexing, is_incomplete })
    }

    /// Flushes everything that is durable now, without the usual pauses between transactions, and waits until
    /// search finds it. Also returns if the log is closed or the store fails.
    pub async fn flush(&self) {
        let sessions = self.inner().unflushed();
        self.inner().store.flush(sessions).await;
    }
}

impl Search {
    /// The error for a cursor of another index.
    pub(crate) fn foreign_cursor(&self) -> SearchError {
        SearchError::Cursor(self.after.map(IndexPosition::shown).unwrap_or_default())
    }
}
