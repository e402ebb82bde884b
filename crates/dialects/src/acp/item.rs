//! One item: the ACP updates it becomes, and what the client has received of it.

use super::event::{AcpEvent, Chunk, ChunkKind, EndedItem, ItemNews, ItemNote, ToolText};
use super::subagents::Subagents;
use super::tag::{Ended, Mark, Tag, Void};
use super::{plan, tool};
use agent_client_protocol_schema::v1::{Plan, SessionUpdate};
use turnstream_model::event::{Field, ItemKind, ItemState, Role, Tool, ToolStatus};
use turnstream_model::id::{ItemId, TurnId};

/// The members of an item that do not change.
pub(super) struct ItemStart {
    pub(super) turn: Option<TurnId>,
    pub(super) parent: Option<ItemId>,
    pub(super) kind: ItemKind,
    pub(super) role: Option<Role>,
    pub(super) synthetic: bool,
}

/// An item that can still change for the client.
#[derive(Clone, Debug)]
pub(super) struct Item {
    turn: Option<TurnId>,
    parent: Option<ItemId>,
    synthetic: bool,
    ended: Option<Ended>,
    shown_as: ShownAs,
}

/// How an item is shown in ACP.
#[derive(Clone, Debug)]
enum ShownAs {
    /// A message. While nothing of it was sent there is nothing to correct.
    Text { kind: ChunkKind, shown: bool },
    /// A message that repeats a prompt. The prompt itself is shown instead.
    Echo,
    /// A tool call, with the status that was sent last.
    Tool { status: ToolStatus },
    /// A plan. ACP sends it whole each time, so its text is kept.
    Plan { text: String, unsent: bool },
    /// An item that ACP has no update for: it is sent as `_turnstream/item`.
    Note(ItemKind),
}

impl Item {
    /// Starts an item. Tool calls and notes are announced at once.
    pub(super) fn start(
        id: &ItemId,
        head: ItemStart,
        tool: &Tool,
        subagents: &Subagents,
        out: &mut Vec<AcpEvent>,
    ) -> Self {
        let ItemStart { turn, parent, kind, role, synthetic } = head;
        let text = |kind| ShownAs::Text { kind, shown: false };
        let shown_as = match kind {
            ItemKind::Message if role == Some(Role::User) => text(ChunkKind::User),
            ItemKind::Message => text(ChunkKind::Agent),
            ItemKind::Reasoning => text(ChunkKind::Thought),
            ItemKind::Tool => ShownAs::Tool { status: tool.status.unwrap_or(ToolStatus::Pending) },
            // ACP has one plan per session: a subagent's plan would replace the agent's own.
            ItemKind::Plan if parent.is_none() => ShownAs::Plan { text: String::new(), unsent: false },
            ItemKind::Plan | ItemKind::File | ItemKind::Compaction => ShownAs::Note(kind),
        };
        let item = Self { turn, parent, synthetic, ended: None, shown_as };
        match &item.shown_as {
            ShownAs::Tool { .. } => {
                let tag = Tag { tool: unknown_members(tool), ..item.tag(subagents) };
                item.push(SessionUpdate::ToolCall(tool::announce(id.as_str(), tool, &tag)), out);
            }
            ShownAs::Note(kind) => out.push(note(id, *kind, item.tag(subagents), ItemNews::Started)),
            ShownAs::Text { .. } | ShownAs::Plan { .. } | ShownAs::Echo => {}
        }
        item
    }

    pub(super) fn turn(&self) -> Option<&TurnId> {
        self.turn.as_ref()
    }

    pub(super) fn parent(&self) -> Option<&ItemId> {
        self.parent.as_ref()
    }

    /// What is remembered of it after its end.
    pub(super) fn into_ended(self) -> EndedItem {
        let (kind, role) = match self.shown_as {
            ShownAs::Text { kind: ChunkKind::User, .. } | ShownAs::Echo => {
                (ItemKind::Message, Some(Role::User))
            }
            ShownAs::Text { kind: ChunkKind::Agent, .. } => (ItemKind::Message, Some(Role::Assistant)),
            ShownAs::Text { kind: ChunkKind::Thought, .. } => (ItemKind::Reasoning, None),
            ShownAs::Tool { .. } => (ItemKind::Tool, None),
            ShownAs::Plan { .. } => (ItemKind::Plan, None),
            ShownAs::Note(kind) => (kind, None),
        };
        EndedItem { kind, role, parent: self.parent, state: self.ended.map(|ended| ended.state) }
    }

