//! The subagents of sessions, for lists. Their calls may be anywhere in a session, so each session is read
//! once, and again after it has changed.

use super::answer::Failure;
use super::lookup;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use turnstream_dialects::opencode;
use turnstream_gateway::{Gateway, SessionInfo};
use turnstream_model::cursor::{Generation, Seq};
use turnstream_model::id::SessionId;

/// What lists say of subagents.
#[derive(Default)]
pub(crate) struct Subagents(Mutex<HashMap<SessionId, Known>>);

#[derive(Clone)]
struct Known {
    generation: Generation,
    head: Seq,
    infos: Arc<[Value]>,
}

impl Subagents {
    /// The subagents of a session, as sessions of opencode.
    pub(super) async fn of(&self, gateway: &Gateway, info: &SessionInfo) -> Result<Arc<[Value]>, Failure> {
        let Some(id) = &info.session.id else { return Ok(Arc::default()) };
        let known = self.lock().get(id).cloned();
        if let Some(known) = known.filter(|it| it.generation == info.generation && it.head >= info.head) {
            return Ok(known.infos);
        }
        let state = lookup::state(gateway, id).await?;
        let infos: Arc<[Value]> = opencode::subagents(&state).into();
        let known = Known { generation: info.generation.clone(), head: state.seq, infos: infos.clone() };
        self.lock().insert(id.clone(), known);
        Ok(infos)
    }

    /// Forgets sessions that were deleted.
    pub(super) fn forget_deleted(&self, gateway: &Gateway) {
        self.lock().retain(|id, _| gateway.session(id).is_ok());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Known>> {
        // The map is valid also after a panic of its holder.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
