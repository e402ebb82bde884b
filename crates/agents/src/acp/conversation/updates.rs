//! What the agent shows of its work: messages, thoughts and tool calls.

use super::Conversation;
use super::tool_keys::Mention;
use crate::acp::{tools, wire};
use serde_json::{Map, Value};
use turnstream_adapter::LoggedKind;
use turnstream_json::{Piece, Seam};
use turnstream_model::event::{Field, ItemKind, ItemState, Role, Tool, ToolStatus};
use turnstream_model::id::Key;
use turnstream_model::signal::{Finality, ItemSeen, Signal};

/// The longest text of a message that is kept for a late revision.
const MOST_KEPT: usize = 1 << 20;
/// Ended texts that are kept.
const MOST_ENDED: usize = 8;

/// A message or a thought.
pub(super) struct TextItem {
    pub(super) key: Key,
    kind: TextKind,
    /// The agent's id of its message.
    pub(super) message: Option<String>,
    pub(super) text: String,
    /// The text was too long to be kept.
    cut: bool,
    seam: Seam,
    /// Its turn has ended.
    pub(super) is_over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextKind {
    Message,
    Thought,
    User,
}

impl TextKind {
    fn of(update: &str) -> Option<Self> {
        match update {
            "agent_message_chunk" => Some(Self::Message),
            "agent_thought_chunk" => Some(Self::Thought),
            "user_message_chunk" => Some(Self::User),
            _ => None,
        }
    }

    /// What the log calls it.
    pub(super) fn logged(self) -> LoggedKind {
        match self {
            Self::Message => LoggedKind::Message,
            Self::Thought => LoggedKind::Thought,
            Self::User => LoggedKind::Prompt,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Message => "text",
            Self::Thought => "thought",
            Self::User => "user",
        }
    }
}

impl TextItem {
    fn is(&self, kind: TextKind, message: Option<&str>) -> bool {
        self.kind == kind && self.message.as_deref() == message
    }

    fn keep(&mut self, text: &str) {
        if self.text.len() + text.len() <= MOST_KEPT {
            self.text.push_str(text);
        } else {
            self.cut = true;
        }
    }
}

impl Conversation {
    /// A piece of a message or a thought.
    pub(super) fn chunk(&mut self, update: &str, message: Option<&str>, piece: Piece<'_>) {
        let Some(kind) = TextKind::of(update) else {
            return self.unknown(&format!("session/update {update}"), Value::from(&*piece.into_text()));
        };
        let is_echo = kind == TextKind::User && !self.history.is_replay() && self.is_echo(&piece);
        if is_echo {
            return;
        }
        if let Some(piece) = self.new_text(kind, message, piece) {
            self.grow_text(kind, message, piece);
        }
    }

    /// Adds a piece to the text that it belongs to.
    pub(super) fn grow_text(&mut self, kind: TextKind, message: Option<&str>, piece: Piece<'_>) {
        if let Some(item) = self.text.as_mut().filter(|item| item.is(kind, message)) {
            let text = item.seam.join(piece);
            item.keep(&text);
            let (key, field, text) = (item.key.clone(), Field::Text, text.into_owned());
            if !text.is_empty() {
                self.signal(Signal::TextDelta { key, field, text });
            }
            return;
        }
        if self.is_late(kind, message) {
            return self.late_chunk(kind, message, piece);
        }
        // The first piece of a message may be empty (capture claude_multi_step).
        if piece.is_empty() {
            return;
        }
        self.end_text();
        self.begin_text(kind, message, piece);
    }

    /// Whether a piece belongs to a text of a turn that has ended: nothing else is open, or that turn was
    /// cancelled and its text cut off. An id that comes again in the next turn is that of another message.
    fn is_late(&self, kind: TextKind, message: Option<&str>) -> bool {
        let mut over = self.ended_texts.iter().filter(|item| item.is_over);
        match message {
            Some(_) if self.prompt.is_none() || self.was_cancelled => over.any(|item| item.is(kind, message)),
            Some(_) => false,
            None => {
                let was_cut = self.prompt.is_none() && self.was_cancelled;
                was_cut && over.next_back().is_some_and(|last| last.is(kind, None))
            }
        }
    }

    /// A text goes on after its turn has ended: its whole text is a late revision.
    fn late_chunk(&mut self, kind: TextKind, message: Option<&str>, piece: Piece<'_>) {
        let Some(item) = self.ended_texts.iter_mut().rev().find(|item| item.is(kind, message)) else {
            return;
        };
        let text = item.seam.join(piece);
        item.keep(&text);
        if !item.cut && !text.is_empty() {
            let (key, text) = (item.key.clone(), item.text.clone());
            let (field, finality) = (Field::Text, Finality::Final);
            self.signal(Signal::TextSnapshot { key, field, text, finality });
        }
    }

