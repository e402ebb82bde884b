//! Model calls and their content. Content comes twice: as deltas, and whole in an `assistant` line with one
//! block. The line wins, because the agent may change a call's arguments (capture c_multi_step).

use super::{Conversation, KnownCall};
use crate::claude::outcome::AgentMessageError;
use crate::claude::tools::Call;
use crate::claude::wire::{Block, Content, Delta, Line, Message, StreamEvent, TokenUsage};
use turnstream_json::{Piece, Seam};
use turnstream_model::event::{Field, ItemKind, ItemState, Role, ToolStatus};
use turnstream_model::id::Key;
use turnstream_model::signal::{Finality, ItemSeen, Signal};

/// The model name of messages that the agent wrote itself.
const SYNTHETIC: &str = "<synthetic>";

/// The last message of the main thread or of a subagent.
pub(super) struct Thread {
    id: String,
    blocks: Vec<OpenBlock>,
    /// Its deltas are shown. Otherwise its blocks come whole.
    is_streamed: bool,
    /// The model call is over.
    over: bool,
    /// The agent repeats the call.
    discarded: bool,
    usage: TokenUsage,
    stop_reason: Option<String>,
}

struct OpenBlock {
    index: usize,
    key: Key,
    kind: BlockKind,
    seam: Seam,
    /// The whole block was shown.
    whole: bool,
    ended: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Text,
    Reasoning,
    Call,
    /// Nothing of it is shown.
    Hidden,
}

impl Thread {
    fn new(message: Message, is_streamed: bool) -> Self {
        Self {
            id: message.id,
            blocks: Vec::new(),
            is_streamed,
            over: false,
            discarded: false,
            usage: message.usage.unwrap_or_default(),
            stop_reason: message.stop_reason,
        }
    }

    fn block(&mut self, index: usize) -> Option<&mut OpenBlock> {
        self.blocks.iter_mut().find(|block| block.index == index)
    }

    /// The place of a block that comes whole: that of the one that is being streamed, or the next.
    fn place_of_whole(&self, kind: BlockKind) -> usize {
        let streamed = self.blocks.iter().find(|block| block.kind == kind && !block.whole && !block.ended);
        let next = || self.blocks.iter().map(|block| block.index + 1).max().unwrap_or(0);
        streamed.map_or_else(next, |block| block.index)
    }

    /// Adds a block under its key, which the transcript gives too.
    fn add(&mut self, index: usize, kind: BlockKind, call: Option<&str>) -> Key {
        let key = call.map_or_else(|| Key::from(format!("{}:{index}", self.id)), Key::from);
        let (seam, whole, ended) = (Seam::default(), false, false);
        self.blocks.push(OpenBlock { index, key: key.clone(), kind, seam, whole, ended });
        key
    }
}

fn kind_of(block: &Block) -> BlockKind {
    match block.kind.as_str() {
        "text" => BlockKind::Text,
        "thinking" => BlockKind::Reasoning,
        _ if block.is_call() => BlockKind::Call,
        _ => BlockKind::Hidden,
    }
}

impl Conversation {
    pub(super) fn stream_event(&mut self, event: StreamEvent<'_>, parent: Option<String>) {
        match &*event.kind {
            "content_block_delta" => {
                if let Some(delta) = event.delta {
                    self.delta(event.index, delta, parent);
                }
            }
            "message_start" => {
                if let Some(message) = event.message {
                    self.begin_message(message, true, &parent);
                }
            }
            "content_block_start" => {
                if let Some(block) = event.content_block {
                    self.begin_block(event.index, &block, parent);
                }
            }
            "content_block_stop" => {
                let block = self.threads.get_mut(&parent).and_then(|thread| thread.block(event.index));
                if let Some(block) = block.filter(|block| !block.ended) {
                    block.ended = true;
                    let ended = ended_text(block);
                    self.observed.extend(ended.map(turnstream_adapter::Observed::Signal));
                }
            }
            "message_delta" => {
                let stop_reason = event.delta.and_then(|delta| delta.stop_reason);
                self.end_call(stop_reason, event.usage, &parent);
            }
            "message_stop" => self.end_blocks(&parent),
            // `ping` and `error`. The agent tells what it does about an error.
            _ => {}
        }
    }