    /// True for a message of the user of which nothing was sent: it may repeat the prompt.
    pub(super) fn may_be_echo(&self) -> bool {
        let is_users = matches!(self.shown_as, ShownAs::Text { kind: ChunkKind::User, shown: false });
        is_users && !self.synthetic && self.parent.is_none()
    }

    /// Hides the message, because it repeats a prompt.
    pub(super) fn hide(&mut self) {
        self.shown_as = ShownAs::Echo;
    }

    pub(super) fn delta(
        &mut self,
        id: &ItemId,
        field: Field,
        text: &str,
        subagents: &Subagents,
        out: &mut Vec<AcpEvent>,
    ) {
        let tag = self.tag(subagents);
        match &mut self.shown_as {
            ShownAs::Text { kind, shown } => {
                if field == Field::Text {
                    *shown = true;
                    let (kind, item, text) = (*kind, id.clone(), text.to_owned());
                    out.push(AcpEvent::Chunk(Chunk { kind, item, text, tag }));
                }
            }
            ShownAs::Tool { .. } => {
                let tag = tag.marked(Mark::Delta { field, text: text.to_owned() });
                out.push(AcpEvent::ToolText(ToolText { item: id.clone(), tag }));
            }
            ShownAs::Plan { text: whole, unsent } => {
                let is_first = whole.is_empty();
                whole.push_str(text);
                // While a plan is being written it is sent after each line or complete list, not after each
                // token.
                let is_list = whole.starts_with('[') && text.ends_with(']');
                *unsent = !(is_first || is_list || text.contains('\n'));
                if !*unsent {
                    out.push(show_plan(whole, &tag));
                }
            }
            ShownAs::Note(kind) => out.push(note(id, *kind, tag, ItemNews::Delta(text.to_owned()))),
            ShownAs::Echo => {}
        }
    }

    pub(super) fn replace(
        &mut self,
        id: &ItemId,
        field: Field,
        text: &str,
        subagents: &Subagents,
        out: &mut Vec<AcpEvent>,
    ) {
        let tag = self.tag(subagents);
        let mark = || Mark::Replace { field, text: text.to_owned() };
        match &mut self.shown_as {
            // Nothing of it was sent yet, so the text is sent as it is.
            ShownAs::Text { shown: false, .. } => {
                if !text.is_empty() {
                    self.delta(id, field, text, subagents, out);
                }
            }
            // Sent as content it would be appended, and the client would show the text twice.
            ShownAs::Text { kind, shown: true } => {
                if field == Field::Text {
                    out.push(empty_chunk(*kind, id, tag.marked(mark())));
                }
            }
            ShownAs::Tool { .. } => {
                out.push(AcpEvent::ToolText(ToolText { item: id.clone(), tag: tag.marked(mark()) }));
            }
            ShownAs::Plan { text: whole, unsent } => {
                text.clone_into(whole);
                *unsent = false;
                out.push(show_plan(whole, &tag));
            }
            ShownAs::Note(kind) => out.push(note(id, *kind, tag, ItemNews::Replaced(text.to_owned()))),
            ShownAs::Echo => {}
        }
    }

    /// An item that began without a parent turns out to be the work of a subagent.
    pub(super) fn set_parent(
        &mut self,
        id: &ItemId,
        parent: &ItemId,
        subagents: &Subagents,
        out: &mut Vec<AcpEvent>,
    ) {
        self.parent = Some(parent.clone());
        let tag = self.tag(subagents);
        match &mut self.shown_as {
            ShownAs::Text { kind, shown: true } => out.push(empty_chunk(*kind, id, tag)),
            ShownAs::Tool { .. } => out.push(AcpEvent::ToolText(ToolText { item: id.clone(), tag })),
            ShownAs::Plan { text, .. } => {
                let text = std::mem::take(text);
                // It was shown as the agent's own plan, which was wrong.
                if !text.is_empty() {
                    out.push(show_plan("", &Tag::default()));
                }
                out.push(note(id, ItemKind::Plan, tag, ItemNews::Replaced(text)));
                self.shown_as = ShownAs::Note(ItemKind::Plan);
            }
            ShownAs::Note(kind) => out.push(note(id, *kind, tag, ItemNews::Moved)),
            ShownAs::Text { shown: false, .. } | ShownAs::Echo => {}
        }
    }

    /// Members of the tool call changed.
    pub(super) fn update(
        &mut self,
        id: &ItemId,
        patch: &Tool,
        subagents: &Subagents,
        out: &mut Vec<AcpEvent>,
    ) {
        let ShownAs::Tool { status } = &mut self.shown_as else { return };
        *status = patch.status.unwrap_or(*status);
        let tag = Tag { tool: unknown_members(patch), ..self.tag(subagents) };
        self.push(SessionUpdate::ToolCallUpdate(tool::update(id.as_str(), patch, &tag)), out);
    }

