//! One item of a turn. Ending an open item consumes it; an ended one can only be revised.

use crate::event::{Body, Draft, Field, ItemKind, ItemState, Role, Tool, ToolStatus};
use crate::fold::{self, ItemStage};
use crate::id::{AttemptId, ItemId, Key, TurnId};
use crate::signal::Finality;
use std::hash::{DefaultHasher, Hasher};

/// Writes drafts about items, with the envelope of their turn.
pub(crate) struct ItemWriter<'a> {
    /// The turn; `None` for background work.
    pub(crate) turn: Option<&'a TurnId>,
    /// That turn has ended: what comes now is late.
    pub(crate) late: bool,
    pub(crate) out: &'a mut Vec<Draft>,
}

impl ItemWriter<'_> {
    pub(crate) fn item(&mut self, item: &ItemId, body: Body) {
        self.push(item, |draft| draft, body);
    }

    fn push(&mut self, item: &ItemId, envelope: impl FnOnce(Draft) -> Draft, body: Body) {
        let draft = Draft { turn: self.turn.cloned(), item: Some(item.clone()), ..Draft::new(body) };
        self.out.push(envelope(draft));
    }
}

/// The members of an item that are known when it starts.
pub(crate) struct Head {
    pub(crate) kind: ItemKind,
    pub(crate) role: Option<Role>,
    pub(crate) synthetic: bool,
    pub(crate) tool: Option<Tool>,
    pub(crate) attempt: Option<AttemptId>,
    pub(crate) parent: Option<ItemId>,
    /// A parent that was named and is not known yet.
    pub(crate) awaited_parent: Option<Key>,
}

/// How an item ends, for the log.
pub(crate) struct End {
    pub(crate) state: ItemState,
    pub(crate) reason: Option<String>,
    pub(crate) caused_by: Option<String>,
    /// The agent did not report that the text is complete.
    pub(crate) cut: bool,
}

impl End {
    /// An end that the agent reported.
    pub(crate) fn stated(state: ItemState, reason: Option<String>) -> Self {
        Self { state, reason, caused_by: None, cut: false }
    }
}

/// An item that can still grow.
pub(crate) struct OpenItem {
    pub(crate) id: ItemId,
    pub(crate) kind: ItemKind,
    pub(crate) attempt: Option<AttemptId>,
    pub(crate) parent: Option<ItemId>,
    pub(crate) awaited_parent: Option<Key>,
    text: String,
    input: String,
    output: String,
    tool: Tool,
    tainted: Tainted,
}

/// Texts that may have lost bytes, and whose final text has not come yet.
#[derive(Clone, Copy, Default)]
struct Tainted {
    text: bool,
    input: bool,
    output: bool,
}

/// An item whose end is in the log. A fingerprint of its text is kept, to compare late texts with.
pub(crate) struct EndedItem {
    pub(crate) id: ItemId,
    kind: ItemKind,
    state: ItemState,
    incomplete: bool,
    text: Fingerprint,
    tool: Tool,
    /// A delta came after the end. This is reported once.
    late_noted: bool,
}

/// A fingerprint of a text, which is enough to tell whether another text is the same. The texts of ended
/// items would be most of a session's memory. A collision (1 in 2^128) would hide one revision.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Fingerprint {
    length: usize,
    hashes: [u64; 2],
}

impl Fingerprint {
    fn of(text: &str) -> Self {
        let hash = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u8(salt);
            hasher.write(text.as_bytes());
            hasher.finish()
        };
        Self { length: text.len(), hashes: [hash(0), hash(1)] }
    }
}

// === impl OpenItem ===

impl OpenItem {
    pub(crate) fn start(id: ItemId, key: &Key, head: Head, log: &mut ItemWriter<'_>) -> Self {
        let Head { kind, role, synthetic, tool, attempt, parent, awaited_parent } = head;
        // A tool has its call; everything else has a text, which is still empty.
        let text = (kind != ItemKind::Tool).then(String::new);
        let body = Body::ItemStarted {
            kind,
            role,
            synthetic,
            text,
            tool: tool.clone().map(Box::new),
            native_id: Some(key.as_str().to_owned()),
        };
        log.push(&id, |draft| Draft { attempt: attempt.clone(), parent: parent.clone(), ..draft }, body);
        Self {
            id,
            kind,
            attempt,
            parent,
            awaited_parent,
            text: String::new(),
            input: String::new(),
            output: String::new(),
            tool: tool.unwrap_or_default(),
            tainted: Tainted::default(),
        }
    }

