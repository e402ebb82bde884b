//! What signals about items mean: which turn an item belongs to, and what to do with one nobody knows.

use super::item::{End, Head, Scribe};
use super::unclaimed;
use super::{Machine, Step};
use crate::event::{Field, ItemKind, Role, Tool};
use crate::id::{IdKind, ItemId, Key};
use crate::signal::{Finality, ItemSeen, Signal};

/// Where an item lives.
pub(super) enum Home {
    /// In the open turn.
    Turn,
    /// Between turns: work of a subagent whose turn has ended.
    Background,
    /// In a turn that has ended.
    Closed,
    /// It has not been introduced.
    Nowhere,
}

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
    pub(super) fn home(&self, key: &Key) -> Home {
        if self.turn.as_ref().is_some_and(|turn| turn.items.knows(key)) {
            Home::Turn
        } else if self.background.knows(key) {
            Home::Background
        } else if self.closed.iter().any(|turn| turn.items.knows(key)) {
            Home::Closed
        } else {
            Home::Nowhere
        }
    }

    /// Our id of the agent's item, wherever it lives.
    pub(super) fn item_id(&self, key: &Key) -> Option<ItemId> {
        let in_turn = self.turn.as_ref().and_then(|turn| turn.items.id_of(key));
        in_turn
            .or_else(|| self.background.id_of(key))
            .or_else(|| self.closed.iter().find_map(|turn| turn.items.id_of(key)))
            .cloned()
    }

    /// Our id of the tool item that a child names as its parent.
    fn parent_id(&self, key: &Key) -> Option<ItemId> {
        let in_turn = self.turn.as_ref().and_then(|turn| turn.items.tool_id_of(key));
        in_turn
            .or_else(|| self.background.tool_id_of(key))
            .or_else(|| self.closed.iter().find_map(|turn| turn.items.tool_id_of(key)))
            .cloned()
    }

    pub(super) fn item_seen(&mut self, seen: ItemSeen, step: &mut Step<'_>) {
        match self.home(&seen.key) {
            Home::Nowhere => {}
            Home::Turn | Home::Background | Home::Closed => {
                self.link(&seen.key, seen.parent.as_ref(), step);
                return;
            }
        }
        let is_user = seen.role == Some(Role::User);
        // A user's message proves that the agent has the prompt, not that it works: opencode stores prompts it
        // then ignores. It waits for the turn.
        if is_user && self.turn.is_none() && seen.parent.is_none() {
            self.unclaimed.keep_early(seen);
            return;
        }
        let ItemSeen { key, kind, role, parent, synthetic } = seen;
        self.start_item(Newcomer { key, parent, kind, role, synthetic, tool: None }, step);
    }

    pub(super) fn tool_seen(&mut self, key: Key, parent: Option<Key>, tool: Tool, step: &mut Step<'_>) {
        if let Home::Nowhere = self.home(&key) {
            let (kind, role, synthetic) = (ItemKind::Tool, None, false);
            let first_sight = Some(tool.clone());
            self.start_item(
                Newcomer { key: key.clone(), parent, kind, role, synthetic, tool: first_sight },
                step,
            );
        } else {
            self.link(&key, parent.as_ref(), step);
        }
        // A first sight may already be the last one: the update is empty then, and the end is not.
        match self.home(&key) {
            Home::Turn => {
                if let Some(turn) = &mut self.turn {
                    turn.tool(&key, tool, step.drafts);
                }
            }
            Home::Background => {
                let (items, mut log) = self.background(step.drafts);
                items.tool(&key, tool, &mut log);
            }
            Home::Closed => self.late(&key, step, |items, log| items.tool(&key, tool, log)),
            Home::Nowhere => {}
        }
    }

    fn start_item(&mut self, new: Newcomer, step: &mut Step<'_>) {
        let Newcomer { key, parent: parent_key, kind, role, synthetic, tool } = new;
        let parent = parent_key.as_ref().and_then(|key| self.parent_id(key));
        let home = parent_key.as_ref().map_or(Home::Turn, |key| self.home(key));
        let waiting = self.unclaimed.claim(&key);
        if parent.is_some() && matches!(home, Home::Background | Home::Closed) {
            let id = ItemId::from(step.ids.fresh(IdKind::Item));
            let head = Head { kind, role, synthetic, tool, attempt: None, parent, awaited_parent: None };
            let (items, mut log) = self.background(step.drafts);
            items.start(id, key, head, &mut log);
        } else {
            self.ensure_turn(step);
            let is_models = parent_key.is_none() && role != Some(Role::User);
            if is_models && self.turn.as_ref().is_some_and(|turn| turn.attempts.is_discarded()) {
                // The repeat has begun, though nobody gave it a name.
                self.begin_attempt(None, None, step);
            }
            if let Some(turn) = &mut self.turn {
                let attempt = turn.attempts.current().filter(|_| is_models).cloned();
                let awaited_parent = parent_key.filter(|_| parent.is_none());
                let head = Head { kind, role, synthetic, tool, attempt, parent, awaited_parent };
                let id = ItemId::from(step.ids.fresh(IdKind::Item));
                turn.start_item(id, key, head, step.drafts);
            }
            if role != Some(Role::User) {
                self.retrying = None;
                self.work_seen(step);
            }
        }
        for signal in waiting {
            self.observe_open(signal, step);
        }
    }

    pub(super) fn text_delta(&mut self, key: &Key, field: Field, text: &mut String, step: &mut Step<'_>) {
        if let Some(turn) = &mut self.turn
            && turn.text(key, field, text, step.drafts)
        {
            if self.hold.is_some() {
                self.work_seen(step);
            }
            if self.retrying.take().is_some() {
                self.show_status(step);
            }
            return;
        }
        let (items, mut log) = self.background(step.drafts);
        if items.delta(key, field, text, &mut log) {
            return;
        }
        match self.home(key) {
            Home::Closed => self.late(key, step, |items, log| {
                items.delta(key, field, text, log);
            }),
            Home::Nowhere if !text.is_empty() => {
                self.unclaimed.keep(key, unclaimed::delta(key, field, std::mem::take(text)), step.needs);
            }
            Home::Nowhere | Home::Turn | Home::Background => {}
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
        match self.home(key) {
            Home::Turn => {
                if let Some(turn) = &mut self.turn {
                    turn.snapshot(key, field, text, finality, step.drafts);
                }
            }
            Home::Background => {
                let (items, mut log) = self.background(step.drafts);
                items.snapshot(key, field, text, finality, &mut log);
            }
            Home::Closed => {
                self.late(key, step, |items, log| items.snapshot(key, field, text, finality, log))
            }
            Home::Nowhere if !text.is_empty() => {
                self.unclaimed.keep(key, unclaimed::snapshot(key, field, text, finality), step.needs);
            }
            Home::Nowhere => {}
        }
    }

    pub(super) fn item_ended(&mut self, key: &Key, end: End, step: &mut Step<'_>) {
        match self.home(key) {
            Home::Turn => {
                if let Some(turn) = &mut self.turn {
                    turn.end_item(key, end, step.drafts);
                }
            }
            Home::Background => {
                let (items, mut log) = self.background(step.drafts);
                items.end(key, end, &mut log);
            }
            Home::Closed => self.late(key, step, |items, log| items.end(key, end, log)),
            Home::Nowhere => {
                // Only worth keeping with the text it ends; the end of something never seen says nothing.
                if self.unclaimed.knows(key) {
                    let signal = Signal::ItemEnded { key: key.clone(), state: end.state, reason: end.reason };
                    self.unclaimed.keep(key, signal, step.needs);
                }
            }
        }
    }

    pub(super) fn item_removed(&mut self, key: &Key, step: &mut Step<'_>) {
        match self.home(key) {
            Home::Turn => {
                if let Some(turn) = &mut self.turn {
                    turn.remove_item(key, step.drafts);
                }
            }
            Home::Background => {
                let (items, mut log) = self.background(step.drafts);
                items.remove(key, &mut log);
            }
            Home::Closed => self.late(key, step, |items, log| items.remove(key, log)),
            Home::Nowhere => drop(self.unclaimed.claim(key)),
        }
    }

    /// Gives an open item the parent that was named later than the item.
    fn link(&mut self, key: &Key, parent: Option<&Key>, step: &mut Step<'_>) {
        let parent = parent.filter(|parent| *parent != key);
        let Some(parent) = parent.and_then(|parent| self.parent_id(parent)) else { return };
        if let Some(turn) = &mut self.turn {
            turn.link(key, &parent, step.drafts);
        }
        let (items, mut log) = self.background(step.drafts);
        items.link(key, &parent, &mut log);
    }

    /// Does something to an item whose turn has ended.
    fn late(
        &mut self,
        key: &Key,
        step: &mut Step<'_>,
        revise: impl FnOnce(&mut super::Items, &mut Scribe<'_>),
    ) {
        if let Some(closed) = self.closed_with(key) {
            let mut log = Scribe { turn: Some(&closed.id), late: true, out: step.drafts };
            revise(&mut closed.items, &mut log);
        }
    }
}