    // === messages ===

    /// A model call begins. If the last one did not end and showed no whole block, it is repeated. The agent
    /// then turns to a request without a stream, and does not tell (capture f_midstream_overloaded).
    fn begin_message(&mut self, message: Message, is_streamed: bool, parent: &Option<String>) {
        if message.id.is_empty() || self.threads.get(parent).is_some_and(|last| last.id == message.id) {
            return;
        }
        if parent.is_none() {
            self.begin_turn();
            self.report_error();
            let is_orphan = self.threads.get(parent).is_some_and(|last| {
                last.is_streamed && !last.over && !last.blocks.iter().any(|block| block.whole)
            });
            if is_orphan {
                self.repeat_call();
            } else {
                self.end_main_message();
            }
            let (key, model) = (Key::from(message.id.as_str()), message.model.clone());
            self.signal(Signal::AttemptBegan { key, model });
        }
        self.threads.insert(parent.clone(), Thread::new(message, is_streamed));
    }

    fn repeat_call(&mut self) {
        let was_announced = self.threads.get(&None).is_some_and(|last| last.discarded);
        if !was_announced {
            let message = Some("the stream broke; the request is repeated".to_owned());
            self.signal(Signal::Retrying { attempt: None, reason: None, until: None, message });
        }
    }

    /// The agent announces that it repeats the call.
    pub(super) fn discard_call(&mut self) {
        if let Some(last) = self.threads.get_mut(&None) {
            last.discarded = true;
        }
    }

    fn end_call(&mut self, stop_reason: Option<String>, usage: Option<TokenUsage>, parent: &Option<String>) {
        self.end_blocks(parent);
        let Some(thread) = self.threads.get_mut(parent).filter(|thread| !thread.over) else { return };
        thread.over = true;
        if parent.is_some() {
            return;
        }
        let key = Key::from(thread.id.as_str());
        // A broken call has no stop reason, and its numbers are those of its beginning.
        let usage = usage.filter(|_| stop_reason.is_some()).map(|usage| usage.or(thread.usage));
        self.context_used = usage.and_then(TokenUsage::context).or(self.context_used);
        let usage = usage.map(TokenUsage::into_usage);
        self.signal(Signal::AttemptEnded { key, finish: stop_reason, usage, cost: None });
    }

    /// The message of the main thread is complete: its turn ended, or another one follows.
    pub(super) fn end_main_message(&mut self) {
        self.end_blocks(&None);
        let Some(thread) = self.threads.get_mut(&None) else { return };
        // A message that came whole has its numbers only if it has its stop reason.
        if !thread.is_streamed && thread.stop_reason.is_some() {
            let (stop_reason, usage) = (thread.stop_reason.take(), thread.usage);
            self.end_call(stop_reason, Some(usage), &None);
        }
        self.threads.remove(&None);
    }

    /// The turn was interrupted: blocks whose end was not shown stay cut off.
    pub(super) fn cut_main_message(&mut self) {
        self.flush_half_characters();
        self.threads.remove(&None);
    }

    /// Ends the blocks that were shown whole and whose end was missed.
    fn end_blocks(&mut self, parent: &Option<String>) {
        let Some(thread) = self.threads.get_mut(parent) else { return };
        let mut ended = Vec::new();
        for block in thread.blocks.iter_mut().filter(|block| block.whole && !block.ended) {
            block.ended = true;
            ended.extend(ended_text(block));
        }
        ended.into_iter().for_each(|signal| self.signal(signal));
    }