    /// An item that was open when the last owner of the session went away.
    pub(crate) fn resumed(item: &fold::Item) -> Self {
        let mut resumed = Self {
            id: item.id.clone(),
            kind: item.kind,
            attempt: item.attempt.clone(),
            parent: item.parent.clone(),
            awaited_parent: None,
            text: item.text.clone().unwrap_or_default(),
            input: item.input.clone().unwrap_or_default(),
            output: item.output.clone().unwrap_or_default(),
            tool: item.tool.as_deref().cloned().unwrap_or_default(),
            tainted: Tainted::default(),
        };
        // What the agent sent between the two owners is missing.
        resumed.taint();
        resumed
    }

    /// The ended item, for one whose end is in the log already.
    pub(crate) fn into_ended(self, item: &fold::Item) -> EndedItem {
        let state = match item.state {
            ItemStage::Completed => ItemState::Completed,
            ItemStage::Failed => ItemState::Failed,
            ItemStage::Abandoned => ItemState::Abandoned,
            ItemStage::Streaming | ItemStage::Unknown => ItemState::Unknown,
        };
        let Self { id, kind, text, tool, .. } = self;
        let (text, incomplete) = (Fingerprint::of(&text), item.incomplete);
        EndedItem { id, kind, state, incomplete, text, tool, late_noted: false }
    }

    /// Marks texts that may have lost bytes. Of a call these are only texts still being streamed: complete
    /// arguments stay complete.
    pub(crate) fn taint(&mut self) {
        if self.kind == ItemKind::Tool {
            let is_written =
                self.tool.input.is_none() && self.tool.status.is_none_or(|it| it == ToolStatus::Pending);
            self.tainted.input = is_written || !self.input.is_empty();
            self.tainted.output = !self.output.is_empty();
        } else {
            self.tainted.text = true;
        }
    }

    /// A tool that may already have had an effect must not be voided with its attempt.
    pub(crate) fn has_effects(&self) -> bool {
        self.kind == ItemKind::Tool && self.tool.status.is_some_and(|status| status != ToolStatus::Pending)
    }

    pub(crate) fn delta(&mut self, field: Field, text: String, log: &mut ItemWriter<'_>) {
        if text.is_empty() || !self.has(field) {
            return;
        }
        self.field(field).push_str(&text);
        log.item(&self.id, Body::ItemDelta { field, text });
    }

    /// Compares a snapshot with the streamed text by content, never by length (L6). A continuation is
    /// appended, a contradiction replaces the text, and an older snapshot changes nothing.
    pub(crate) fn snapshot(
        &mut self,
        field: Field,
        text: String,
        finality: Finality,
        log: &mut ItemWriter<'_>,
    ) {
        if !self.has(field) {
            return;
        }
        if finality == Finality::Final {
            *self.tainted.field(field) = false;
        }
        let have = self.field(field);
        if text == *have {
            return;
        }
        if let Some(rest) = text.strip_prefix(have.as_str()) {
            let rest = rest.to_owned();
            *have = text;
            log.item(&self.id, Body::ItemDelta { field, text: rest });
        } else if finality == Finality::Final || !have.starts_with(&text) {
            have.clone_from(&text);
            log.item(&self.id, Body::ItemReplaced { field, text });
        }
    }

    /// Applies changes of the call. An older update changes nothing.
    pub(crate) fn update(&mut self, tool: Tool, log: &mut ItemWriter<'_>) {
        if tool.status.is_some_and(|new| self.tool.status.is_some_and(|old| new < old)) {
            return;
        }
        if tool.input.is_some() {
            self.tainted.input = false;
            self.input.clear();
        }
        if tool.output.is_some() || tool.content.is_some() {
            self.tainted.output = false;
        }
        let changes = self.tool.changes(tool);
        if changes.is_empty() {
            return;
        }
        self.tool.merge(&changes);
        log.item(&self.id, Body::ItemUpdated { tool: Some(Box::new(changes)) });
    }

    pub(crate) fn adopt(&mut self, parent: &ItemId, log: &mut ItemWriter<'_>) {
        self.awaited_parent = None;
        if self.parent.is_none() {
            self.parent = Some(parent.clone());
            let body = Body::ItemUpdated { tool: None };
            log.push(&self.id, |draft| Draft { parent: Some(parent.clone()), ..draft }, body);
        }
    }

    /// The end that the tool's own status states, if it states one.
    pub(crate) fn stated_end(&self) -> Option<End> {
        match self.tool.status? {
            ToolStatus::Pending | ToolStatus::InProgress => None,
            ToolStatus::Completed => Some(End::stated(ItemState::Completed, None)),
            ToolStatus::Failed => Some(End::stated(ItemState::Failed, None)),
        }
    }

    /// How the item ends if its turn ends and the agent did not report its end.
    pub(crate) fn unstated_end(&self, effects_unknown: bool, caused_by: Option<String>) -> End {
        let may_have_run = self.kind == ItemKind::Tool && (effects_unknown || self.has_effects());
        let state = if may_have_run { ItemState::Unknown } else { ItemState::Abandoned };
        End { state, reason: None, caused_by, cut: true }
    }

