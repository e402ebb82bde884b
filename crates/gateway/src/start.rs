//! Start of a gateway: reads every session of the log, and starts the keepers of those with something open.

use crate::error::OpenError;
use crate::gateway::Gateway;
use std::collections::BTreeSet;
use turnstream_log::Abandoned;
use turnstream_model::Chain;
use turnstream_model::fold::{Activity, State};
use turnstream_model::id::SessionId;

/// Shows every session, and starts the keepers of those that the last gateway left open. Returns how many
/// sessions there are.
pub(crate) fn load_sessions(gateway: &Gateway, abandoned: Vec<Abandoned>) -> Result<usize, OpenError> {
    let turns = abandoned.len();
    let open_turns: BTreeSet<SessionId> = abandoned.into_iter().map(|turn| turn.session).collect();
    let mut unfinished = Vec::new();
    let mut inherited = Vec::new();
    let mut sessions = 0;
    for summary in gateway.log().summaries()? {
        let state = match summary.state {
            // Open approvals and questions have to be counted, and summaries do not have them.
            Some(state) if !may_wait(&state) => state,
            Some(_) | None => gateway.log().snapshot(&summary.id)?.state,
        };
        // A crash came between the session's row and its first event. No client has seen it.
        if state.session.id.is_none() {
            continue;
        }
        gateway.event_counters().found(&state);
        let mut session = state.session.clone();
        if open_turns.contains(&summary.id) || is_unfinished(&state) {
            // The keeper is about to append this status. Until then no client may see the session as idle. A
            // session that is parked stays so.
            if !is_parked(&state) {
                session.status = Activity::Recovering;
            }
            unfinished.push(summary.id.clone());
        }
        if session.from.is_some() {
            inherited.push(summary.id.clone());
        }
        gateway.states().show(&summary.id, session);
        sessions += 1;
    }
    if !inherited.is_empty() {
        gateway.name_in_sources(inherited);
    }
    let has_servers =
        |id: &SessionId| gateway.states().get(id).is_some_and(|session| !session.mcp.is_empty());
    gateway.shared().mcp.remove_leftovers(has_servers);
    if !unfinished.is_empty() {
        tracing::info!(sessions = unfinished.len(), turns, "recovering what the last gateway left open");
    }
    for id in unfinished {
        if let Err(error) = gateway.keeper(&id) {
            tracing::warn!(session = %id, error = %Chain(&error), "a session cannot be recovered");
        }
    }
    Ok(sessions)
}

/// Whether an approval or a question may be open.
fn may_wait(state: &State) -> bool {
    matches!(state.session.status, Activity::Waiting | Activity::Recovering)
}

/// Whether the session waits to continue a turn, and nothing else is open.
fn is_parked(state: &State) -> bool {
    let parked = state.session.unattended.as_ref().and_then(|unattended| unattended.parked.as_ref());
    parked.is_some() && state.session.status == Activity::Retrying && state.open_turn().is_none()
}

fn is_unfinished(state: &State) -> bool {
    !state.queue.is_empty() || state.session.status != Activity::Idle
}
