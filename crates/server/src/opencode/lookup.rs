//! Our session for an id of opencode. The ids are computed, so nothing is stored for this.

use super::answer::Failure;
use crate::app::App;
use crate::chat::{History, has_turn};
use turnstream_dialects::opencode::{Named, Names, has_subagent};
use turnstream_gateway::Gateway;
use turnstream_model::fold::State;
use turnstream_model::id::{ItemId, SessionId};

/// A session of ours, and which part of it an id of opencode names.
pub(super) struct Found {
    pub(super) id: SessionId,
    pub(super) named: Named,
}

/// The session with this id of opencode. Our own ids are accepted too.
pub(super) fn find(app: &App, id: &str) -> Result<Found, Failure> {
    let missing = || Failure::not_found(format!("Session not found: {id}"));
    let named = |ours: &SessionId| {
        let created = app.gateway.state_of(ours)?.created.unwrap_or_default();
        match Names::new(ours.as_str(), created).read(id) {
            None if ours.as_str() == id => Some(Named::Session),
            read => read,
        }
    };
    let candidates = app.session_ids.candidates(&app.gateway, id);
    let found = candidates.into_iter().find_map(|ours| Some(Found { named: named(&ours)?, id: ours }));
    found.ok_or_else(missing)
}

/// The session itself, for what a subagent cannot do.
pub(super) fn find_whole(app: &App, id: &str, what: &str) -> Result<SessionId, Failure> {
    let Found { id: ours, named } = find(app, id)?;
    match named {
        Named::Session => Ok(ours),
        Named::Subagent(_) => {
            let detail = format!("{what}: {id} is a subagent; its session does this for it");
            Err(Failure::not_supported(detail))
        }
    }
}

/// The state of a session under its id here. An imported one may have another id in its events.
pub(super) async fn state(gateway: &Gateway, id: &SessionId) -> Result<State, Failure> {
    let mut state = gateway.snapshot(id).await?.state;
    state.session.id = Some(id.clone());
    Ok(state)
}

/// The session itself with its newest item, or everything since the call of a subagent.
pub(super) async fn outline_of(app: &App, id: &str) -> Result<(State, Named), Failure> {
    let Found { id: ours, named } = find(app, id)?;
    let state = match &named {
        Named::Session => History::newest(&app.gateway, &ours, 1).await?.state,
        Named::Subagent(call) => since_call(app, id, &ours, call).await?,
    };
    Ok((state, named))
}

/// The state of a session since the call of a subagent.
pub(super) async fn since_call(
    app: &App,
    id: &str,
    ours: &SessionId,
    call: &ItemId,
) -> Result<State, Failure> {
    let has_call = |state: &State| state.items.iter().any(|item| item.id == *call);
    let state = History::back_to(&app.gateway, ours, has_call).await?.state;
    if !has_subagent(&state, call) {
        return Err(Failure::not_found(format!("Session not found: {id}")));
    }
    Ok(state)
}

/// The state of a session since its open turn began.
pub(super) async fn open_turn_of(gateway: &Gateway, id: &SessionId) -> Result<State, Failure> {
    let is_whole = |state: &State| state.open_turn().is_none_or(|open| has_turn(state, &open.turn));
    Ok(History::back_to(gateway, id, is_whole).await?.state)
}

/// The states of sessions that wait for a person, in this directory if one is named.
pub(super) async fn waiting(app: &App, directory: Option<&str>) -> Result<Vec<State>, Failure> {
    let mut states = Vec::new();
    // The list may be a moment behind the log, which decides.
    for entry in app.gateway.sessions_at_work() {
        if directory.is_none_or(|directory| entry.session.cwd == directory) {
            states.push(open_turn_of(&app.gateway, &entry.id).await?);
        }
    }
    Ok(states)
}
