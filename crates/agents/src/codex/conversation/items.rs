//! Items of the thread and of its subagents. A finished item is whole and replaces its deltas; an item may
//! also never finish, or finish after its turn (captures `g_cut_every_time`, `m_background_terminal`).

use super::elicitation::McpCall;
use super::{ChildThread, Conversation};
use crate::codex::tools;
use crate::codex::wire::{Delta, Item, ItemLine};
use serde_json::Value;
use serde_json::value::RawValue;
use turnstream_model::event::{Field, ItemKind, ItemState, Role, ToolStatus};
use turnstream_model::id::Key;
use turnstream_model::signal::{Finality, ItemSeen, Signal};

/// The most commands of ended turns that are waited for.
const MOST_LEFTOVER: usize = 256;

/// Between the parts of a reasoning.
const PARAGRAPH: &str = "\n\n";

/// Types of items that say nothing for the log: a prompt, which the log has, and marks of Codex.
const SILENT: &[&str] = &[
    "enteredReviewMode",
    "exitedReviewMode",
    "functionCallOutput",
    "hookPrompt",
    "sleep",
    "subAgentActivity",
    "userMessage",
];

/// An item that was seen.
pub(super) struct KnownItem {
    key: Key,
    thread: String,
    open: bool,
    is_command: bool,
    is_text: bool,
    /// Some of its output was shown.
    has_output: bool,
    /// When it began, by the server's clock.
    started_at: Option<u64>,
    /// The call, if it is one of an MCP server's tool.
    mcp_call: Option<McpCall>,
    /// How often its id was used in its turn: the provider gives it.
    uses: u32,
}

/// A command that went on when its turn ended.
pub(super) struct Leftover {
    key: Key,
    /// The connection was not lost since then: its end will be heard.
    heard: bool,
}

/// Where an item belongs.
struct Place {
    /// The call whose subagent has it.
    parent: Option<Key>,
    /// Its turn has ended.
    late: bool,
}

impl Conversation {
    pub(super) fn item_started(&mut self, line: &ItemLine) {
        let ItemLine { thread_id, turn_id, item } = line;
        let Some(place) = self.place(thread_id, turn_id) else { return };
        if item.kind == "userMessage" {
            return self.user_message(item, &place);
        }
        if place.late || !is_shown(item) {
            return;
        }
        let Some(key) = self.begin_item(thread_id, turn_id, item, place.parent.is_none()) else { return };
        self.show_begun(&key, item, place.parent);
    }

    /// An item is complete. One of a type that is not known is reported with these parameters.
    pub(super) fn item_completed(&mut self, line: &ItemLine, params: Option<&RawValue>) {
        let ItemLine { thread_id, turn_id, item } = line;
        let Some(place) = self.place(thread_id, turn_id) else { return };
        if item.kind == "userMessage" {
            return self.user_message(item, &place);
        }
        if !is_shown(item) {
            return self.report_unknown_item(item, params);
        }
        if place.late {
            return self.late_result(turn_id, item);
        }
        let id = format!("{turn_id}:{}", item.id);
        let known = self.items.get(&id);
        if known.is_some_and(|known| !known.open && known.is_same(item)) {
            // The server has listed its end before.
            return;
        }
        let known = known.filter(|known| known.open || item.started_at_ms.is_none());
        let known = known.map(|known| (known.key.clone(), known.has_output));
        // Codex does not stream the beginning of an output, and cuts characters.
        let has_output = known.as_ref().is_none_or(|(_, has_output)| *has_output);
        let key = match known {
            Some((key, _)) => key,
            // Its beginning was missed.
            None => match self.begin_item(thread_id, turn_id, item, place.parent.is_none()) {
                Some(key) => {
                    self.show_begun(&key, item, place.parent.clone());
                    key
                }
                None => return,
            },
        };
        if let Some(known) = self.items.get_mut(&id) {
            known.open = false;
        }
        if let Some(text) = item.aggregated_output.clone().filter(|_| has_output) {
            let (field, finality) = (Field::Output, Finality::Final);
            self.signal(Signal::TextSnapshot { key: key.clone(), field, text, finality });
        }
        self.show_ended(key, item, place.parent);
    }

    /// A prompt that joins a running turn is known by its name.
    fn user_message(&mut self, item: &Item, place: &Place) {
        let Some(name) = item.client_id.as_deref().filter(|_| place.parent.is_none() && !place.late) else {
            return;
        };
        if let Some(turn) = self.turn.as_mut().filter(|turn| !turn.prompts.iter().any(|taken| taken == name))
        {
            turn.prompts.push(name.to_owned());
            self.signal(Signal::PromptTaken(name.to_owned()));
        }
    }

