//! Whose work an item is: subagents, the tool calls they run under and the sessions the agent gave them.

use super::tag::Tag;
use serde_json::Value;
use std::collections::HashMap;
use turnstream_model::event::Tool;
use turnstream_model::id::{ItemId, Key};

/// The member of a tool call that names the session of its subagent.
const SUBAGENT_SESSION: &str = "subagent_session";

/// The subagents of a session. They outlive their turn: an agent may go on with one in the background.
#[derive(Clone, Debug, Default)]
pub(super) struct Kin {
    subagents: HashMap<ItemId, Subagent>,
    /// The agent's name of this session.
    pub(super) session: Option<Key>,
}

/// The session behind a tool call.
#[derive(Clone, Debug)]
struct Subagent {
    session: Key,
    /// The tool call that this call was made under.
    parent: Option<ItemId>,
}

impl Kin {
    /// Learns the session of a call, where the call names one.
    pub(super) fn learn(&mut self, call: &ItemId, parent: Option<&ItemId>, tool: &Tool) {
        if let Some(session) = tool.extra.get(SUBAGENT_SESSION).and_then(Value::as_str) {
            let (session, parent) = (Key::from(session), parent.cloned());
            self.subagents.insert(call.clone(), Subagent { session, parent });
        }
    }

    /// A call turns out to be made by a subagent itself.
    pub(super) fn move_below(&mut self, call: &ItemId, parent: &ItemId) {
        if let Some(subagent) = self.subagents.get_mut(call) {
            subagent.parent = Some(parent.clone());
        }
    }

    /// The call is void. Its subagent may be heard of all the same, but a snapshot would not know its session either.
    pub(super) fn forget(&mut self, call: &ItemId) {
        self.subagents.remove(call);
    }

    /// The tag of an item below this tool call, or below none.
    pub(super) fn tag(&self, parent: Option<&ItemId>) -> Tag {
        let Some(parent) = parent else { return Tag::default() };
        let subagent = self.subagents.get(parent);
        let parent_session = subagent.and_then(|subagent| match &subagent.parent {
            Some(above) => self.subagents.get(above).map(|above| &above.session),
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