    fn begin_text(&mut self, kind: TextKind, message: Option<&str>, piece: Piece<'_>) {
        let name = match message {
            Some(message) => {
                // A tool call may stand between two texts of one message.
                self.named += 1;
                format!("{}:{message}:{}:{}", self.settings.epoch, kind.word(), self.named)
            }
            None => self.fresh_name(kind.word()),
        };
        let key = Key::from(name);
        let (item_kind, role) = match kind {
            TextKind::Message => (ItemKind::Message, Some(Role::Assistant)),
            TextKind::Thought => (ItemKind::Reasoning, None),
            TextKind::User => (ItemKind::Message, Some(Role::User)),
        };
        let synthetic = kind == TextKind::User;
        let seen = ItemSeen { key: key.clone(), kind: item_kind, role, parent: None, synthetic };
        self.signal(Signal::ItemSeen(seen));
        let mut item = TextItem {
            key: key.clone(),
            kind,
            message: message.map(str::to_owned),
            text: String::new(),
            cut: false,
            seam: Seam::default(),
            is_over: false,
        };
        let text = item.seam.join(piece).into_owned();
        item.keep(&text);
        self.text = Some(item);
        if !text.is_empty() {
            self.signal(Signal::TextDelta { key, field: Field::Text, text });
        }
    }

    /// The text that grew is complete: something else follows.
    pub(super) fn end_text(&mut self) {
        self.end_history();
        self.flush_half_character();
        let Some(item) = self.text.take() else { return };
        let (key, state, reason) = (item.key.clone(), ItemState::Completed, None);
        self.signal(Signal::ItemEnded { key, state, reason });
        self.keep_ended(item);
    }

    pub(super) fn keep_ended(&mut self, item: TextItem) {
        self.ended_texts.push_back(item);
        while self.ended_texts.len() > MOST_ENDED {
            self.ended_texts.pop_front();
        }
    }

    /// Half a character at the end of a text that does not go on.
    pub(super) fn flush_half_character(&mut self) {
        let half = self.text.as_mut().and_then(|item| Some((item.key.clone(), item.seam.end()?)));
        if let Some((key, half)) = half {
            self.signal(Signal::TextDelta { key, field: Field::Text, text: half.to_string() });
        }
    }

    /// A block of a message that is no text: an image, a file or a link.
    pub(super) fn block(&mut self, update: &str, block: Value) {
        if self.history.is_replay() || update == "user_message_chunk" {
            return;
        }
        self.end_text();
        let key = Key::from(self.fresh_name("block"));
        let (kind, role, parent, synthetic) = (ItemKind::File, Some(Role::Assistant), None, false);
        self.signal(Signal::ItemSeen(ItemSeen { key: key.clone(), kind, role, parent, synthetic }));
        self.final_text(key.clone(), block.to_string());
        self.signal(Signal::ItemEnded { key, state: ItemState::Completed, reason: None });
    }

    pub(super) fn tool_call(&mut self, update: &str, mut members: Map<String, Value>) {
        members.remove("sessionUpdate");
        let Some(id) = wire::text(&members, "toolCallId").map(str::to_owned) else {
            return self.unknown(&format!("session/update {update} without an id"), Value::Object(members));
        };
        let first = update == "tool_call";
        if self.is_old_call(&id, update, &members) {
            return;
        }
        let parent = tools::parent(&members).map(|parent| self.tool_key(parent, Mention::Update));
        // Calls of a subagent come between the pieces of other texts.
        if first && parent.is_none() {
            self.end_text();
        }
        let piece = tools::take_output(&mut members);
        let mut tool = tools::tool(members, first.then_some(ToolStatus::Pending));
        let key = self.tool_key(&id, if first { Mention::Announcement } else { Mention::Update });
        if let Some(piece) = piece {
            let output = self.outputs.entry(id.clone()).or_default();
            if output.len() + piece.len() <= MOST_KEPT {
                output.push_str(&piece);
            }
            // The item must be known before its output.
            let (key, parent) = (key.clone(), parent.clone());
            self.signal(Signal::ToolSeen { key: key.clone(), parent, tool: Tool::default() });
            self.signal(Signal::TextDelta { key, field: Field::Output, text: piece });
        }
        match tool.status {
            Some(ToolStatus::Completed | ToolStatus::Failed) => {
                self.running_tools.remove(&id);
                tools::add_output(&mut tool, self.outputs.remove(&id));
            }
            Some(ToolStatus::Pending | ToolStatus::InProgress) => {
                self.running_tools.insert(id);
            }
            None => {}
        }
        self.signal(Signal::ToolSeen { key, parent, tool });
    }

    pub(super) fn begin_plan(&mut self) -> Key {
        let key = Key::from(self.fresh_name("plan"));
        let (kind, role, parent, synthetic) = (ItemKind::Plan, None, None, false);
        self.signal(Signal::ItemSeen(ItemSeen { key: key.clone(), kind, role, parent, synthetic }));
        self.plan = Some(key.clone());
        key
    }

    pub(super) fn final_text(&mut self, key: Key, text: String) {
        let (field, finality) = (Field::Text, Finality::Final);
        self.signal(Signal::TextSnapshot { key, field, text, finality });
    }

    /// The agent repeats the prompt.
    fn is_echo(&self, piece: &Piece<'_>) -> bool {
        self.prompt.as_ref().is_none_or(|prompt| prompt.text.contains(&**piece))
    }
}
