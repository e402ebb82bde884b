//! One item: which of ACP's updates it is, and what the client has been told of it.

use super::event::{AcpEvent, Chunk, ChunkKind, ItemNews, ItemNote, Over, ToolText};
use super::kin::Kin;
use super::tag::{Ended, Mark, Tag, Void};
use super::{plan, tool};
use agent_client_protocol_schema::v1::{Plan, SessionUpdate};
use turnstream_model::event::{Field, ItemKind, ItemState, Role, Tool, ToolStatus};
use turnstream_model::id::{ItemId, TurnId};

/// What an item is when it starts.
pub(super) struct Head {
    pub(super) turn: Option<TurnId>,
    pub(super) parent: Option<ItemId>,
    pub(super) kind: ItemKind,
    pub(super) role: Option<Role>,
    pub(super) synthetic: bool,
}

/// An item that the client can still be told something about.
#[derive(Clone, Debug)]
pub(super) struct Item {
    turn: Option<TurnId>,
    parent: Option<ItemId>,
    synthetic: bool,
    ended: Option<Ended>,
    view: View,
}

/// Which of ACP's updates an item is.
#[derive(Clone, Debug)]
enum View {
    /// A message. Until something of it was shown there is nothing to correct.
    Text { kind: ChunkKind, shown: bool },
    /// A prompt that the agent repeated: the prompt itself is what is shown.
    Echo,
    /// A tool call, with the status that was sent last.
    Tool { status: ToolStatus },
    /// A plan, which ACP wants whole each time: its text is kept.
    Plan { text: String, unsent: bool },
    /// Something that goes as a note of ours.
    Note(ItemKind),
}

impl Item {
    /// Takes an item up, and announces what has to be announced.
    pub(super) fn start(id: &ItemId, head: Head, tool: &Tool, kin: &Kin, out: &mut Vec<AcpEvent>) -> Self {
        let Head { turn, parent, kind, role, synthetic } = head;
        let text = |kind| View::Text { kind, shown: false };
        let view = match kind {
            ItemKind::Message if role == Some(Role::User) => text(ChunkKind::User),
            ItemKind::Message => text(ChunkKind::Agent),
            ItemKind::Reasoning => text(ChunkKind::Thought),
            ItemKind::Tool => View::Tool { status: tool.status.unwrap_or(ToolStatus::Pending) },
            // ACP has one plan per session: a subagent's would take the place of the agent's own.
            ItemKind::Plan if parent.is_none() => View::Plan { text: String::new(), unsent: false },
            ItemKind::Plan | ItemKind::File | ItemKind::Compaction => View::Note(kind),
        };
        let item = Self { turn, parent, synthetic, ended: None, view };
        match &item.view {
            View::Tool { .. } => {
                let tag = Tag { tool: unknown_members(tool), ..item.tag(kin) };
                item.push(SessionUpdate::ToolCall(tool::announce(id.as_str(), tool, &tag)), out);
            }
            View::Note(kind) => out.push(note(id, *kind, item.tag(kin), ItemNews::Started)),
            View::Text { .. } | View::Plan { .. } | View::Echo => {}
        }
        item
    }

    pub(super) fn turn(&self) -> Option<&TurnId> {
        self.turn.as_ref()
    }

    pub(super) fn parent(&self) -> Option<&ItemId> {
        self.parent.as_ref()
    }

    /// What is left of it when it is over.
    pub(super) fn over(self) -> Over {
        let (kind, role) = match self.view {
            View::Text { kind: ChunkKind::User, .. } | View::Echo => (ItemKind::Message, Some(Role::User)),
            View::Text { kind: ChunkKind::Agent, .. } => (ItemKind::Message, Some(Role::Assistant)),
            View::Text { kind: ChunkKind::Thought, .. } => (ItemKind::Reasoning, None),
            View::Tool { .. } => (ItemKind::Tool, None),
            View::Plan { .. } => (ItemKind::Plan, None),
            View::Note(kind) => (kind, None),
        };
        Over { kind, role, parent: self.parent, state: self.ended.map(|ended| ended.state) }
    }

    /// True for a message of the user of which nothing was shown: it may be the prompt again.
    pub(super) fn may_be_echo(&self) -> bool {
        let is_users = matches!(self.view, View::Text { kind: ChunkKind::User, shown: false });
        is_users && !self.synthetic && self.parent.is_none()
    }

    /// Nothing of it is shown from now on.
    pub(super) fn hide(&mut self) {
        self.view = View::Echo;
    }

