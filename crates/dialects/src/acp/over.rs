//! What ended lately: late news of it has to say what it was.

use super::event::Over;
use std::collections::{HashMap, VecDeque};
use turnstream_model::event::ItemState;
use turnstream_model::id::ItemId;

/// Items that are remembered. The turn machine revises those of its last four turns.
const KEPT: usize = 1_024;

/// The items that ended last, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Lately {
    items: HashMap<ItemId, Over>,
    order: VecDeque<ItemId>,
}

impl Lately {
    pub(super) fn add(&mut self, id: ItemId, over: Over) {
        if self.items.insert(id.clone(), over).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.items.remove(&oldest);
        }
    }

    /// What an item was, with the state it has from now on.
    pub(super) fn revise(&mut self, id: &ItemId, state: Option<ItemState>) -> Option<&Over> {
        let over = self.items.get_mut(id)?;
        over.state = state.or(over.state);
        Some(over)
    }

    pub(super) fn get(&self, id: &ItemId) -> Option<&Over> {
        self.items.get(id)
    }
}
