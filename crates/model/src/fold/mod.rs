//! Events in, session state out. Total and deterministic: no event can make it fail, time comes from the event.

mod apply;
mod open;
mod state;
mod trim;

pub use open::{Open, OpenIds};
pub use state::{
    Activity, Approval, Asked, Attempt, Item, ItemStage, Prompt, PromptStage, Retry, Session, Snapshot,
    State, Turn,
};
pub use trim::{Gone, SPENT_KEPT, Spent};

use crate::cursor::Seq;
use crate::event::Event;
use crate::id::{ItemId, TurnId};
use std::collections::HashMap;

/// A state that takes in events, with an index that makes each one cheap.
#[derive(Clone, Debug, Default)]
pub struct Fold {
    state: State,
    items: HashMap<ItemId, usize>,
    turns: HashMap<TurnId, usize>,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It is in the state now.
    Yes,
    /// It was there before; a repeated delivery changes nothing.
    Repeated,
    /// Events before it are missing; the state is as it was.
    Gap {
        /// The event that must come next.
        expected: Seq,
    },
}

impl Fold {
    /// The fold of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The fold of all these events.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut fold = Self::new();
        for event in events {
            fold.apply(event);
        }
        fold
    }

    /// What the events so far add up to.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The state alone.
    pub fn into_state(self) -> State {
        self.state
    }

    /// Takes in the next event.
    pub fn apply(&mut self, event: &Event) -> Applied {
        if event.seq <= self.state.seq {
            return Applied::Repeated;
        }
        let expected = self.state.seq.next();
        if event.seq != expected {
            return Applied::Gap { expected };
        }
        self.state.seq = event.seq;
        self.change(event);
        Applied::Yes
    }

    /// An item by its id.
    pub fn item(&self, id: &ItemId) -> Option<&Item> {
        self.items.get(id).map(|&index| &self.state.items[index])
    }

    fn item_mut(&mut self, id: Option<&ItemId>) -> Option<&mut Item> {
        self.items.get(id?).map(|&index| &mut self.state.items[index])
    }

    fn turn_mut(&mut self, id: Option<&TurnId>) -> Option<&mut Turn> {
        self.turns.get(id?).map(|&index| &mut self.state.turns[index])
    }

    /// Takes items out, which moves the places of those after them.
    fn remove_items(&mut self, gone: &[ItemId]) {
        // Usually the last few: only what stands after the first of them moves.
        let Some(first) = gone.iter().filter_map(|id| self.items.remove(id)).min() else { return };
        let rest = self.state.items.split_off(first);
        for item in rest.into_iter().filter(|item| !gone.contains(&item.id)) {
            self.items.insert(item.id.clone(), self.state.items.len());
            self.state.items.push(item);
        }
    }
}

impl From<State> for Fold {
    fn from(state: State) -> Self {
        let items = index_items(&state);
        let turns = state.turns.iter().enumerate().map(|(index, turn)| (turn.turn.clone(), index)).collect();
        Self { state, items, turns }
    }
}

fn index_items(state: &State) -> HashMap<ItemId, usize> {
    state.items.iter().enumerate().map(|(index, item)| (item.id.clone(), index)).collect()
}