    pub(super) fn delta(
        &mut self,
        id: &ItemId,
        field: Field,
        text: &str,
        kin: &Kin,
        out: &mut Vec<AcpEvent>,
    ) {
        let tag = self.tag(kin);
        match &mut self.view {
            View::Text { kind, shown } => {
                if field == Field::Text {
                    *shown = true;
                    let (kind, item, text) = (*kind, id.clone(), text.to_owned());
                    out.push(AcpEvent::Chunk(Chunk { kind, item, text, tag }));
                }
            }
            View::Tool { .. } => {
                let tag = tag.marked(Mark::Delta { field, text: text.to_owned() });
                out.push(AcpEvent::ToolText(ToolText { item: id.clone(), tag }));
            }
            View::Plan { text: whole, unsent } => {
                let is_first = whole.is_empty();
                whole.push_str(text);
                // A plan that is being written is sent line by line, or as a list that is whole, not once per token.
                let is_list = whole.starts_with('[') && text.ends_with(']');
                *unsent = !(is_first || is_list || text.contains('\n'));
                if !*unsent {
                    out.push(show_plan(whole, &tag));
                }
            }
            View::Note(kind) => out.push(note(id, *kind, tag, ItemNews::Delta(text.to_owned()))),
            View::Echo => {}
        }
    }

    pub(super) fn replace(
        &mut self,
        id: &ItemId,
        field: Field,
        text: &str,
        kin: &Kin,
        out: &mut Vec<AcpEvent>,
    ) {
        let tag = self.tag(kin);
        let mark = || Mark::Replace { field, text: text.to_owned() };
        match &mut self.view {
            // Nothing of it is on any screen yet: it is simply the text.
            View::Text { shown: false, .. } => {
                if !text.is_empty() {
                    self.delta(id, field, text, kin, out);
                }
            }
            // As content it would be added to what is on the screen, and the text would stand there twice.
            View::Text { kind, shown: true } => {
                if field == Field::Text {
                    out.push(empty_chunk(*kind, id, tag.marked(mark())));
                }
            }
            View::Tool { .. } => {
                out.push(AcpEvent::ToolText(ToolText { item: id.clone(), tag: tag.marked(mark()) }));
            }
            View::Plan { text: whole, unsent } => {
                text.clone_into(whole);
                *unsent = false;
                out.push(show_plan(whole, &tag));
            }
            View::Note(kind) => out.push(note(id, *kind, tag, ItemNews::Replaced(text.to_owned()))),
            View::Echo => {}
        }
    }

    /// Something that began without a parent turns out to be a subagent's.
    pub(super) fn move_below(&mut self, id: &ItemId, parent: &ItemId, kin: &Kin, out: &mut Vec<AcpEvent>) {
        self.parent = Some(parent.clone());
        let tag = self.tag(kin);
        match &mut self.view {
            View::Text { kind, shown: true } => out.push(empty_chunk(*kind, id, tag)),
            View::Tool { .. } => out.push(AcpEvent::ToolText(ToolText { item: id.clone(), tag })),
            View::Plan { text, .. } => {
                let text = std::mem::take(text);
                // It was shown as the agent's own plan, which it never was.
                if !text.is_empty() {
                    out.push(show_plan("", &Tag::default()));
                }
                out.push(note(id, ItemKind::Plan, tag, ItemNews::Replaced(text)));
                self.view = View::Note(ItemKind::Plan);
            }
            View::Note(kind) => out.push(note(id, *kind, tag, ItemNews::Moved)),
            View::Text { shown: false, .. } | View::Echo => {}
        }
    }

    /// A call changed.
    pub(super) fn update(&mut self, id: &ItemId, patch: &Tool, kin: &Kin, out: &mut Vec<AcpEvent>) {
        let View::Tool { status } = &mut self.view else { return };
        *status = patch.status.unwrap_or(*status);
        let tag = Tag { tool: unknown_members(patch), ..self.tag(kin) };
        self.push(SessionUpdate::ToolCallUpdate(tool::update(id.as_str(), patch, &tag)), out);
    }

    pub(super) fn end(&mut self, id: &ItemId, ended: Ended, kin: &Kin, out: &mut Vec<AcpEvent>) {
        let is_plain = ended.is_plain(matches!(self.view, View::Tool { .. }));
        self.show_end(id, ended, !is_plain, kin, out);
    }

    /// An ended item is corrected.
    pub(super) fn revise(
        &mut self,
        id: &ItemId,
        state: Option<ItemState>,
        text: Option<&str>,
        patch: Option<&Tool>,
        kin: &Kin,
        out: &mut Vec<AcpEvent>,
    ) {
        let was_hidden = matches!(self.view, View::Text { shown: false, .. });
        if let Some(text) = text {
            self.replace(id, Field::Text, text, kin, out);
        }
        if let Some(patch) = patch {
            self.update(id, patch, kin, out);
        }
        let Some(was) = self.ended.clone() else { return };
        // The whole text is the last word on it: nothing is missing any more.
        let is_whole = text.is_some();
        let ended = Ended {
            state: state.unwrap_or(was.state),
            reason: was.reason.clone().filter(|_| !is_whole),
            incomplete: was.incomplete && !is_whole,
            caused_by: was.caused_by.clone(),
        };
        // A message without text got no mark when it ended.
        let is_unmarked = was_hidden && !ended.is_plain(false);
        if ended != was || is_unmarked {
            // What was marked is taken back by another mark.
            self.show_end(id, ended, true, kin, out);
        }
    }

