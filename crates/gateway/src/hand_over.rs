//! Handing a session over: a new session goes on from the finished items of another one, and both logs name
//! each other.
//!
//! The text is in the log of the new session. So it stays the same when the other session goes on, is trimmed
//! or is deleted.

use crate::create::{CREATION_EVENTS, NewSession};
use crate::error::RequestError;
use crate::gateway::Gateway;
use crate::request::Request;
use crate::transcript;
use turnstream_log::{Log, ReadError};
use turnstream_model::Chain;
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Aside, Body};
use turnstream_model::id::SessionId;
use turnstream_model::machine::{Inheritance, Refusal};

/// The text that a session took over from another one. It is in one of the events of the creation.
/// `None` if that one had no entries.
pub(crate) fn inherited_text(log: &Log, id: &SessionId) -> Result<Option<String>, RequestError> {
    let events = match log.read(id, Seq(0), CREATION_EVENTS) {
        Err(ReadError::Trimmed { .. }) => {
            tracing::warn!("retention has removed what the session took over, and its agent does not get it");
            return Ok(None);
        }
        read => read.map_err(RequestError::of_read)?,
    };
    for event in events {
        if let Body::Aside(Aside::SessionInherited { text, entries, .. }) =
            event.event().map_err(RequestError::log)?.draft.body
        {
            return Ok((entries > 0).then_some(text));
        }
    }
    Ok(None)
}

impl Gateway {
    /// What a new session takes over from the one that it names.
    pub(crate) async fn inheritance(&self, new: &NewSession) -> Result<Option<Inheritance>, RequestError> {
        let Some(from) = &new.from else { return Ok(None) };
        if self.states().get(from).is_none() || self.shared().deletions.is_under_way(from) {
            return Err(RequestError::UnknownSession(from.clone()));
        }
        let state = self.snapshot(from).await?.state;
        let (log, id) = (self.log().clone(), from.clone());
        // It has to be made of the whole session, which may be large.
        let made = tokio::task::spawn_blocking(move || {
            let inherits = state.session.from.is_some();
            let inherited = if inherits { inherited_text(&log, &id)? } else { None };
            Ok::<_, RequestError>((transcript::handed_over(&state, inherited), state.session))
        });
        let (made, source) = made.await.map_err(RequestError::log)??;
        let mut text = made.text;
        if new.redact_prompts.unwrap_or(true) {
            // The other session may have kept secrets, or have been redacted by other rules.
            text = self.settings().redaction.redact(&text).into_owned();
        }
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Ok(Some(Inheritance {
            from: from.clone(),
            agent: source.agent,
            cwd: source.cwd,
            text,
            entries: count(made.entries),
            left_out: count(made.left_out),
        }))
    }

    /// Lets the log of the other session name the new one. A session that has ended takes no event, and one
    /// that was deleted is gone. After any other failure the next start tries again.
    pub(crate) async fn name_in_source(&self, from: &SessionId, to: &SessionId, agent: &str) {
        let is_named = |source: turnstream_model::fold::Session| source.handed_over.contains(to);
        if self.states().get(from).is_some_and(is_named) {
            return;
        }
        let noted = self.ask(from, |reply| Request::HandOver(to.clone(), agent.to_owned(), reply)).await;
        match noted {
            Ok(()) => tracing::info!(session = %from, %to, agent, "session handed over"),
            Err(RequestError::Refused(Refusal::SessionEnded) | RequestError::UnknownSession(_)) => {}
            Err(error) => {
                let error = Chain(&error);
                tracing::warn!(session = %from, %to, %error, "the log of a session lacks its successor");
            }
        }
    }

    /// Repairs what a crash left between the two logs. `sessions` are all that go on from another one.
    pub(crate) fn name_in_sources(&self, sessions: Vec<SessionId>) {
        let gateway = self.clone();
        tokio::spawn(async move {
            for id in sessions {
                let Some(session) = gateway.states().get(&id) else { continue };
                // The session that a file names was one of the gateway that made the file.
                let is_imported = gateway.log().imported(&id).is_ok_and(|imported| imported.is_some());
                if let Some(from) = session.from.as_ref().filter(|_| !is_imported) {
                    gateway.name_in_source(&from.session, &id, &session.agent).await;
                }
            }
        });
    }
}
