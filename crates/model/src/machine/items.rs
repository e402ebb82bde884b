//! The items of one turn, or of background work, by the agent's ids.

use super::archive::Archived;
use super::item::{End, EndedItem, Head, ItemWriter, OpenItem};
use crate::event::{Body, Draft, Field, ItemKind, ItemState, NoticeCode, Tool};
use crate::id::{AttemptId, ItemId, Key};
use crate::signal::Finality;
use std::collections::HashMap;

enum Slot {
    Open(OpenItem),
    Ended(EndedItem),
    /// Voided with its attempt, or removed by the agent.
    Gone,
}

/// Items in the order in which they started.
#[derive(Default)]
pub(crate) struct Items {
    slots: Vec<Slot>,
    by_key: HashMap<Key, usize>,
    open: usize,
    /// How many open items wait for a parent that is not known yet.
    orphans: usize,
    /// The parents of the items that have one.
    parents: HashMap<ItemId, ItemId>,
}

impl Items {
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn open_count(&self) -> usize {
        self.open
    }

    /// True when a tool may or may not have run.
    pub(crate) fn has_unknown_tool(&self) -> bool {
        let is_unknown = |item: &EndedItem| item.is_tool() && item.state() == ItemState::Unknown;
        self.slots.iter().any(|slot| matches!(slot, Slot::Ended(item) if is_unknown(item)))
    }

    /// True when something was done: an item other than a message is complete.
    pub(crate) fn has_completed_work(&self) -> bool {
        let is_work = |item: &EndedItem| !item.is_message() && item.state() == ItemState::Completed;
        self.slots.iter().any(|slot| matches!(slot, Slot::Ended(item) if is_work(item)))
    }

    /// True for an item that ever had this id, void or not.
    pub(crate) fn knows(&self, key: &Key) -> bool {
        self.by_key.contains_key(key)
    }

