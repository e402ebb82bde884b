//! The requests of sessions, for whoever links them to the attempts that an adapter reports.
//!
//! The adapter of an agent reports a model call as an attempt of its session. The same call comes through the
//! proxy. So its rows in the ledger belong to that attempt, and are no attempts of their own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use turnstream_model::attempts::AttemptName;
use turnstream_model::cursor::Cursor;
use turnstream_model::id::SessionId;

/// Is told about the requests of sessions.
pub trait SessionCalls: Send + Sync {
    /// The end of the log of a session, when a request of it begins. `None` if there is no such session.
    fn head(&self, session: &SessionId) -> Option<Cursor>;

    /// A request of a session got an answer, or a part of one. Must return at once.
    fn answered(&self, call: AnsweredCall);
}

/// A request of a session that got an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredCall {
    /// The session.
    pub session: SessionId,
    /// The end of its log when the request began. The attempt begins after it.
    pub since: Cursor,
    /// The rows of the request in the ledger, in order.
    pub rows: Vec<AttemptName>,
    /// The provider's id of the answer.
    pub completion: Option<String>,
    /// Headers of the agent's request, without keys.
    pub headers: Vec<(String, String)>,
}

/// A request of a session that runs.
pub(crate) struct Call {
    calls: Arc<dyn SessionCalls>,
    since: Cursor,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    rows: Vec<AttemptName>,
    completion: Option<String>,
}

impl Call {
    pub(crate) fn begin(calls: &Arc<dyn SessionCalls>, session: &SessionId) -> Option<Self> {
        Some(Self { calls: calls.clone(), since: calls.head(session)?, seen: Mutex::default() })
    }

    /// Counts a row. The last one has the answer.
    pub(crate) fn add_row(&self, name: &AttemptName) {
        self.seen().rows.push(name.clone());
    }

    /// The provider has named its answer.
    pub(crate) fn name_completion(&self, id: Option<&str>) {
        self.seen().completion = id.map(str::to_owned);
    }

    /// Content has left the proxy.
    pub(crate) fn answered(&self, session: &SessionId, headers: &[(String, String)]) {
        let Seen { rows, completion } = std::mem::take(&mut *self.seen());
        let headers = headers.iter().filter(|(name, _)| !crate::headers::is_key(name)).cloned().collect();
        let (session, since) = (session.clone(), self.since.clone());
        self.calls.answered(AnsweredCall { session, since, rows, completion, headers });
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
