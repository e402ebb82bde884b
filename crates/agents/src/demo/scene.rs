//! What the agent has reported of one turn, so that it can be reported again after a gap.

use turnstream_model::event::{Field, ItemKind, ItemState, Role, Tool, ToolStatus};
use turnstream_model::id::Key;
use turnstream_model::signal::{Finality, ItemSeen, Signal};

/// Everything that was reported of a turn, in its first order.
#[derive(Default)]
pub(super) struct Scene {
    entries: Vec<Entry>,
    /// Permissions and questions without a decision.
    waits: Vec<Signal>,
    /// The open model call, or one that failed and may be repeated.
    attempt: Option<Key>,
}

enum Entry {
    /// A signal that is repeated as it was.
    Fact(Box<Signal>),
    Item(Box<Item>),
    /// An item that is void with its model call.
    Void(Key),
}

struct Item {
    seen: Seen,
    /// The model call it belongs to.
    attempt: Option<Key>,
    text: String,
    output: String,
    ended: Option<Signal>,
}

enum Seen {
    Item(ItemSeen),
    Tool { key: Key, tool: Tool },
}

impl Scene {
    /// Notes a reported signal.
    pub(super) fn note(&mut self, signal: &Signal) {
        match signal {
            Signal::ItemSeen(seen) => self.start(Seen::Item(seen.clone())),
            Signal::ToolSeen { key, tool, .. } => self.tool(key, tool),
            Signal::TextDelta { key, field, text } => self.grow(key, *field, text),
            Signal::ItemEnded { key, .. } => {
                if let Some(item) = self.item_mut(key) {
                    item.ended.get_or_insert(signal.clone());
                }
            }
            Signal::AttemptBegan { key, .. } => {
                self.attempt = Some(key.clone());
                self.entries.push(Entry::Fact(Box::new(signal.clone())));
            }
            Signal::AttemptEnded { finish, .. } => {
                if finish.as_deref().is_some_and(|finish| finish != "error") {
                    self.attempt = None;
                }
                self.entries.push(Entry::Fact(Box::new(signal.clone())));
            }
            Signal::Retrying { .. } => self.void_attempt(),
            Signal::Ask { .. } | Signal::Question { .. } => self.waits.push(signal.clone()),
            Signal::AskClosed { key, .. } | Signal::QuestionClosed { key, .. } => self.settle(key),
            Signal::TurnBegan { .. }
            | Signal::PromptRefused { .. }
            | Signal::Usage { .. }
            | Signal::Failed(_)
            | Signal::TurnIdle { .. }
            | Signal::TurnDone { .. } => self.entries.push(Entry::Fact(Box::new(signal.clone()))),
            // Signals that are not repeated, or that the demo agent never sends in a turn.
            Signal::PromptTaken(_)
            | Signal::TextSnapshot { .. }
            | Signal::ItemRemoved(_)
            | Signal::Session(_)
            | Signal::StatusProbed { .. }
            | Signal::Gap(_)
            | Signal::LinkLost(_)
            | Signal::Notice { .. } => {}
        }
    }

    /// All signals again, in a form that is safe to repeat: whole texts instead of deltas. What waits for a
    /// person comes last.
    pub(super) fn replayed(&self) -> Vec<Signal> {
        let mut signals = Vec::new();
        for entry in &self.entries {
            match entry {
                Entry::Fact(signal) => signals.push((**signal).clone()),
                Entry::Item(item) => item.replay(&mut signals),
                Entry::Void(key) => signals.push(Signal::ItemRemoved(key.clone())),
            }
        }
        // The end of the turn comes after what waits for a person.
        let end = signals.pop_if(|last| matches!(last, Signal::TurnDone { .. } | Signal::TurnIdle { .. }));
        signals.extend(self.waits.iter().cloned());
        signals.extend(end);
        signals
    }

    /// The signal that introduces an item.
    pub(super) fn introduction(&self, key: &Key) -> Option<Signal> {
        self.items().find(|item| item.seen.key() == key).map(|item| item.seen.signal(None))
    }

    /// Permissions and questions without a decision.
    pub(super) fn waits(&self) -> &[Signal] {
        &self.waits
    }

    pub(super) fn waits_for(&self, key: &Key) -> bool {
        self.waits.iter().any(|wait| wait_key(wait) == Some(key))
    }

    /// A permission or question is settled.
    pub(super) fn settle(&mut self, key: &Key) {
        self.waits.retain(|wait| wait_key(wait) != Some(key));
    }

    /// True once the start of the turn was reported.
    pub(super) fn has_begun(&self) -> bool {
        let is_beginning = |signal: &Signal| matches!(signal, Signal::TurnBegan { .. });
        self.entries.iter().any(|entry| matches!(entry, Entry::Fact(signal) if is_beginning(signal)))
    }

    /// The model call that a retry would repeat.
    pub(super) fn attempt(&self) -> Option<&Key> {
        self.attempt.as_ref()
    }

    pub(super) fn last_tool(&self) -> Option<Key> {
        let tools = self.items().filter(|item| matches!(item.seen, Seen::Tool { .. }));
        tools.last().map(|item| item.seen.key().clone())
    }

    pub(super) fn last_text(&self) -> Option<Key> {
        let is_text = |item: &&Item| matches!(&item.seen, Seen::Item(seen) if seen.kind == ItemKind::Message);
        self.items().filter(is_text).last().map(|item| item.seen.key().clone())
    }