    /// Half a character at the end of a text that does not go on.
    pub(super) fn flush_half_characters(&mut self) {
        let open = self.threads.get_mut(&None).into_iter().flat_map(|thread| &mut thread.blocks);
        let mut lost = Vec::new();
        for block in open.filter(|block| !block.whole && !block.ended) {
            let field = if block.kind == BlockKind::Call { Field::Input } else { Field::Text };
            let half = block.seam.end();
            lost.extend(half.map(|half| (block.key.clone(), field, half)));
        }
        for (key, field, half) in lost {
            self.signal(Signal::TextDelta { key, field, text: half.to_string() });
        }
    }

    // === blocks ===

    fn begin_block(&mut self, index: usize, block: &Block, parent: Option<String>) {
        let Some(thread) = self.threads.get_mut(&parent) else { return };
        if thread.block(index).is_some() {
            return;
        }
        let kind = kind_of(block);
        let key = thread.add(index, kind, block.id.as_deref().filter(|_| kind == BlockKind::Call));
        match kind {
            BlockKind::Text => self.see_text(key, ItemKind::Message, parent),
            BlockKind::Reasoning => self.see_text(key, ItemKind::Reasoning, parent),
            BlockKind::Call => {
                let call = Call::new(block.name.as_deref().unwrap_or_default(), None);
                self.see_call(&key, call, ToolStatus::Pending, parent);
            }
            BlockKind::Hidden => {}
        }
    }

    fn delta(&mut self, index: usize, delta: Delta<'_>, parent: Option<String>) {
        let (kind, field, piece): (_, _, Option<Piece<'_>>) = match &*delta.kind {
            "text_delta" => (BlockKind::Text, Field::Text, delta.text),
            "thinking_delta" => (BlockKind::Reasoning, Field::Text, delta.thinking),
            "input_json_delta" => (BlockKind::Call, Field::Input, delta.partial_json),
            // Signatures and citations are not shown.
            _ => return,
        };
        let Some(piece) = piece else { return };
        let Some(thread) = self.threads.get_mut(&parent) else { return };
        if thread.block(index).is_none() && kind != BlockKind::Call {
            // Its beginning was missed.
            let name = if kind == BlockKind::Text { "text" } else { "thinking" };
            let block = Block { kind: name.to_owned(), ..Block::default() };
            self.begin_block(index, &block, parent.clone());
        }
        let block = self.threads.get_mut(&parent).and_then(|thread| thread.block(index));
        let goes_on = |block: &&mut OpenBlock| block.kind == kind && !block.whole && !block.ended;
        let Some(block) = block.filter(goes_on) else { return };
        let text = block.seam.join(piece).into_owned();
        if !text.is_empty() {
            let key = block.key.clone();
            self.signal(Signal::TextDelta { key, field, text });
        }
    }

    /// A line with one whole block of a message.
    pub(super) fn assistant(&mut self, line: Line<'_>) {
        let Some(mut message) = line.message else { return };
        let parent = line.parent_tool_use_id;
        if line.error.is_some() || message.model.as_deref() == Some(SYNTHETIC) {
            if parent.is_none() {
                self.error_message(line.error, line.request_id, &message);
            }
            return;
        }
        let content = std::mem::take(&mut message.content);
        let stop_reason = message.stop_reason.clone();
        self.begin_message(message, false, &parent);
        if let Some(thread) = self.threads.get_mut(&parent)
            && stop_reason.is_some()
        {
            thread.stop_reason = stop_reason;
        }
        match content {
            Content::Text(text) => {
                let block = Block { kind: "text".to_owned(), text: Some(text), ..Block::default() };
                self.whole_block(block, &parent);
            }
            Content::Blocks(blocks) => blocks.into_iter().for_each(|block| self.whole_block(block, &parent)),
        }
    }

