//! A page of raw events.

use super::{PAGE_BYTES, PageError, TRIES};
use crate::committed::Committed;
use crate::error::ReadError;
use crate::log::{Inner, Log};
use crate::session::Session;
use turnstream_model::cursor::{Cursor, Generation, Seq};
use turnstream_model::id::SessionId;

/// Bytes per read of the store.
const READ_BYTES: usize = 128 * 1024;

/// A query for a page of events.
#[derive(Clone, Debug)]
pub struct EventsQuery {
    /// The first event of the page. `None`, or event 0, means the oldest event that is kept.
    pub from: Option<Cursor>,
    /// The largest number of events.
    pub limit: usize,
}

/// Consecutive events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventsPage {
    /// The log's generation.
    pub generation: Generation,
    /// The first event that is kept; head + 1 if none is.
    pub oldest: Seq,
    /// The last event.
    pub head: Seq,
    /// The events, oldest first. Empty if the page begins after the head.
    pub events: Vec<Committed>,
    /// The first event of the next page. `None` if this page ends at the head.
    pub next: Option<Seq>,
}

impl Log {
    /// Reads a page of events. It may hold fewer than requested if events are large. [`ReadError::Trimmed`]
    /// if its first event is no longer kept.
    pub fn events_page(&self, id: &SessionId, query: &EventsQuery) -> Result<EventsPage, PageError> {
        let session = self.find(id)?;
        let asked = query.from.as_ref().filter(|from| from.seq > Seq(0) || from.generation.is_some());
        if let Some(asked) = asked.and_then(|from| from.generation.as_ref())
            && *asked != session.generation
        {
            let (session, asked, current) = (id.to_string(), asked.clone(), session.generation.clone());
            return Err(PageError::Generation { session, asked, current });
        }
        let from = asked.map(|from| from.seq).filter(|from| *from > Seq(0));
        for _ in 1..TRIES {
            match self.inner().events_page(&session, from, query.limit) {
                // The oldest event was trimmed during the read: start at the new oldest one.
                Err(PageError::Read(ReadError::Trimmed { .. })) if from.is_none() => {}
                page => return page,
            }
        }
        self.inner().events_page(&session, from, query.limit)
    }
}

impl Inner {
    fn events_page(
        &self,
        session: &Session,
        from: Option<Seq>,
        limit: usize,
    ) -> Result<EventsPage, PageError> {
        if session.is_deleted() {
            return Err(ReadError::Unknown(session.id.to_string()).into());
        }
        let (head, oldest) = (session.head(), session.oldest());
        let from = from.unwrap_or(oldest);
        if from < oldest {
            let session = session.id.to_string();
            return Err(ReadError::Trimmed { session, seq: from, oldest }.into());
        }
        if from > head.next() {
            let session = session.id.to_string();
            return Err(PageError::BeyondHead { session, asked: from, head });
        }
        let (mut events, mut next, mut bytes): (Vec<Committed>, _, _) = (Vec::new(), from, 0);
        while events.len() < limit && next <= head && bytes < PAGE_BYTES {
            for event in self.read_some(session, next, READ_BYTES)? {
                bytes += event.json().len();
                if events.len() == limit || event.seq() > head || (bytes > PAGE_BYTES && !events.is_empty()) {
                    break;
                }
                next = event.seq().next();
                events.push(event);
            }
        }
        let next = (next <= head).then_some(next);
        Ok(EventsPage { generation: session.generation.clone(), oldest, head, events, next })
    }
}
