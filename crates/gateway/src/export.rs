//! Export of a session: its events up to the last moment at which nothing was open, in bounded memory.

use crate::error::RequestError;
use crate::gateway::Gateway;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use turnstream_log::{Committed, Follow, Follower};
use turnstream_model::cursor::{Cursor, CursorOutcome, Generation, Seq};
use turnstream_model::export::{Header, Settled};
use turnstream_model::fold::State;
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;

/// An exported session: its header, and then its events.
pub struct Export {
    header: Header,
    follower: Follower,
    next: Seq,
}

/// The part of a log that can be exported.
struct Extent {
    generation: Generation,
    /// The state before its first event.
    base: State,
    /// The last event that was read.
    seen: Seq,
    settled: Settled,
}

impl Gateway {
    /// Exports a session up to the last moment at which nothing was open (L10). If something is open now, the
    /// export waits for its end, at most for this time.
    pub async fn export(&self, id: &SessionId, wait: Duration) -> Result<Export, RequestError> {
        let session = self.session(id)?.session;
        let Extent { generation, base, seen, settled } = self.extent(id, wait).await?;
        let head = settled.last().ok_or_else(|| RequestError::NothingSettled {
            session: id.clone(),
            open: settled.open().unwrap_or_default(),
        })?;
        let first = base.seq.next();
        let header = Header {
            turnstream: env!("CARGO_PKG_VERSION").to_owned(),
            session: id.clone(),
            agent: session.agent,
            generation,
            first,
            head,
            exported: Time::now(),
            left_out: seen.0 - head.0,
            base: (base.seq > Seq(0)).then(|| Box::new(base)),
        };
        let follower = self.follow(id, &before(first))?;
        Ok(Export { header, follower, next: first })
    }

    async fn extent(&self, id: &SessionId, wait: Duration) -> Result<Extent, RequestError> {
        let deadline = Instant::now() + wait;
        let base = self.log().base(id).map_err(RequestError::of_read)?;
        let mut follower = self.follow(id, &before(base.seq.next()))?;
        let Follow::Outcome(outcome) = follower.next().await.map_err(RequestError::of_read)? else {
            return Err(RequestError::Closing);
        };
        let (generation, head) = match outcome {
            CursorOutcome::Replayed { generation, from: _, to: _, head }
            | CursorOutcome::CaughtUp { generation, head } => (generation, head),
            CursorOutcome::Reset { .. } => return Err(trimmed(base.seq.next())),
        };
        let mut settled = Settled::after(&base);
        let mut seen = base.seq;
        while seen < head || settled.open().is_some() {
            let step = if seen < head {
                follower.next().await
            } else {
                // All events were read: only the end of what is open is waited for.
                match timeout_at(deadline, follower.next()).await {
                    Ok(step) => step,
                    Err(_) => break,
                }
            };
            let events = match step.map_err(RequestError::of_read)? {
                Follow::Events(events) => events,
                Follow::Deleted => return Err(RequestError::UnknownSession(id.clone())),
                Follow::Closed => return Err(RequestError::Closing),
                Follow::Outcome(_) => return Err(trimmed(seen.next())),
            };
            for event in events {
                let parsed = event.event().map_err(RequestError::log)?;
                settled.apply(&parsed);
                seen = parsed.seq;
            }
        }
        Ok(Extent { generation, base, seen, settled })
    }
}

impl Export {
    /// Describes the export.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next batch of events; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<Vec<Committed>>, RequestError> {
        while self.next <= self.header.head {
            let mut events = match self.follower.next().await.map_err(RequestError::of_read)? {
                // Retention removed events that the header promises. The next ones may take long to come.
                Follow::Outcome(CursorOutcome::Reset { oldest, .. }) if oldest > self.next => {
                    return Err(trimmed(self.next));
                }
                Follow::Outcome(_) => continue,
                Follow::Deleted => return Err(RequestError::UnknownSession(self.header.session.clone())),
                Follow::Closed => return Err(RequestError::Closing),
                Follow::Events(events) => events,
            };
            if events.first().is_some_and(|event| event.seq() != self.next) {
                return Err(trimmed(self.next));
            }
            events.retain(|event| event.seq() <= self.header.head);
            self.next = events.last().map_or(self.next, |event| event.seq().next());
            return Ok(Some(events));
        }
        Ok(None)
    }
}

/// Retention removed an event during the export.
fn trimmed(seq: Seq) -> RequestError {
    RequestError::log(format!("event {seq} was trimmed while it was exported; export again"))
}

/// The cursor just before an event.
fn before(seq: Seq) -> Cursor {
    Cursor { generation: None, seq: Seq(seq.0.saturating_sub(1)) }
}