    /// Reports an item of a type that is not known.
    fn report_unknown_item(&mut self, item: &Item, params: Option<&RawValue>) {
        if params.is_some() && !SILENT.contains(&item.kind.as_str()) {
            self.unknown(&format!("item {}", item.kind), params);
        }
    }

    /// Where an item of this thread and turn belongs; `None` for a thread that is not ours.
    fn place(&mut self, thread: &str, turn: &str) -> Option<Place> {
        if thread != self.thread {
            let parent = self.child(thread)?.parent.clone();
            return parent.map(|parent| Place { parent: Some(parent), late: false });
        }
        let late = self.has_ended(turn);
        if !late {
            self.begin_turn(turn, None);
        }
        Some(Place { parent: None, late })
    }

    /// The thread of a subagent. One that was not named yet belongs to the last call that started one.
    pub(super) fn child(&mut self, thread: &str) -> Option<&mut ChildThread> {
        if !self.children.contains_key(thread) {
            let parent = Some(self.last_spawn.clone()?);
            self.children.insert(thread.to_owned(), ChildThread { parent, ..ChildThread::default() });
        }
        self.children.get_mut(thread)
    }

    /// Keeps an item. `None` for one that is known: its beginning was repeated.
    fn begin_item(&mut self, thread: &str, turn: &str, item: &Item, is_main: bool) -> Option<Key> {
        let id = format!("{turn}:{}", item.id);
        let known = self.items.get(&id);
        if known.is_some_and(|known| known.open || known.is_same(item)) {
            return None;
        }
        let uses = known.map_or(1, |known| known.uses + 1);
        let key = Key::from(if uses == 1 { id.clone() } else { format!("{id}#{uses}") });
        let (is_command, is_text) = (item.kind == "commandExecution", text_kind(item).is_some());
        let (thread, open, has_output, started_at) = (thread.to_owned(), true, false, item.started_at_ms);
        let kept = key.clone();
        let mcp_call = (item.kind == "mcpToolCall").then(|| McpCall {
            server: item.server.clone().unwrap_or_default(),
            tool: item.tool.clone().unwrap_or_default(),
            arguments: item.arguments.clone(),
        });
        let item = KnownItem {
            key: kept,
            thread,
            open,
            is_command,
            is_text,
            has_output,
            started_at,
            mcp_call,
            uses,
        };
        self.items.insert(id, item);
        if is_main {
            self.begin_call();
        }
        Some(key)
    }

    fn show_begun(&mut self, key: &Key, item: &Item, parent: Option<Key>) {
        if item.tool.as_deref() == Some("spawnAgent") {
            self.last_spawn = Some(key.clone());
        }
        match text_kind(item) {
            Some(kind) => {
                let role = (kind == ItemKind::Message).then_some(Role::Assistant);
                let (key, synthetic) = (key.clone(), false);
                self.signal(Signal::ItemSeen(ItemSeen { key, kind, role, parent, synthetic }));
            }
            None => {
                if let Some(tool) = tools::describe(item) {
                    self.signal(Signal::ToolSeen { key: key.clone(), parent, tool });
                }
            }
        }
    }

    fn show_ended(&mut self, key: Key, item: &Item, parent: Option<Key>) {
        for thread in &item.receiver_thread_ids {
            self.children.entry(thread.clone()).or_default().parent.get_or_insert_with(|| key.clone());
        }
        match tools::describe(item) {
            Some(mut tool) => {
                // Codex says of some types only that they are over.
                if tool.status == Some(ToolStatus::InProgress) {
                    tool.status = Some(ToolStatus::Completed);
                }
                self.signal(Signal::ToolSeen { key, parent, tool });
            }
            None => {
                if text_kind(item) != Some(ItemKind::Compaction) {
                    let (field, finality, text) = (Field::Text, Finality::Final, whole_text(item));
                    self.signal(Signal::TextSnapshot { key: key.clone(), field, text, finality });
                }
                let (state, reason) = (ItemState::Completed, None);
                self.signal(Signal::ItemEnded { key, state, reason });
            }
        }
    }

    /// A command that went on when its turn ended has finished.
    fn late_result(&mut self, turn: &str, item: &Item) {
        if let Some(leftover) = self.leftover.remove(&format!("{turn}:{}", item.id)) {
            self.show_ended(leftover.key, item, None);
        }
    }

    /// Whether a command of an ended turn still runs, as far as this connection hears of it.
    pub(super) fn awaits_leftover(&self) -> bool {
        self.leftover.values().any(|leftover| leftover.heard)
    }

    /// The connection is lost: the ends of commands may be missed.
    pub(super) fn leftover_unheard(&mut self) {
        self.leftover.values_mut().for_each(|leftover| leftover.heard = false);
    }

