//! Links the ledger rows of an agent's model calls to the attempts that its adapter reports.
//!
//! An adapter reports a call when the agent shows something of it, which is after the request has begun. So
//! the log of the session is read from the end that it had at the beginning of the request.

use serde::Deserialize;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use tracing::debug;
use turnstream_gateway::Gateway;
use turnstream_log::{Attempts, Committed, Follow};
use turnstream_model::Chain;
use turnstream_model::attempts::AgentAttempt;
use turnstream_model::cursor::{Cursor, Seq};
use turnstream_model::event::{Kind, Known};
use turnstream_model::id::{AttemptId, SessionId, TurnId};
use turnstream_proxy::{AnsweredCall, SessionCalls};

/// How long an adapter may be behind the answer of a provider.
const PATIENCE: Duration = Duration::from_secs(60);
/// The native id of a call of Codex, which does not show the ids of providers, has this after its turn.
const NUMBERED: &str = ":call-";
/// The header with the thread and the turn that a request of Codex is for.
const METADATA: &str = "x-codex-turn-metadata";

/// Links rows while a gateway runs.
pub(crate) struct AttemptLinks(Arc<Links>);

struct Links {
    /// Set when the gateway is open. No agent asks before.
    gateway: OnceLock<Gateway>,
    ledger: Attempts,
    /// The last attempt of each session that was linked by its number.
    last: Mutex<HashMap<SessionId, Seq>>,
}

/// The members of `attempt.started` that matter here.
#[derive(Deserialize)]
struct Started {
    turn: TurnId,
    attempt: AttemptId,
    #[serde(default)]
    native_id: Option<String>,
}

/// What a request of Codex tells about itself.
#[derive(Deserialize)]
struct TurnOfCodex {
    thread_id: String,
    turn_id: String,
}

impl AttemptLinks {
    pub(crate) fn new(ledger: Attempts) -> Self {
        Self(Arc::new(Links { gateway: OnceLock::new(), ledger, last: Mutex::default() }))
    }

    /// What the proxy tells about requests.
    pub(crate) fn calls(&self) -> Arc<dyn SessionCalls> {
        Arc::new(Self(self.0.clone()))
    }

    /// The gateway is open.
    pub(crate) fn open(&self, gateway: &Gateway) {
        // It is opened once.
        drop(self.0.gateway.set(gateway.clone()));
    }
}

impl SessionCalls for AttemptLinks {
    fn head(&self, session: &SessionId) -> Option<Cursor> {
        let info = self.0.gateway.get()?.session(session).ok()?;
        Some(Cursor { generation: Some(info.generation), seq: info.head })
    }

    fn answered(&self, call: AnsweredCall) {
        let links = self.0.clone();
        tokio::spawn(async move { links.link(call).await });
    }
}

impl Links {
    async fn link(&self, call: AnsweredCall) {
        let Some(of) = self.find(&call).await else {
            debug!(session = %call.session, "a request of an agent belongs to no attempt of its session");
            return;
        };
        for name in call.rows {
            if let Err(unkept) = self.ledger.link(name, of.clone()).await {
                debug!(session = %call.session, error = %Chain(&unkept), "a row was not linked");
            }
        }
    }

    /// The attempt that the adapter reports for a request. `None` if it reports none in time: agents also ask
    /// for titles and summaries, and subagents ask by the address of their session.
    async fn find(&self, call: &AnsweredCall) -> Option<AgentAttempt> {
        let gateway = self.gateway.get()?;
        let mut follower = gateway.follow(&call.session, &call.since).ok()?;
        let until = Instant::now() + PATIENCE;
        loop {
            let events = match timeout_at(until, follower.next()).await {
                Ok(Ok(Follow::Events(events))) => events,
                Ok(Ok(Follow::Outcome(_))) => continue,
                Ok(Ok(Follow::Closed | Follow::Deleted) | Err(_)) | Err(_) => return None,
            };
            if let Some(found) = events.iter().find_map(|event| self.matching(gateway, call, event)) {
                return Some(found);
            }
        }
    }

    fn matching(&self, gateway: &Gateway, call: &AnsweredCall, event: &Committed) -> Option<AgentAttempt> {
        if *event.kind() != Kind::Known(Known::AttemptStarted) {
            return None;
        }
        let Started { turn, attempt, native_id } = serde_json::from_slice(event.json()).ok()?;
        let native_id = native_id?;
        let is_this = match native_id.split_once(NUMBERED) {
            Some((turn, _)) => self.is_next(gateway, call, turn, event.seq()),
            None => call.completion.as_ref() == Some(&native_id),
        };
        is_this.then_some(AgentAttempt { turn, attempt })
    }

    /// Whether a numbered attempt is that of this request: the first that no other request has. A thread
    /// makes one request after the other.
    fn is_next(&self, gateway: &Gateway, call: &AnsweredCall, turn: &str, seq: Seq) -> bool {
        let header = call.headers.iter().find(|(name, _)| name == METADATA);
        let told = header.and_then(|(_, text)| serde_json::from_str::<TurnOfCodex>(text).ok());
        let Some(TurnOfCodex { thread_id, turn_id }) = told else { return false };
        let own = gateway.session(&call.session).ok().and_then(|info| info.session.native_id);
        // A subagent has a thread of its own.
        if own != Some(thread_id) || turn_id != turn {
            return false;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let last = last.entry(call.session.clone()).or_default();
        let is_next = seq > *last;
        *last = seq.max(*last);
        is_next
    }
}
