//! Our session for an id of opencode. The ids are computed, so nothing is stored for this.

use super::answer::Failure;
use super::history::{History, has_turn};
use crate::app::App;
use turnstream_dialects::opencode::{Named, Names, has_subagent};
use turnstream_gateway::{Gateway, SessionEntry};
use turnstream_model::fold::{Activity, State};
use turnstream_model::id::SessionId;

/// A session of ours, and which part of it an id of opencode names.
pub(super) struct Found {
    pub(super) id: SessionId,
    pub(super) named: Named,
}

/// The session with this id of opencode. Our own ids are accepted too.
pub(super) fn find(app: &App, id: &str) -> Result<Found, Failure> {
    let missing = || Failure::not_found(format!("Session not found: {id}"));
    let named = |entry: &SessionEntry| match names(entry).read(id) {
        None if entry.id.as_str() == id => Some(Named::Session),
        read => read,
    };
    let found = entries(&app.gateway).into_iter().find_map(|entry| Some((named(&entry)?, entry.id)));
    let (named, id) = found.ok_or_else(missing)?;
    Ok(Found { id, named })
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

/// All sessions that were not deleted.
pub(super) fn entries(gateway: &Gateway) -> Vec<SessionEntry> {
    gateway.session_states()
}

/// The ids of a session.
pub(super) fn names(entry: &SessionEntry) -> Names {
    Names::new(entry.id.as_str(), entry.session.created.unwrap_or_default())
}

/// The state of a session under its id here. An imported one may have another id in its events.
pub(super) async fn state(gateway: &Gateway, id: &SessionId) -> Result<State, Failure> {
    let mut state = gateway.snapshot(id).await?.state;
    state.session.id = Some(id.clone());
    Ok(state)
}

/// How much of a session a request needs.
pub(super) enum Extent {
    /// All of it.
    Whole,
    /// The session itself, with its newest item.
    Outline,
}

/// The state that an id of opencode names a part of. That of a subagent has everything since its call.
pub(super) async fn state_of(app: &App, id: &str, extent: Extent) -> Result<(State, Named), Failure> {
    let Found { id: ours, named } = find(app, id)?;
    let state = match (&named, extent) {
        (Named::Session, Extent::Whole) => state(&app.gateway, &ours).await?,
        (Named::Session, Extent::Outline) => History::newest(&app.gateway, &ours, 1).await?.state,
        (Named::Subagent(call), Extent::Whole | Extent::Outline) => {
            let has_call = |state: &State| state.items.iter().any(|item| item.id == *call);
            let state = History::back_to(&app.gateway, &ours, has_call).await?.state;
            if !has_subagent(&state, call) {
                return Err(Failure::not_found(format!("Session not found: {id}")));
            }
            state
        }
    };
    Ok((state, named))
}

/// The state of a session since its open turn began.
pub(super) async fn open_turn_of(gateway: &Gateway, id: &SessionId) -> Result<State, Failure> {
    let is_whole = |state: &State| state.open_turn().is_none_or(|open| has_turn(state, &open.turn));
    Ok(History::back_to(gateway, id, is_whole).await?.state)
}

/// The states of sessions that wait for a person, in this directory if one is named.
pub(super) async fn waiting(app: &App, directory: Option<&str>) -> Result<Vec<State>, Failure> {
    let mut states = Vec::new();
    for entry in entries(&app.gateway) {
        let is_there = directory.is_none_or(|directory| entry.session.cwd == directory);
        // The list may be a moment behind the log, which decides.
        if is_there && entry.session.status != Activity::Idle {
            states.push(open_turn_of(&app.gateway, &entry.id).await?);
        }
    }
    Ok(states)
}
