//! The items that ended last. A late revision of one has to say what it was.

use super::event::EndedItem;
use std::collections::{HashMap, VecDeque};
use turnstream_model::event::ItemState;
use turnstream_model::id::ItemId;

/// How many items are remembered. The turn machine revises those of its last four turns.
const KEPT: usize = 1_024;

/// The items that ended last.
#[derive(Clone, Debug, Default)]
pub(super) struct EndedItems {
    items: HashMap<ItemId, EndedItem>,
    order: VecDeque<ItemId>,
}

impl EndedItems {
    pub(super) fn add(&mut self, id: ItemId, over: EndedItem) {
        if self.items.insert(id.clone(), over).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.items.remove(&oldest);
        }
    }

    /// What an item was, after setting its new state.
    pub(super) fn revise(&mut self, id: &ItemId, state: Option<ItemState>) -> Option<&EndedItem> {
        let over = self.items.get_mut(id)?;
        over.state = state.or(over.state);
        Some(over)
    }

    pub(super) fn get(&self, id: &ItemId) -> Option<&EndedItem> {
        self.items.get(id)
    }
}