    /// True while it is not void. The id of a void item may be used again, by a repeat of its call.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.id_of(key).is_some()
    }

    /// True while it can still grow.
    pub(crate) fn is_open(&self, key: &Key) -> bool {
        self.by_key.get(key).is_some_and(|index| matches!(self.slots[*index], Slot::Open(_)))
    }

    /// The text so far of an item that can still grow.
    pub(crate) fn text(&self, key: &Key, field: Field) -> Option<&str> {
        match &self.slots[*self.by_key.get(key)?] {
            Slot::Open(item) => Some(item.text(field)),
            Slot::Ended(_) | Slot::Gone => None,
        }
    }

    /// True when the item is `above` or one of its descendants. A cycle of parents would hide both items.
    fn is_below(&self, item: &ItemId, above: &ItemId) -> bool {
        let mut at = Some(item);
        while let Some(item) = at {
            if item == above {
                return true;
            }
            at = self.parents.get(item);
        }
        false
    }

    /// Every item that is not void, with the agent's id.
    pub(crate) fn into_archived(self) -> impl Iterator<Item = (Key, Archived)> {
        let mut slots = self.slots;
        self.by_key.into_iter().filter_map(move |(key, index)| {
            match std::mem::replace(&mut slots[index], Slot::Gone) {
                Slot::Open(item) => {
                    Some((key, Archived { is_tool: item.kind == ItemKind::Tool, id: item.id }))
                }
                Slot::Ended(item) => Some((key, Archived { is_tool: item.is_tool(), id: item.id })),
                Slot::Gone => None,
            }
        })
    }

    /// Our id of the agent's item, while it is not voided.
    pub(crate) fn id_of(&self, key: &Key) -> Option<&ItemId> {
        match &self.slots[*self.by_key.get(key)?] {
            Slot::Open(item) => Some(&item.id),
            Slot::Ended(item) => Some(&item.id),
            Slot::Gone => None,
        }
    }

    /// The same, if the item is a tool: nothing else can have children.
    pub(crate) fn tool_id_of(&self, key: &Key) -> Option<&ItemId> {
        match &self.slots[*self.by_key.get(key)?] {
            Slot::Open(item) if item.kind == ItemKind::Tool => Some(&item.id),
            Slot::Ended(item) if item.is_tool() => Some(&item.id),
            Slot::Open(_) | Slot::Ended(_) | Slot::Gone => None,
        }
    }

    pub(crate) fn start(&mut self, id: ItemId, key: Key, head: Head, log: &mut ItemWriter<'_>) {
        let item = OpenItem::start(id, &key, head, log);
        self.orphans += usize::from(item.awaited_parent.is_some());
        self.note_parent(&item.id, item.parent.as_ref());
        self.insert_open(key, item);
    }

    fn note_parent(&mut self, item: &ItemId, parent: Option<&ItemId>) {
        if let Some(parent) = parent {
            self.parents.insert(item.clone(), parent.clone());
        }
    }

    /// Adds an item that the last owner left open.
    pub(crate) fn resume(&mut self, key: Key, item: OpenItem) {
        self.note_parent(&item.id, item.parent.as_ref());
        self.insert_open(key, item);
    }

    /// Adds an item that ended under the last owner.
    pub(crate) fn resume_ended(&mut self, key: Key, item: EndedItem, parent: Option<&ItemId>) {
        self.note_parent(&item.id, parent);
        self.by_key.insert(key, self.slots.len());
        self.slots.push(Slot::Ended(item));
    }

    fn insert_open(&mut self, key: Key, item: OpenItem) {
        self.by_key.insert(key, self.slots.len());
        self.slots.push(Slot::Open(item));
        self.open += 1;
    }

    /// Marks one item: bytes of it may be missing.
    pub(crate) fn taint_one(&mut self, key: &Key) {
        if let Some(Slot::Open(item)) = self.slot(key) {
            item.taint();
        }
    }

    /// Gives every open item that waited for this parent its parent.
    pub(crate) fn adopt(&mut self, key: &Key, parent: &ItemId, log: &mut ItemWriter<'_>) {
        if self.orphans == 0 {
            return;
        }
        for index in 0..self.slots.len() {
            let Slot::Open(item) = &self.slots[index] else { continue };
            if item.awaited_parent.as_ref() == Some(key) {
                self.put_below(index, parent, log);
            }
        }
    }

    /// Sets the parent of one item that is open and has none.
    pub(crate) fn link(&mut self, key: &Key, parent: &ItemId, log: &mut ItemWriter<'_>) {
        if let Some(&index) = self.by_key.get(key) {
            self.put_below(index, parent, log);
        }
    }

    fn put_below(&mut self, index: usize, parent: &ItemId, log: &mut ItemWriter<'_>) {
        let Slot::Open(item) = &self.slots[index] else { return };
        if item.parent.is_some() || self.is_below(parent, &item.id) {
            return;
        }
        self.parents.insert(item.id.clone(), parent.clone());
        if let Slot::Open(item) = &mut self.slots[index] {
            self.orphans -= usize::from(item.awaited_parent.is_some());
            item.adopt(parent, log);
        }
    }

    /// False when the key is not of these items.
    pub(crate) fn delta(
        &mut self,
        key: &Key,
        field: Field,
        text: &mut Option<String>,
        log: &mut ItemWriter<'_>,
    ) -> bool {
        match self.slot(key) {
            None => return false,
            Some(Slot::Open(item)) => item.delta(field, text.take().unwrap_or_default(), log),
            Some(Slot::Ended(item)) => {
                if text.as_ref().is_some_and(|text| !text.is_empty()) && item.note_late() {
                    late_notice(item, log);
                }
            }
            Some(Slot::Gone) => {}
        }
        true
    }

    pub(crate) fn snapshot(
        &mut self,
        key: &Key,
        field: Field,
        text: String,
        finality: Finality,
        log: &mut ItemWriter<'_>,
    ) {
        match self.slot(key) {
            Some(Slot::Open(item)) => item.snapshot(field, text, finality, log),
            // A tool's closing word is its call's members, not the text that led there.
            Some(Slot::Ended(item))
                if finality == Finality::Final && field == Field::Text && !item.is_tool() =>
            {
                item.revise_text(text, log);
            }
            Some(Slot::Ended(_) | Slot::Gone) | None => {}
        }
    }

    pub(crate) fn tool(&mut self, key: &Key, tool: Tool, log: &mut ItemWriter<'_>) {
        match self.slot(key) {
            // An item that was introduced as something else is not a tool call.
            Some(Slot::Open(item)) if item.kind != ItemKind::Tool => {}
            Some(Slot::Ended(item)) if !item.is_tool() => {}
            Some(Slot::Open(item)) => {
                item.update(tool, log);
                if let Some(end) = item.stated_end() {
                    self.end(key, end, log);
                }
            }
            Some(Slot::Ended(item)) => item.revise_tool(tool, log),
            Some(Slot::Gone) | None => {}
        }
    }

    pub(crate) fn end(&mut self, key: &Key, end: End, log: &mut ItemWriter<'_>) {
        let Some(&index) = self.by_key.get(key) else { return };
        match std::mem::replace(&mut self.slots[index], Slot::Gone) {
            Slot::Open(item) => {
                self.close(&item);
                self.slots[index] = Slot::Ended(item.end(end, log));
            }
            Slot::Ended(mut item) => {
                item.revise_state(end.state, log);
                self.slots[index] = Slot::Ended(item);
            }
            Slot::Gone => {}
        }
    }

    /// The agent removed the item, open or ended.
    pub(crate) fn remove(&mut self, key: &Key, log: &mut ItemWriter<'_>) {
        let Some(&index) = self.by_key.get(key) else { return };
        let id = match std::mem::replace(&mut self.slots[index], Slot::Gone) {
            Slot::Open(item) => {
                self.close(&item);
                item.id
            }
            Slot::Ended(item) => item.id,
            Slot::Gone => return,
        };
        log.out.push(Draft { item: Some(id), ..Draft::new(Body::ItemRemoved) });
    }

    /// Makes the unfinished items of an attempt void and returns their ids. A tool that may have run stays.
    pub(crate) fn void_attempt(&mut self, attempt: &AttemptId) -> Vec<ItemId> {
        let mut voided = Vec::new();
        for index in 0..self.slots.len() {
            let Slot::Open(item) = &self.slots[index] else { continue };
            if item.attempt.as_ref() != Some(attempt) || item.has_effects() {
                continue;
            }
            voided.push(item.id.clone());
            if let Slot::Open(item) = std::mem::replace(&mut self.slots[index], Slot::Gone) {
                self.close(&item);
            }
        }
        voided
    }

    /// Ends every open item that the agent will repeat, if it does not show its model calls.
    pub(crate) fn abandon_unattempted(&mut self, reason: &str, log: &mut ItemWriter<'_>) {
        self.end_where(log, |item| {
            (item.attempt.is_none() && item.parent.is_none() && !item.has_effects()).then(|| End {
                state: ItemState::Abandoned,
                reason: Some(reason.to_owned()),
                caused_by: None,
                cut: true,
            })
        });
    }

    /// Ends every open item, because nothing more can come.
    pub(crate) fn end_all(
        &mut self,
        effects_unknown: bool,
        caused_by: Option<&str>,
        log: &mut ItemWriter<'_>,
    ) {
        self.end_where(log, |item| Some(item.unstated_end(effects_unknown, caused_by.map(str::to_owned))));
    }

    pub(crate) fn taint(&mut self) {
        for slot in &mut self.slots {
            if let Slot::Open(item) = slot {
                item.taint();
            }
        }
    }

    fn end_where(&mut self, log: &mut ItemWriter<'_>, mut end_of: impl FnMut(&OpenItem) -> Option<End>) {
        if self.open == 0 {
            return;
        }
        for index in 0..self.slots.len() {
            let Slot::Open(item) = &self.slots[index] else { continue };
            let Some(end) = end_of(item) else { continue };
            if let Slot::Open(item) = std::mem::replace(&mut self.slots[index], Slot::Gone) {
                self.close(&item);
                self.slots[index] = Slot::Ended(item.end(end, log));
            }
        }
    }

    fn close(&mut self, item: &OpenItem) {
        self.open -= 1;
        self.orphans -= usize::from(item.awaited_parent.is_some());
    }

    fn slot(&mut self, key: &Key) -> Option<&mut Slot> {
        self.by_key.get(key).map(|&index| &mut self.slots[index])
    }
}

fn late_notice(item: &EndedItem, log: &mut ItemWriter<'_>) {
    let ended = if log.late { "its turn had ended" } else { "it had ended" };
    let message = format!("text came for an item after {ended}; it was not added");
    log.item(&item.id, Body::Notice { code: NoticeCode::Late, message, detail: None });
}
