//! The items that a client can still be told something about: those of open turns, and of the background while they last.

use super::event::{AcpEvent, Revision};
use super::item::{Head, Item};
use super::kin::Kin;
use super::over::Lately;
use super::tag::{Ended, Tag, Void};
use super::tool;
use serde_json::Value;
use std::collections::HashMap;
use turnstream_model::event::{Body, Draft, Field, ItemKind, Tool};
use turnstream_model::id::{ItemId, TurnId};

/// Items by id. A turn's leave with its terminator: what comes for them after that is late.
#[derive(Clone, Debug, Default)]
pub(super) struct Items {
    open: HashMap<ItemId, Item>,
    lately: Lately,
    pub(super) kin: Kin,
    /// Texts of the prompts in open turns: an agent may repeat them as messages of the user.
    said: HashMap<TurnId, Vec<String>>,
}

impl Items {
    /// Adds the messages for an event about this item.
    pub(super) fn apply(&mut self, id: &ItemId, draft: &Draft, out: &mut Vec<AcpEvent>) {
        if let Body::ItemDelta { field, text } = &draft.body {
            self.delta(id, *field, text, out);
        } else if let Body::ItemStarted { kind, role, synthetic, text, tool, native_id: _ } = &draft.body {
            let (turn, parent) = (draft.turn.clone(), draft.parent.clone());
            let head = Head { turn, parent, kind: *kind, role: *role, synthetic: *synthetic };
            self.start(id, head, tool.as_deref(), out);
            if let Some(text) = text {
                self.delta(id, Field::Text, text, out);
            }
        } else if let Body::ItemReplaced { field, text } = &draft.body {
            self.replace(id, *field, text, out);
        } else if let Body::ItemUpdated { tool } = &draft.body {
            self.update(id, draft.parent.as_ref(), tool.as_deref(), out);
        } else if let Body::ItemEnded { state, reason, incomplete, caused_by } = &draft.body {
            let (reason, caused_by) = (reason.clone(), caused_by.clone());
            let ended = Ended { state: *state, reason, incomplete: *incomplete, caused_by };
            self.end(id, ended, out);
        } else if let Body::ItemRevised { .. } = &draft.body {
            self.revise(id, draft, out);
        } else if let Body::ItemRemoved = &draft.body {
            self.void(id, draft.turn.as_ref(), Void::Removed, out);
        }
    }

    fn update(&mut self, id: &ItemId, parent: Option<&ItemId>, tool: Option<&Tool>, out: &mut Vec<AcpEvent>) {
        let Some(item) = self.open.get_mut(id) else { return };
        if let Some(parent) = parent {
            self.kin.move_below(id, parent);
            item.move_below(id, parent, &self.kin, out);
        }
        if let Some(tool) = tool {
            self.kin.learn(id, item.parent(), tool);
            item.update(id, tool, &self.kin, out);
        }
    }

    /// An item of an open turn is updated. Of one that is over the client is told the change alone.
    fn revise(&mut self, id: &ItemId, draft: &Draft, out: &mut Vec<AcpEvent>) {
        let Body::ItemRevised { late, state, text, tool } = &draft.body else { return };
        if let Some(item) = self.open.get_mut(id).filter(|_| !late) {
            if let Some(tool) = tool {
                self.kin.learn(id, item.parent(), tool);
            }
            item.revise(id, *state, text.as_deref(), tool.as_deref(), &self.kin, out);
            return;
        }
        let was = self.lately.revise(id, *state).cloned();
        if let Some(tool) = tool {
            self.kin.learn(id, was.as_ref().and_then(|was| was.parent.as_ref()), tool);
        }
        let changes = |tool: &Tool| Box::new(tool::update(id.as_str(), tool, &Tag::default()));
        out.push(AcpEvent::Revised(Box::new(Revision {
            item: id.clone(),
            turn: draft.turn.clone(),
            state: state.or(was.as_ref().and_then(|was| was.state)),
            text: text.clone(),
            tool: tool.as_deref().map(changes),
            void: None,
            was,
        })));
    }

    /// Remembers the texts of a prompt that is in this turn.
    pub(super) fn said(&mut self, turn: &TurnId, content: &[Value]) {
        let texts = content.iter().filter_map(|block| block.get("text")?.as_str()).map(str::to_owned);
        self.said.entry(turn.clone()).or_default().extend(texts);
    }

    /// The turn is over.
    pub(super) fn forget(&mut self, turn: &TurnId) {
        self.said.remove(turn);
        for (id, item) in self.open.extract_if(|_, item| item.turn() == Some(turn)) {
            self.lately.add(id, item.over());
        }
    }

    pub(super) fn start(&mut self, id: &ItemId, head: Head, tool: Option<&Tool>, out: &mut Vec<AcpEvent>) {
        let nothing = Tool::default();
        let tool = tool.unwrap_or(&nothing);
        if head.kind == ItemKind::Tool {
            self.kin.learn(id, head.parent.as_ref(), tool);
        }
        let item = Item::start(id, head, tool, &self.kin, out);
        self.open.insert(id.clone(), item);
    }

    pub(super) fn delta(&mut self, id: &ItemId, field: Field, text: &str, out: &mut Vec<AcpEvent>) {
        let Some(item) = self.open.get_mut(id).filter(|_| !text.is_empty()) else { return };
        if item.may_be_echo()
            && let Some(said) = item.turn().and_then(|turn| self.said.get(turn))
            && has(said, text)
        {
            return item.hide();
        }
        item.delta(id, field, text, &self.kin, out);
    }

    pub(super) fn replace(&mut self, id: &ItemId, field: Field, text: &str, out: &mut Vec<AcpEvent>) {
        if let Some(item) = self.open.get_mut(id) {
            item.replace(id, field, text, &self.kin, out);
        }
    }

    pub(super) fn end(&mut self, id: &ItemId, ended: Ended, out: &mut Vec<AcpEvent>) {
        let Some(item) = self.open.get_mut(id) else { return };
        item.end(id, ended, &self.kin, out);
        if item.turn().is_none()
            && let Some(item) = self.open.remove(id)
        {
            self.lately.add(id.clone(), item.over());
        }
    }

    /// Whose work an item is; nothing for one that is over.
    pub(super) fn tag_of(&self, id: &ItemId) -> Tag {
        self.open.get(id).map(|item| self.kin.tag(item.parent())).unwrap_or_default()
    }

    pub(super) fn void(&mut self, id: &ItemId, turn: Option<&TurnId>, void: Void, out: &mut Vec<AcpEvent>) {
        self.kin.forget(id);
        match self.open.remove(id) {
            Some(item) => item.void(id, void, &self.kin, out),
            None => {
                let (item, was, turn) = (id.clone(), self.lately.get(id).cloned(), turn.cloned());
                let (state, text, tool) = (None, None, None);
                let revision = Revision { item, was, turn, state, text, tool, void: Some(void) };
                out.push(AcpEvent::Revised(Box::new(revision)));
            }
        }
    }
}

/// Agents store prompts with other space around them.
fn has(said: &[String], text: &str) -> bool {
    said.iter().any(|said| said.trim() == text.trim())
}