    /// A message that the agent wrote itself. It is no answer: with an error it explains a failed call.
    fn error_message(&mut self, word: Option<String>, request_id: Option<String>, message: &Message) {
        let text = match &message.content {
            Content::Text(text) => text.clone(),
            Content::Blocks(blocks) => blocks.iter().filter_map(|block| block.text.as_deref()).collect(),
        };
        if word.is_some() {
            self.begin_turn();
            self.report_error();
            if let Some(turn) = &mut self.turn {
                turn.error = Some(AgentMessageError { word, message: text, request_id });
            }
        }
    }

    fn whole_block(&mut self, block: Block, parent: &Option<String>) {
        if block.is_result() {
            // The result of a tool that the provider runs.
            return self.tool_result(&block, None, parent.as_deref());
        }
        let kind = kind_of(&block);
        let Some(thread) = self.threads.get_mut(parent) else { return };
        let known_call = block.id.as_deref().filter(|_| kind == BlockKind::Call);
        let by_id = known_call.and_then(|id| thread.blocks.iter().find(|known| known.key.as_str() == id));
        let index = by_id.map(|known| known.index).unwrap_or_else(|| thread.place_of_whole(kind));
        let is_new = thread.block(index).is_none();
        if is_new {
            thread.add(index, kind, known_call);
        }
        let is_streamed = thread.is_streamed;
        let Some(known) = thread.block(index) else { return };
        known.whole = true;
        known.seam = Seam::default();
        known.ended |= !is_streamed || is_new;
        let (key, ended) = (known.key.clone(), known.ended);
        match kind {
            BlockKind::Text => self.whole_text(key, ItemKind::Message, block.text, is_new, ended, parent),
            BlockKind::Reasoning => {
                self.whole_text(key, ItemKind::Reasoning, block.thinking, is_new, ended, parent);
            }
            BlockKind::Call => {
                let call = Call::new(block.name.as_deref().unwrap_or_default(), block.input);
                // The agent does not tell when it starts a call: it may be at once.
                self.see_call(&key, call, ToolStatus::InProgress, parent.clone());
            }
            BlockKind::Hidden if block.kind == "redacted_thinking" => {}
            BlockKind::Hidden => self.unknown(format!("content block {}", block.kind)),
        }
    }

    fn whole_text(
        &mut self,
        key: Key,
        kind: ItemKind,
        text: Option<String>,
        is_new: bool,
        ended: bool,
        parent: &Option<String>,
    ) {
        if is_new {
            self.see_text(key.clone(), kind, parent.clone());
        }
        let (field, finality, text) = (Field::Text, Finality::Final, text.unwrap_or_default());
        self.signal(Signal::TextSnapshot { key: key.clone(), field, text, finality });
        // A streamed block ends with its stop. Without it the text was cut (capture e_interrupt_mid_stream).
        if ended {
            self.signal(Signal::ItemEnded { key, state: ItemState::Completed, reason: None });
        }
    }

    fn see_text(&mut self, key: Key, kind: ItemKind, parent: Option<String>) {
        let role = (kind == ItemKind::Message).then_some(Role::Assistant);
        let parent = parent.map(Key::from);
        self.signal(Signal::ItemSeen(ItemSeen { key, kind, role, parent, synthetic: false }));
    }

    /// Shows a call, and keeps it for its result.
    pub(super) fn see_call(&mut self, key: &Key, call: Call, status: ToolStatus, parent: Option<String>) {
        let tool = call.describe(status);
        let known = KnownCall { call, parent: parent.clone() };
        self.calls.insert(key.as_str().to_owned(), known);
        self.signal(Signal::ToolSeen { key: key.clone(), parent: parent.map(Key::from), tool });
    }
}

/// The end of a block that is a text. A call ends with its result.
fn ended_text(block: &mut OpenBlock) -> Option<Signal> {
    match block.kind {
        BlockKind::Text | BlockKind::Reasoning => {
            let key = block.key.clone();
            Some(Signal::ItemEnded { key, state: ItemState::Completed, reason: None })
        }
        BlockKind::Call | BlockKind::Hidden => None,
    }
}
