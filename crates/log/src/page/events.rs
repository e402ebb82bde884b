//! A page of events, as they stand in the log.

use super::{PAGE_BYTES, PageError, TRIES};
use crate::committed::Committed;
use crate::error::ReadError;
use crate::log::{Inner, Log};
use crate::session::Session;
use turnstream_model::cursor::{Cursor, Generation, Seq};
use turnstream_model::id::SessionId;

/// How much is read at a time.
const READ_BYTES: usize = 128 * 1024;

/// Which events are wanted.
#[derive(Clone, Debug)]
pub struct EventsQuery {
    /// The first of them; `None`, or event 0, for the oldest that is kept.
    pub from: Option<Cursor>,
    /// At most so many.
    pub limit: usize,
}

/// Events that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventsPage {
    /// The log's generation.
    pub generation: Generation,
    /// The first event that is kept; one after the head when none is.
    pub oldest: Seq,
    /// The last event.
    pub head: Seq,
    /// The events, oldest first; none when the page begins behind the head.
    pub events: Vec<Committed>,
    /// Where the next page begins; `None` when this one ends with the head.
    pub next: Option<Seq>,
}

impl Log {
    /// A page of events. It may have fewer than were asked for when they are large.
    /// [`ReadError::Trimmed`] when its first event is no longer kept.
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
                // Whoever asks for the oldest gets what is the oldest by now.
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
