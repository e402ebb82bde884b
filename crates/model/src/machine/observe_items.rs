//! What signals about items mean: the turn an item belongs to, and what happens to unknown items.

use super::item::{End, Head, ItemWriter};
use super::items::Items;
use super::{Machine, Step};
use crate::event::{Body, Draft, Field, ItemKind, Role, Tool};
use crate::id::{IdKind, ItemId, Key};
use crate::signal::{Finality, ItemSeen, Signal};

/// An item that has just been introduced.
struct Newcomer {
    key: Key,
    parent: Option<Key>,
    kind: ItemKind,
    role: Option<Role>,
    synthetic: bool,
    tool: Option<Tool>,
}

impl Machine {
    /// True for an item that is in the log and not void.
    fn has_item(&self, key: &Key) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.items.has(key)) || self.is_outside(key)
    }

    /// True for an item that does not belong to the open turn.
    pub(super) fn is_outside(&self, key: &Key) -> bool {
        self.background.has(key)
            || self.closed.iter().any(|turn| turn.items.has(key))
            || self.archive.get(key).is_some()
    }

    /// The id of the agent's item, in the open turn or elsewhere.
    pub(super) fn item_id(&self, key: &Key) -> Option<ItemId> {
        let in_turn = self.turn.as_ref().and_then(|turn| turn.items.id_of(key));
        in_turn
            .or_else(|| self.background.id_of(key))
            .or_else(|| self.closed.iter().find_map(|turn| turn.items.id_of(key)))
            .or_else(|| self.archive.get(key).map(|item| &item.id))
            .cloned()
    }

    /// The id of the tool item that a child names as its parent. Only a tool can be a parent.
    fn parent_id(&self, key: &Key) -> Option<ItemId> {
        let in_turn = self.turn.as_ref().and_then(|turn| turn.items.tool_id_of(key));
        in_turn
            .or_else(|| self.background.tool_id_of(key))
            .or_else(|| self.closed.iter().find_map(|turn| turn.items.tool_id_of(key)))
            .or_else(|| self.archive.get(key).filter(|item| item.is_tool).map(|item| &item.id))
            .cloned()
    }

    /// Changes an item, wherever it is kept. False for an unknown item, or one that ended too long ago.
    fn at_home(
        &mut self,
        key: &Key,
        out: &mut Vec<Draft>,
        act: impl FnOnce(&mut Items, &mut ItemWriter<'_>),
    ) -> bool {
        if let Some(turn) = &mut self.turn
            && turn.items.knows(key)
        {
            let (items, mut log) = turn.items(out);
            act(items, &mut log);
        } else if self.background.knows(key) {
            act(&mut self.background, &mut ItemWriter { turn: None, late: false, out });
        } else if let Some(closed) = self.closed.iter_mut().find(|turn| turn.items.knows(key)) {
            act(&mut closed.items, &mut ItemWriter { turn: Some(&closed.id), late: true, out });
        } else {
            return self.archive.get(key).is_some();
        }
        true
    }

    pub(super) fn item_seen(&mut self, seen: ItemSeen, step: &mut Step<'_>) {
        if self.has_item(&seen.key) {
            return self.link(&seen.key, seen.parent.as_ref(), step);
        }
        // A user's message shows that the agent has the prompt, not that it works: opencode stores prompts
        // that it then ignores. The message waits for the turn.
        if seen.role == Some(Role::User) && self.turn.is_none() && seen.parent.is_none() {
            return self.unclaimed.keep_early(seen);
        }
        let ItemSeen { key, kind, role, parent, synthetic } = seen;
        self.start_item(Newcomer { key, parent, kind, role, synthetic, tool: None }, step);
    }

    pub(super) fn tool_seen(&mut self, key: &Key, parent: Option<Key>, tool: Tool, step: &mut Step<'_>) {
        let tool = tool.without_nulls();
        if self.has_item(key) {
            self.link(key, parent.as_ref(), step);
        } else {
            let (kind, role, synthetic) = (ItemKind::Tool, None, false);
            let first_sight = Some(tool.clone());
            self.start_item(
                Newcomer { key: key.clone(), parent, kind, role, synthetic, tool: first_sight },
                step,
            );
        }
        // The first signal may already be the last one: then there is no update, only an end.
        self.at_home(key, step.drafts, |items, log| items.tool(key, tool, log));
    }

    fn start_item(&mut self, new: Newcomer, step: &mut Step<'_>) {
        let Newcomer { key, parent: parent_key, kind, role, synthetic, tool } = new;
        let parent = parent_key.as_ref().and_then(|key| self.parent_id(key));
        let is_outside = parent_key.as_ref().is_some_and(|key| self.is_outside(key));
        let claimed = self.unclaimed.claim(&key);
        if parent.is_some() && is_outside {
            let head = Head { kind, role, synthetic, tool, attempt: None, parent, awaited_parent: None };
            let id = ItemId::from(step.ids.fresh(IdKind::Item));
            self.trim_background();
            let mut log = ItemWriter { turn: None, late: false, out: step.drafts };
            self.background.start(id, key.clone(), head, &mut log);
        } else {
            self.ensure_turn(step);
            self.start_in_turn(
                Newcomer { key: key.clone(), parent: parent_key, kind, role, synthetic, tool },
                parent,
                step,
            );
        }
        if claimed.holed {
            self.at_home(&key, step.drafts, |items, _| items.taint_one(&key));
        }
        for signal in claimed.signals {
            self.observe_open(signal, step);
        }
    }

    fn start_in_turn(&mut self, new: Newcomer, parent: Option<ItemId>, step: &mut Step<'_>) {
        let Newcomer { key, parent: parent_key, kind, role, synthetic, tool } = new;
        let is_users = role == Some(Role::User);
        let is_models = parent_key.is_none() && !is_users;
        if is_models && self.turn.as_ref().is_some_and(|turn| turn.attempts.is_discarded()) {
            // The repeat has begun, although the agent gave it no id.
            self.begin_attempt(None, None, step);
        }
        if let Some(turn) = &mut self.turn {
            let attempt = turn.attempts.current().filter(|_| is_models).cloned();
            let awaited_parent = parent_key.filter(|_| parent.is_none());
            let head = Head { kind, role, synthetic, tool, attempt, parent, awaited_parent };
            let id = ItemId::from(step.ids.fresh(IdKind::Item));
            turn.start_item(id, key, head, step.drafts);
        }
        if !is_users {
            self.retrying = None;
            self.work_seen(step);
        }
    }

    pub(super) fn text_delta(&mut self, key: &Key, field: Field, text: String, step: &mut Step<'_>) {
        let mut text = Some(text);
        let in_turn = self.turn.as_mut().is_some_and(|turn| turn.text(key, field, &mut text, step.drafts));
        if in_turn {
            if self.pending_end.is_some() {
                self.work_seen(step);
            }
            if self.retrying.take().is_some() {
                self.show_status(step);
            }
            return;
        }
        let known = self.at_home(key, step.drafts, |items, log| {
            items.delta(key, field, &mut text, log);
        });
        if let Some(text) = text.filter(|text| !known && !text.is_empty()) {
            self.unclaimed.keep(key, Signal::TextDelta { key: key.clone(), field, text }, step.needs);
        }
    }

    pub(super) fn text_snapshot(
        &mut self,
        key: &Key,
        field: Field,
        text: String,
        finality: Finality,
        step: &mut Step<'_>,
    ) {
        let mut text = Some(text);
        let known = self.at_home(key, step.drafts, |items, log| {
            items.snapshot(key, field, text.take().unwrap_or_default(), finality, log);
        });
        if let Some(text) = text.filter(|text| !known && !text.is_empty()) {
            let signal = Signal::TextSnapshot { key: key.clone(), field, text, finality };
            self.unclaimed.keep(key, signal, step.needs);
        }
    }

    pub(super) fn item_ended(&mut self, key: &Key, end: End, step: &mut Step<'_>) {
        let mut end = Some(end);
        self.at_home(key, step.drafts, |items, log| {
            if let Some(end) = end.take() {
                items.end(key, end, log);
            }
        });
        // Kept only together with a text: the end of an item without text shows nothing.
        if let Some(End { state, reason, .. }) = end.filter(|_| self.unclaimed.knows(key)) {
            self.unclaimed.keep(key, Signal::ItemEnded { key: key.clone(), state, reason }, step.needs);
        }
    }

    pub(super) fn item_removed(&mut self, key: &Key, step: &mut Step<'_>) {
        self.at_home(key, step.drafts, |items, log| items.remove(key, log));
        if let Some(item) = self.archive.remove(key) {
            step.drafts.push(Draft { item: Some(item.id), ..Draft::new(Body::ItemRemoved) });
        }
        self.unclaimed.claim(key);
    }

    /// Gives an open item the parent that was named later than the item.
    fn link(&mut self, key: &Key, parent_key: Option<&Key>, step: &mut Step<'_>) {
        let Some(parent_key) = parent_key.filter(|parent| *parent != key) else { return };
        let Some(parent) = self.parent_id(parent_key) else { return };
        self.at_home(key, step.drafts, |items, log| items.link(key, &parent, log));
    }
}