    fn items(&self) -> impl Iterator<Item = &Item> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Item(item) => Some(&**item),
            Entry::Fact(_) | Entry::Void(_) => None,
        })
    }

    fn item_mut(&mut self, key: &Key) -> Option<&mut Item> {
        self.entries.iter_mut().rev().find_map(|entry| match entry {
            Entry::Item(item) if item.seen.key() == key => Some(&mut **item),
            Entry::Item(_) | Entry::Fact(_) | Entry::Void(_) => None,
        })
    }

    fn start(&mut self, seen: Seen) {
        if self.item_mut(seen.key()).is_none() {
            let (attempt, text, output) = (self.attempt.clone(), String::new(), String::new());
            let item = Item { seen, attempt, text, output, ended: None };
            self.entries.push(Entry::Item(Box::new(item)));
        }
    }

    fn tool(&mut self, key: &Key, news: &Tool) {
        match self.item_mut(key) {
            Some(Item { seen: Seen::Tool { tool, .. }, .. }) => tool.merge(news),
            Some(_) => {}
            None => self.start(Seen::Tool { key: key.clone(), tool: news.clone() }),
        }
    }

    fn grow(&mut self, key: &Key, field: Field, more: &str) {
        if let Some(item) = self.item_mut(key) {
            match field {
                Field::Text => item.text.push_str(more),
                Field::Output => item.output.push_str(more),
                // Arguments are reported whole, with the call.
                Field::Input => {}
            }
        }
    }

    /// The model call is repeated: its unfinished items are void. Its start is not reported again: the
    /// retry would look like another step. Without a known call, unfinished items are only abandoned.
    fn void_attempt(&mut self) {
        let attempt = self.attempt.take();
        for entry in &mut self.entries {
            let Entry::Item(item) = entry else { continue };
            if item.attempt != attempt || !item.can_be_void() {
                continue;
            }
            if attempt.is_some() {
                *entry = Entry::Void(item.seen.key().clone());
            } else {
                item.ended = Some(ended(item.seen.key(), ItemState::Abandoned));
            }
        }
        self.entries.retain(|entry| match entry {
            Entry::Fact(signal) => match &**signal {
                Signal::AttemptBegan { key, .. } | Signal::AttemptEnded { key, .. } => {
                    Some(key) != attempt.as_ref()
                }
                _ => true,
            },
            Entry::Item(_) | Entry::Void(_) => true,
        });
    }
}

impl Item {
    fn replay(&self, signals: &mut Vec<Signal>) {
        let key = self.seen.key();
        let is_whole = self.seen.is_done()
            || matches!(self.ended, Some(Signal::ItemEnded { state: ItemState::Completed, .. }));
        let finality = if is_whole { Finality::Final } else { Finality::SoFar };
        // A finished call is first reported as running, so that its output comes before its end.
        signals.push(self.seen.signal(self.seen.is_done().then_some(ToolStatus::InProgress)));
        for (field, text) in [(Field::Text, &self.text), (Field::Output, &self.output)] {
            if !text.is_empty() {
                signals.push(Signal::TextSnapshot { key: key.clone(), field, text: text.clone(), finality });
            }
        }
        if self.seen.is_done() {
            signals.push(self.seen.signal(None));
        }
        signals.extend(self.ended.clone());
    }

    /// True for an unfinished item without an effect.
    fn can_be_void(&self) -> bool {
        let is_pending = match &self.seen {
            Seen::Item(_) => true,
            Seen::Tool { tool, .. } => tool.status == Some(ToolStatus::Pending),
        };
        self.ended.is_none() && is_pending
    }
}

impl Seen {
    fn key(&self) -> &Key {
        match self {
            Self::Item(seen) => &seen.key,
            Self::Tool { key, .. } => key,
        }
    }

    fn is_done(&self) -> bool {
        match self {
            Self::Item(_) => false,
            Self::Tool { tool, .. } => {
                matches!(tool.status, Some(ToolStatus::Completed | ToolStatus::Failed))
            }
        }
    }

    fn signal(&self, status: Option<ToolStatus>) -> Signal {
        match self {
            Self::Item(seen) => Signal::ItemSeen(seen.clone()),
            Self::Tool { key, tool } => {
                let tool = Tool { status: status.or(tool.status), ..tool.clone() };
                Signal::ToolSeen { key: key.clone(), parent: None, tool }
            }
        }
    }
}

fn wait_key(wait: &Signal) -> Option<&Key> {
    match wait {
        Signal::Ask { key, .. } | Signal::Question { key, .. } => Some(key),
        _ => None,
    }
}

/// A message, reasoning or plan of the agent, or a message of another client's user.
pub(super) fn item(key: &Key, kind: ItemKind, role: Option<Role>, parent: Option<Key>) -> Signal {
    Signal::ItemSeen(ItemSeen { key: key.clone(), kind, role, parent, synthetic: false })
}

/// A piece of an item's text.
pub(super) fn delta(key: &Key, field: Field, text: impl Into<String>) -> Signal {
    Signal::TextDelta { key: key.clone(), field, text: text.into() }
}

/// The end of an item.
pub(super) fn ended(key: &Key, state: ItemState) -> Signal {
    Signal::ItemEnded { key: key.clone(), state, reason: None }
}