    pub(super) fn end(&mut self, id: &ItemId, ended: Ended, subagents: &Subagents, out: &mut Vec<AcpEvent>) {
        let is_plain = ended.is_plain(matches!(self.shown_as, ShownAs::Tool { .. }));
        self.show_end(id, ended, !is_plain, subagents, out);
    }

    /// An ended item is corrected.
    pub(super) fn revise(
        &mut self,
        id: &ItemId,
        state: Option<ItemState>,
        text: Option<&str>,
        patch: Option<&Tool>,
        subagents: &Subagents,
        out: &mut Vec<AcpEvent>,
    ) {
        let was_hidden = matches!(self.shown_as, ShownAs::Text { shown: false, .. });
        if let Some(text) = text {
            self.replace(id, Field::Text, text, subagents, out);
        }
        if let Some(patch) = patch {
            self.update(id, patch, subagents, out);
        }
        let Some(was) = self.ended.clone() else { return };
        // A revision has the whole text, so nothing is missing any more.
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
            // Another mark corrects an earlier one.
            self.show_end(id, ended, true, subagents, out);
        }
    }

    fn show_end(
        &mut self,
        id: &ItemId,
        ended: Ended,
        marked: bool,
        subagents: &Subagents,
        out: &mut Vec<AcpEvent>,
    ) {
        self.ended = Some(ended.clone());
        let state = ended.state;
        let plain = self.tag(subagents);
        let tag = if marked { plain.clone().marked(Mark::Ended(ended.clone())) } else { plain.clone() };
        match &mut self.shown_as {
            ShownAs::Text { kind, shown: true } => {
                if marked {
                    out.push(empty_chunk(*kind, id, tag));
                }
            }
            ShownAs::Tool { status } => {
                let want = status_of(state);
                let is_news = std::mem::replace(status, want) != want;
                if is_news || marked {
                    let patch = Tool { status: is_news.then_some(want), ..Tool::default() };
                    self.push(SessionUpdate::ToolCallUpdate(tool::update(id.as_str(), &patch, &tag)), out);
                }
            }
            ShownAs::Plan { text, unsent } => {
                if std::mem::take(unsent) || marked {
                    out.push(show_plan(text, &tag));
                }
            }
            ShownAs::Note(kind) => out.push(note(id, *kind, plain, ItemNews::Ended(ended))),
            ShownAs::Text { shown: false, .. } | ShownAs::Echo => {}
        }
    }

    /// The item is not part of the conversation any more.
    pub(super) fn void(self, id: &ItemId, void: Void, subagents: &Subagents, out: &mut Vec<AcpEvent>) {
        let tag = self.tag(subagents);
        let marked = tag.clone().marked(Mark::Void(void));
        match self.shown_as {
            ShownAs::Text { kind, shown: true } => out.push(empty_chunk(kind, id, marked)),
            ShownAs::Tool { status } => {
                // No call may stay open for a client. A void one never ran, or its result does not count.
                let status = (status < ToolStatus::Completed).then_some(ToolStatus::Failed);
                let patch = Tool { status, ..Tool::default() };
                self.push(SessionUpdate::ToolCallUpdate(tool::update(id.as_str(), &patch, &marked)), out);
            }
            ShownAs::Plan { .. } => out.push(show_plan("", &marked)),
            ShownAs::Note(kind) => out.push(note(id, kind, tag, ItemNews::Void(void))),
            ShownAs::Text { shown: false, .. } | ShownAs::Echo => {}
        }
    }

    fn tag(&self, subagents: &Subagents) -> Tag {
        Tag { synthetic: self.synthetic, ..subagents.tag(self.parent.as_ref()) }
    }

    fn push(&self, update: SessionUpdate, out: &mut Vec<AcpEvent>) {
        out.push(AcpEvent::Update { update: Box::new(update), parent: self.parent.clone() });
    }
}

impl Ended {
    /// True when no mark is needed: the call's status says it all, or the message is whole.
    fn is_plain(&self, is_tool: bool) -> bool {
        let Self { state, reason, incomplete, caused_by } = self;
        let is_stated = *state == ItemState::Completed || (is_tool && *state == ItemState::Failed);
        is_stated && !incomplete && reason.is_none() && caused_by.is_none()
    }
}

/// A call with an unknown end is not shown as completed. The mark has its real state.
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
