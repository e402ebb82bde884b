//! Ids of items of older turns: enough to remove an item, or to name the parent of background work.

use crate::id::{ItemId, Key};
use std::collections::{HashMap, VecDeque};

/// How many items are remembered beyond the turns that can still be revised.
const KEPT: usize = 16_384;

#[derive(Clone)]
pub(crate) struct Archived {
    pub(crate) id: ItemId,
    pub(crate) is_tool: bool,
}

/// The newest items of older turns.
#[derive(Default)]
pub(crate) struct Archive {
    by_key: HashMap<Key, Archived>,
    order: VecDeque<Key>,
}

impl Archive {
    pub(crate) fn add(&mut self, key: Key, item: Archived) {
        if self.by_key.insert(key.clone(), item).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_key.remove(&oldest);
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Archived> {
        self.by_key.get(key)
    }

    pub(crate) fn remove(&mut self, key: &Key) -> Option<Archived> {
        self.by_key.remove(key)
    }
}
