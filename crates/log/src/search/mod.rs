//! Search over what is finished: words and filters in, a page of hits out, the newest first.

pub(crate) mod effort;
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
use effort::Effort;
use std::sync::Arc;
use std::time::Duration;
use terms::Terms;
use turnstream_model::event::{ItemKind, Role};
use turnstream_model::id::{SessionId, TurnId};
use turnstream_model::time::Time;

/// Hits on a page when nothing else is said.
pub const USUAL_HITS: usize = 20;
/// Hits on a page at most.
pub const MOST_HITS: usize = 100;

/// What is looked for. Filters that are not set let everything through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Words, all of which must be there; `"a phrase"`; `retr*` for how a word begins; `-word` for what must not be there.
    pub words: String,
    /// Only of this session.
    pub session: Option<SessionId>,
    /// Only of sessions with this agent.
    pub agent: Option<String>,
    /// Only messages of this one.
    pub role: Option<Role>,
    /// Only items of this kind. What the user said is a message.
    pub kind: Option<ItemKind>,
    /// Only what began at this time or later.
    pub from: Option<Time>,
    /// Only what began before this time.
    pub to: Option<Time>,
    /// Hits on a page: 1 to [`MOST_HITS`], or [`USUAL_HITS`].
    pub limit: Option<usize>,
    /// [`Page::next`] of the page before; with it, everything else must be as it was.
    pub cursor: Option<String>,
    /// About how long is looked before a page is what was found so far. When nothing else is said, 60 ms for the first page
    /// and a second for each of the others. A page gets on by something in any case, so that the last one is reached with any
    /// patience.
    pub patience: Option<Duration>,
}

/// Some of what was found, the newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// What was found.
    pub hits: Vec<Hit>,
    /// Where the next page begins; `None` when this is the last. A page can have fewer hits than asked for, and still
    /// not be the last.
    pub next: Option<String>,
    /// The index is being built, after an upgrade or a crash: more may be found in a while.
    pub is_indexing: bool,
    /// It took too long to look further than this: the page is not full, and [`Page::next`] goes on from where it was left.
    pub is_incomplete: bool,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Its session.
    pub session: SessionId,
    /// The session's agent.
    pub agent: String,
    /// What it is.
    pub subject: Subject,
    /// Its turn; background work has none, and neither has a prompt that waits.
    pub turn: Option<TurnId>,
    /// Its kind.
    pub kind: ItemKind,
    /// Whose message it is.
    pub role: Option<Role>,
    /// When it began.
    pub time: Time,
    /// The place where it was found.
    pub snippet: Vec<Part>,
}

/// Why nothing was looked for.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The words are none.
    #[error("the words cannot be looked for: {0}")]
    Words(String),
    /// The page is too small or too large.
    #[error("a page cannot have {0} hits; ask for 1 to {MOST_HITS}")]
    Limit(usize),
    /// The cursor is not one of this index.
    #[error(
        "{0:?} is no cursor of this index, which may have been made anew since; search again without one"
    )]
    Cursor(String),
    /// There is no such session, or the store failed.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// A query as a store gets it: checked, and in its own words.
pub(crate) struct Search {
    pub(crate) terms: Terms,
    /// The store's name of the session.
    pub(crate) session: Option<i64>,
    pub(crate) agent: Option<String>,
    pub(crate) role: Option<Role>,
    pub(crate) kind: Option<ItemKind>,
    pub(crate) from: Option<Time>,
    pub(crate) to: Option<Time>,
    pub(crate) limit: usize,
    pub(crate) after: Option<Place>,
    /// Shared with what watches over the reading.
    pub(crate) effort: Arc<Effort>,
}

/// A place in the order of all entries. The newest has the highest number, and no number is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Which index the number is of.
    pub(crate) index: u64,
    pub(crate) ordinal: i64,
}

impl Place {
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

/// What a store found.
pub(crate) struct Found {
    pub(crate) hits: Vec<Hit>,
    /// Where to go on, if there may be more.
    pub(crate) next: Option<Place>,
    pub(crate) is_indexing: bool,
    /// There is a place to go on from because the effort was spent, and not because the page is full.
    pub(crate) is_incomplete: bool,
}

impl Log {
    /// Looks for finished items and for what users said. It blocks as long as the store does, which is about as long as the
    /// query has patience.
    ///
    /// What is durable can be found about a second later, when it is settled; [`Log::settle`] waits for that.
    pub fn search(&self, query: &Query) -> Result<Page, SearchError> {
        self.search_with(query, Effort::of(query))
    }

    /// The same, and it is given up when nobody waits any more. What it returns then is for nobody.
    pub fn search_while(&self, query: &Query, interest: Interest) -> Result<Page, SearchError> {
        self.search_with(query, Effort::of(query).while_wanted(interest))
    }

    fn search_with(&self, query: &Query, effort: Effort) -> Result<Page, SearchError> {
        let Query { words, session, agent, role, kind, from, to, limit, cursor, patience: _ } = query;
        let limit = limit.unwrap_or(USUAL_HITS);
        if !(1..=MOST_HITS).contains(&limit) {
            return Err(SearchError::Limit(limit));
        }
        let place = |text: &String| Place::parse(text).ok_or_else(|| SearchError::Cursor(text.clone()));
        let after = cursor.as_ref().map(place).transpose()?;
        let terms = Terms::parse(words)?;
        let session = session.as_ref().map(|id| self.find(id)).transpose()?.map(|session| session.key);
        let (agent, role, kind, from, to) = (agent.clone(), *role, *kind, *from, *to);
        let effort = Arc::new(effort);
        let search = Search { terms, session, agent, role, kind, from, to, limit, after, effort };
        let Found { hits, next, is_indexing, is_incomplete } = self.inner().store.search(&search)?;
        Ok(Page { hits, next: next.map(Place::shown), is_indexing, is_incomplete })
    }

    /// Waits until all that is durable now can be found, without the rests that are otherwise made for the sake of
    /// commits. When the log is closed or its store fails, it returns all the same.
    pub async fn settle(&self) {
        let sessions = self.inner().unsettled();
        self.inner().store.settle(sessions).await;
    }
}

impl Search {
    /// The store's word for a cursor of another index.
    pub(crate) fn foreign_cursor(&self) -> SearchError {
        SearchError::Cursor(self.after.map(Place::shown).unwrap_or_default())
    }
}