    /// A piece of a text or of an output. Pieces of an item whose beginning this connection did not show are
    /// left out: the finished item is whole (capture `k_ws_reconnect_running_thread`).
    pub(super) fn delta(&mut self, delta: Delta<'_>, field: Field) {
        self.interrupt_again();
        let id = format!("{}:{}", delta.turn_id, delta.item_id);
        let is_it = |known: &&mut KnownItem| known.open && known.thread == delta.thread_id;
        let Some(known) = self.items.get_mut(&id).filter(is_it) else { return };
        known.has_output |= field == Field::Output;
        let (key, text) = (known.key.clone(), delta.delta);
        self.signal(Signal::TextDelta { key, field, text });
    }

    /// A new part of a reasoning's summary.
    pub(super) fn summary_part(&mut self, delta: Delta<'_>) {
        if delta.summary_index > 0 {
            self.delta(Delta { delta: PARAGRAPH.to_owned(), ..delta }, Field::Text);
        }
    }

    /// The turn of a subagent is over, and with it what it had open.
    pub(super) fn child_ended(&mut self, thread: &str) {
        let Some(child) = self.children.get_mut(thread) else { return };
        child.busy = false;
        let open = self.items.values().filter(|known| known.thread == thread && known.open);
        let ends: Vec<(Key, bool)> = open.map(|known| (known.key.clone(), known.is_text)).collect();
        for (key, is_text) in ends {
            let state = if is_text { ItemState::Abandoned } else { ItemState::Unknown };
            self.signal(Signal::ItemEnded { key, state, reason: None });
        }
        self.forget_items(thread);
    }

    /// Forgets the items of a thread whose turn is over.
    pub(super) fn forget_items(&mut self, thread: &str) {
        self.items.retain(|_, known| known.thread != thread);
    }

    /// Forgets the texts that a repeated model call makes void.
    pub(super) fn forget_texts(&mut self) {
        let thread = &self.thread;
        self.items.retain(|_, known| !(known.open && known.is_text && known.thread == *thread));
    }

    /// Commands go on when their turn ends, also when it is interrupted.
    pub(super) fn keep_leftover_commands(&mut self) {
        let asked: Vec<&Key> = self.asks.values().filter_map(|ask| ask.item.as_ref()).collect();
        let thread = &self.thread;
        let goes_on = |known: &KnownItem| {
            known.open && known.is_command && known.thread == *thread && !asked.contains(&&known.key)
        };
        if self.leftover.len() > MOST_LEFTOVER {
            self.leftover.clear();
        }
        let open = self.items.iter().filter(|(_, known)| goes_on(known));
        self.leftover
            .extend(open.map(|(id, known)| (id.clone(), Leftover { key: known.key.clone(), heard: true })));
    }

    /// The open calls of MCP servers' tools.
    pub(super) fn open_calls(&self, thread: &str) -> impl Iterator<Item = (&Key, &McpCall)> {
        let open = self.items.values().filter(move |known| known.open && known.thread == thread);
        open.filter_map(|known| Some((&known.key, known.mcp_call.as_ref()?)))
    }

    /// The key of an item that is open.
    pub(super) fn open_item(&self, turn: &str, item: &str) -> Option<Key> {
        let known = self.items.get(&format!("{turn}:{item}"))?;
        known.open.then(|| known.key.clone())
    }
}

fn is_shown(item: &Item) -> bool {
    text_kind(item).is_some() || tools::describe(item).is_some()
}

/// The kind of an item that is a text, or the mark of a compaction.
fn text_kind(item: &Item) -> Option<ItemKind> {
    match item.kind.as_str() {
        "agentMessage" => Some(ItemKind::Message),
        "reasoning" => Some(ItemKind::Reasoning),
        "plan" => Some(ItemKind::Plan),
        "contextCompaction" => Some(ItemKind::Compaction),
        _ => None,
    }
}

// === impl KnownItem ===

impl KnownItem {
    /// Whether it is this one, and not an earlier one with the same id.
    fn is_same(&self, item: &Item) -> bool {
        self.started_at.is_some() && self.started_at == item.started_at_ms
    }
}

/// The text of a finished item. A reasoning has a summary, or its own words.
fn whole_text(item: &Item) -> String {
    if item.kind != "reasoning" {
        return item.text.clone().unwrap_or_default();
    }
    let content = item.content.as_ref().and_then(Value::as_array).into_iter().flatten();
    let parts = item.summary.iter().map(String::as_str).chain(content.filter_map(Value::as_str));
    parts.collect::<Vec<_>>().join(PARAGRAPH)
}