    fn show_end(&mut self, id: &ItemId, ended: Ended, marked: bool, kin: &Kin, out: &mut Vec<AcpEvent>) {
        self.ended = Some(ended.clone());
        let state = ended.state;
        let plain = self.tag(kin);
        let tag = if marked { plain.clone().marked(Mark::Ended(ended.clone())) } else { plain.clone() };
        match &mut self.view {
            View::Text { kind, shown: true } => {
                if marked {
                    out.push(empty_chunk(*kind, id, tag));
                }
            }
            View::Tool { status } => {
                let want = status_of(state);
                let is_news = std::mem::replace(status, want) != want;
                if is_news || marked {
                    let patch = Tool { status: is_news.then_some(want), ..Tool::default() };
                    self.push(SessionUpdate::ToolCallUpdate(tool::update(id.as_str(), &patch, &tag)), out);
                }
            }
            View::Plan { text, unsent } => {
                if std::mem::take(unsent) || marked {
                    out.push(show_plan(text, &tag));
                }
            }
            View::Note(kind) => out.push(note(id, *kind, plain, ItemNews::Ended(ended))),
            View::Text { shown: false, .. } | View::Echo => {}
        }
    }

    /// It is not part of the conversation any more.
    pub(super) fn void(self, id: &ItemId, void: Void, kin: &Kin, out: &mut Vec<AcpEvent>) {
        let tag = self.tag(kin);
        let marked = tag.clone().marked(Mark::Void(void));
        match self.view {
            View::Text { kind, shown: true } => out.push(empty_chunk(kind, id, marked)),
            View::Tool { status } => {
                // No call may stay open on a screen. One that is void never ran, or its result does not count.
                let status = (status < ToolStatus::Completed).then_some(ToolStatus::Failed);
                let patch = Tool { status, ..Tool::default() };
                self.push(SessionUpdate::ToolCallUpdate(tool::update(id.as_str(), &patch, &marked)), out);
            }
            View::Plan { .. } => out.push(show_plan("", &marked)),
            View::Note(kind) => out.push(note(id, kind, tag, ItemNews::Void(void))),
            View::Text { shown: false, .. } | View::Echo => {}
        }
    }

    fn tag(&self, kin: &Kin) -> Tag {
        Tag { synthetic: self.synthetic, ..kin.tag(self.parent.as_ref()) }
    }

    fn push(&self, update: SessionUpdate, out: &mut Vec<AcpEvent>) {
        out.push(AcpEvent::Update { update: Box::new(update), parent: self.parent.clone() });
    }
}

impl Ended {
    /// The status of the call says it all, or the message is whole.
    fn is_plain(&self, is_tool: bool) -> bool {
        let Self { state, reason, incomplete, caused_by } = self;
        let is_stated = *state == ItemState::Completed || (is_tool && *state == ItemState::Failed);
        is_stated && !incomplete && reason.is_none() && caused_by.is_none()
    }
}

/// A call of which nobody knows how it ended is not shown as done: the mark says which it is.
fn status_of(state: ItemState) -> ToolStatus {
    match state {
        ItemState::Completed => ToolStatus::Completed,
        ItemState::Failed | ItemState::Abandoned | ItemState::Unknown => ToolStatus::Failed,
    }
}

fn empty_chunk(kind: ChunkKind, item: &ItemId, tag: Tag) -> AcpEvent {
    AcpEvent::Chunk(Chunk { kind, item: item.clone(), text: String::new(), tag })
}

fn note(item: &ItemId, kind: ItemKind, tag: Tag, news: ItemNews) -> AcpEvent {
    AcpEvent::Item(Box::new(ItemNote { item: item.clone(), kind, tag, news }))
}

fn show_plan(text: &str, tag: &Tag) -> AcpEvent {
    let update = SessionUpdate::Plan(Plan::new(plan::entries(text)).meta(tag.to_meta()));
    AcpEvent::Update { update: Box::new(update), parent: None }
}

fn unknown_members(tool: &Tool) -> Option<Box<serde_json::Map<String, serde_json::Value>>> {
    (!tool.extra.is_empty()).then(|| Box::new(tool.extra.clone()))
}