    pub(crate) fn end(self, end: End, log: &mut ItemWriter<'_>) -> EndedItem {
        let End { mut state, mut reason, caused_by, cut } = end;
        let Tainted { text, input, output } = self.tainted;
        let is_tool = self.kind == ItemKind::Tool;
        // The state of a tool shows that it was cut off. It is `incomplete` only if bytes may be missing.
        let incomplete = text || input || output || (cut && !is_tool);
        // L7: an item that may have lost bytes is never completed. A tool is, because the agent reports
        // that the call ran, not that its text is complete.
        if incomplete && state == ItemState::Completed && !is_tool {
            state = ItemState::Abandoned;
            reason = Some("gap".to_owned());
        }
        log.item(&self.id, Body::ItemEnded { state, reason, incomplete, caused_by });
        let Self { id, kind, text, tool, .. } = self;
        EndedItem { id, kind, state, incomplete, text: Fingerprint::of(&text), tool, late_noted: false }
    }

    /// Only a tool has arguments and an output.
    fn has(&self, field: Field) -> bool {
        field == Field::Text || self.kind == ItemKind::Tool
    }

    pub(crate) fn text(&self, field: Field) -> &str {
        match field {
            Field::Text => &self.text,
            Field::Input => &self.input,
            Field::Output => &self.output,
        }
    }

    fn field(&mut self, field: Field) -> &mut String {
        match field {
            Field::Text => &mut self.text,
            Field::Input => &mut self.input,
            Field::Output => &mut self.output,
        }
    }
}

impl Tainted {
    fn field(&mut self, field: Field) -> &mut bool {
        match field {
            Field::Text => &mut self.text,
            Field::Input => &mut self.input,
            Field::Output => &mut self.output,
        }
    }
}

// === impl EndedItem ===

impl EndedItem {
    /// A final snapshot after the end. It completes an item that was cut off.
    pub(crate) fn revise_text(&mut self, text: String, log: &mut ItemWriter<'_>) {
        let state = (self.state == ItemState::Abandoned).then_some(ItemState::Completed);
        let print = Fingerprint::of(&text);
        // L7: a final text shows that no bytes are missing, even if the text is the same.
        if print == self.text && state.is_none() && !self.incomplete {
            return;
        }
        self.text = print;
        self.state = state.unwrap_or(self.state);
        self.incomplete = false;
        log.item(&self.id, Body::ItemRevised { late: log.late, state, text: Some(text), tool: None });
    }

    /// A tool's result after the end of its item, for example because its turn ended.
    pub(crate) fn revise_tool(&mut self, tool: Tool, log: &mut ItemWriter<'_>) {
        let stated = match tool.status {
            // Older than the end, so it changes nothing.
            Some(ToolStatus::Pending | ToolStatus::InProgress) => return,
            Some(ToolStatus::Completed) => Some(ItemState::Completed),
            Some(ToolStatus::Failed) => Some(ItemState::Failed),
            None => None,
        };
        let state = stated.filter(|state| *state != self.state);
        let changes = self.tool.changes(tool);
        if state.is_none() && changes.is_empty() {
            return;
        }
        self.state = state.unwrap_or(self.state);
        self.tool.merge(&changes);
        let tool = (!changes.is_empty()).then(|| Box::new(changes));
        log.item(&self.id, Body::ItemRevised { late: log.late, state, text: None, tool });
    }

    /// The agent reports an end after the machine wrote one.
    pub(crate) fn revise_state(&mut self, state: ItemState, log: &mut ItemWriter<'_>) {
        // An end that the agent reported stays. Only ends that the machine assumed are corrected.
        let is_stated = matches!(self.state, ItemState::Completed | ItemState::Failed);
        // L7: only the final text shows that no bytes are missing.
        let would_hide_loss = self.incomplete && state == ItemState::Completed && !self.is_tool();
        if is_stated || would_hide_loss || state == self.state {
            return;
        }
        self.state = state;
        let body = Body::ItemRevised { late: log.late, state: Some(state), text: None, tool: None };
        log.item(&self.id, body);
    }

    pub(crate) fn is_tool(&self) -> bool {
        self.kind == ItemKind::Tool
    }

    pub(crate) fn is_message(&self) -> bool {
        self.kind == ItemKind::Message
    }

    pub(crate) fn state(&self) -> ItemState {
        self.state
    }

    /// True the first time: late deltas are reported once.
    pub(crate) fn note_late(&mut self) -> bool {
        !std::mem::replace(&mut self.late_noted, true)
    }
}
