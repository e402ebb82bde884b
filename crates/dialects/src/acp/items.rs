//! The items that can still change for a client: those of open turns, and open background items.

use super::ended_items::EndedItems;
use super::event::{AcpEvent, Revision};
use super::item::{Item, ItemStart};
use super::subagents::Subagents;
use super::tag::{Ended, Tag, Void};
use super::tool;
use serde_json::Value;
use std::collections::HashMap;
use turnstream_model::event::{Body, Draft, Field, ItemKind, Tool};
use turnstream_model::id::{ItemId, TurnId};

/// Items by id. Those of a turn are dropped with its terminator; later changes of them are sent as late
/// revisions.
#[derive(Clone, Debug, Default)]
pub(super) struct Items {
    open: HashMap<ItemId, Item>,
    ended: EndedItems,
    pub(super) subagents: Subagents,
    /// Texts of the prompts of open turns. An agent may repeat them as messages of the user.
    prompt_texts: HashMap<TurnId, Vec<String>>,
}

impl Items {
    /// Adds the messages for an event about an item. The other types are the encoder's.
    pub(super) fn apply(&mut self, draft: &Draft, out: &mut Vec<AcpEvent>) {
        let Some(id) = &draft.item else { return };
        match &draft.body {
            Body::ItemDelta { field, text } => self.delta(id, *field, text, out),
            Body::ItemStarted { kind, role, synthetic, text, tool, native_id: _ } => {
                let (turn, parent) = (draft.turn.clone(), draft.parent.clone());
                let head = ItemStart { turn, parent, kind: *kind, role: *role, synthetic: *synthetic };
                self.start(id, head, tool.as_deref(), out);
                if let Some(text) = text {
                    self.delta(id, Field::Text, text, out);
                }
            }
            Body::ItemReplaced { field, text } => self.replace(id, *field, text, out),
            Body::ItemUpdated { tool } => self.update(id, draft.parent.as_ref(), tool.as_deref(), out),
            Body::ItemEnded { state, reason, incomplete, caused_by } => {
                let (reason, caused_by) = (reason.clone(), caused_by.clone());
                let ended = Ended { state: *state, reason, incomplete: *incomplete, caused_by };
                self.end(id, ended, out);
            }
            Body::ItemRevised { .. } => self.revise(id, draft, out),
            Body::ItemRemoved => self.void(id, draft.turn.as_ref(), Void::Removed, out),
            Body::SessionCreated { .. }
            | Body::SessionUpdated(_)
            | Body::SessionStatus(_)
            | Body::SessionResumed { .. }
            | Body::SessionEnded { .. }
            | Body::PromptAccepted { .. }
            | Body::PromptSent { .. }
            | Body::PromptTaken { .. }
            | Body::PromptWithdrawn { .. }
            | Body::TurnStarted { .. }
            | Body::TurnEnded { .. }
            | Body::AttemptStarted { .. }
            | Body::AttemptEnded { .. }
            | Body::AttemptSuperseded { .. }
            | Body::ApprovalRequested { .. }
            | Body::ApprovalResolved { .. }
            | Body::QuestionAsked { .. }
            | Body::QuestionAnswered { .. }
            | Body::Notice { .. }
            | Body::Aside(_)
            | Body::Unknown { .. } => {}
        }
    }

    fn update(&mut self, id: &ItemId, parent: Option<&ItemId>, tool: Option<&Tool>, out: &mut Vec<AcpEvent>) {
        let Some(item) = self.open.get_mut(id) else { return };
        if let Some(parent) = parent {
            self.subagents.set_parent(id, parent);
            item.set_parent(id, parent, &self.subagents, out);
        }
        if let Some(tool) = tool {
            self.subagents.note_session(id, item.parent(), tool);
            item.update(id, tool, &self.subagents, out);
        }
    }

