//! The subagents of a session: the tool calls that run them, and the agent's own sessions for them.

use super::tag::Tag;
use serde_json::Value;
use std::collections::HashMap;
use turnstream_model::event::Tool;
use turnstream_model::id::{ItemId, Key};

/// The member of a tool call that names the session of its subagent.
const SUBAGENT_SESSION: &str = "subagent_session";

/// The subagents of a session. They outlive their turn, because an agent may continue one in the background.
#[derive(Clone, Debug, Default)]
pub(super) struct Subagents {
    by_call: HashMap<ItemId, Subagent>,
    /// The agent's own id of this session.
    pub(super) session: Option<Key>,
}

/// The subagent that a tool call runs.
#[derive(Clone, Debug)]
struct Subagent {
    session: Key,
    /// The tool call of the subagent that made this call, if one did.
    parent: Option<ItemId>,
}

impl Subagents {
    /// Remembers the subagent's session, if the call names one.
    pub(super) fn note_session(&mut self, call: &ItemId, parent: Option<&ItemId>, tool: &Tool) {
        if let Some(session) = tool.extra.get(SUBAGENT_SESSION).and_then(Value::as_str) {
            let (session, parent) = (Key::from(session), parent.cloned());
            self.by_call.insert(call.clone(), Subagent { session, parent });
        }
    }

    /// A call turns out to be made by a subagent.
    pub(super) fn set_parent(&mut self, call: &ItemId, parent: &ItemId) {
        if let Some(subagent) = self.by_call.get_mut(call) {
            subagent.parent = Some(parent.clone());
        }
    }

    /// The call is void. Its subagent may still report work, but a state has no session of it either.
    pub(super) fn forget(&mut self, call: &ItemId) {
        self.by_call.remove(call);
    }

    /// The tag of an item that belongs to this tool call's subagent, or to none.
    pub(super) fn tag(&self, parent: Option<&ItemId>) -> Tag {
        let Some(parent) = parent else { return Tag::default() };
        let subagent = self.by_call.get(parent);
        let parent_session = subagent.and_then(|subagent| match &subagent.parent {
            Some(above) => self.by_call.get(above).map(|above| &above.session),
            None => self.session.as_ref(),
        });
        Tag {
            parent: Some(parent.clone()),
            session: subagent.map(|subagent| subagent.session.clone()),
            parent_session: parent_session.cloned(),
            ..Tag::default()
        }
    }
}