    /// An item of an open turn is updated. A change of an ended one is sent as a revision.
    fn revise(&mut self, id: &ItemId, draft: &Draft, out: &mut Vec<AcpEvent>) {
        let Body::ItemRevised { late, state, text, tool } = &draft.body else { return };
        if let Some(item) = self.open.get_mut(id).filter(|_| !late) {
            if let Some(tool) = tool {
                self.subagents.note_session(id, item.parent(), tool);
            }
            item.revise(id, *state, text.as_deref(), tool.as_deref(), &self.subagents, out);
            return;
        }
        let was = self.ended.revise(id, *state).cloned();
        if let Some(tool) = tool {
            self.subagents.note_session(id, was.as_ref().and_then(|was| was.parent.as_ref()), tool);
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

    /// Remembers the texts of a prompt of this turn.
    pub(super) fn remember_prompt(&mut self, turn: &TurnId, content: &[Value]) {
        let texts = content.iter().filter_map(|block| block.get("text")?.as_str()).map(str::to_owned);
        self.prompt_texts.entry(turn.clone()).or_default().extend(texts);
    }

    /// The turn ended: its items can only be revised from here on.
    pub(super) fn end_turn(&mut self, turn: &TurnId) {
        self.prompt_texts.remove(turn);
        for (id, item) in self.open.extract_if(|_, item| item.turn() == Some(turn)) {
            self.ended.add(id, item.into_ended());
        }
    }

    pub(super) fn start(
        &mut self,
        id: &ItemId,
        head: ItemStart,
        tool: Option<&Tool>,
        out: &mut Vec<AcpEvent>,
    ) {
        let nothing = Tool::default();
        let tool = tool.unwrap_or(&nothing);
        if head.kind == ItemKind::Tool {
            self.subagents.note_session(id, head.parent.as_ref(), tool);
        }
        let item = Item::start(id, head, tool, &self.subagents, out);
        self.open.insert(id.clone(), item);
    }

    pub(super) fn delta(&mut self, id: &ItemId, field: Field, text: &str, out: &mut Vec<AcpEvent>) {
        let Some(item) = self.open.get_mut(id).filter(|_| !text.is_empty()) else { return };
        if item.may_be_echo()
            && let Some(said) = item.turn().and_then(|turn| self.prompt_texts.get(turn))
            && is_one_of(said, text)
        {
            return item.hide();
        }
        item.delta(id, field, text, &self.subagents, out);
    }

    pub(super) fn replace(&mut self, id: &ItemId, field: Field, text: &str, out: &mut Vec<AcpEvent>) {
        if let Some(item) = self.open.get_mut(id) {
            item.replace(id, field, text, &self.subagents, out);
        }
    }

    pub(super) fn end(&mut self, id: &ItemId, ended: Ended, out: &mut Vec<AcpEvent>) {
        let Some(item) = self.open.get_mut(id) else { return };
        item.end(id, ended, &self.subagents, out);
        if item.turn().is_none()
            && let Some(item) = self.open.remove(id)
        {
            self.ended.add(id.clone(), item.into_ended());
        }
    }

    /// The tag that names the item's subagent. Empty for an item that is not open.
    pub(super) fn tag_of(&self, id: &ItemId) -> Tag {
        self.open.get(id).map(|item| self.subagents.tag(item.parent())).unwrap_or_default()
    }

    pub(super) fn void(&mut self, id: &ItemId, turn: Option<&TurnId>, void: Void, out: &mut Vec<AcpEvent>) {
        self.subagents.forget(id);
        match self.open.remove(id) {
            Some(item) => item.void(id, void, &self.subagents, out),
            None => {
                let (item, was, turn) = (id.clone(), self.ended.get(id).cloned(), turn.cloned());
                let (state, text, tool) = (None, None, None);
                let revision = Revision { item, was, turn, state, text, tool, void: Some(void) };
                out.push(AcpEvent::Revised(Box::new(revision)));
            }
        }
    }
}

/// True when the text repeats a prompt. Agents may change the white space around it.
fn is_one_of(said: &[String], text: &str) -> bool {
    said.iter().any(|said| said.trim() == text.trim())
}
