//! Folds events into the state of a session. Deterministic, and no event makes it fail. Times come from the
//! events.

mod apply;
mod meter;
mod open;
mod state;
mod trim;
mod unattended;
mod user_message;

pub use meter::{CappedPrompt, Meter, OpenUse};
pub use open::{Open, OpenIds};
pub use state::{
    Activity, Approval, Asked, Attempt, BadEnd, Inherited, Item, ItemStage, Prompt, PromptStage, Resumed,
    Retry, Session, Snapshot, State, Turn,
};
pub use trim::{Gone, SPENT_KEPT, SpentKey};
pub use unattended::{Parked, UnattendedState};
pub use user_message::UserMessage;

use crate::cursor::Seq;
use crate::event::Event;
use crate::id::{ItemId, TurnId};
use std::collections::HashMap;

/// A state that events are applied to, with an index that makes this cheap.
#[derive(Clone, Debug, Default)]
pub struct Fold {
    state: State,
    items: HashMap<ItemId, usize>,
    turns: HashMap<TurnId, usize>,
}

/// The result of applying an event.
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

    /// The state after the events so far.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The state alone.
    pub fn into_state(self) -> State {
        self.state
    }

    /// Applies the next event.
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

    /// Removes items. The items after them move up.
    fn remove_items(&mut self, gone: &[ItemId]) {
        // Usually these are the last few items, so only a few have to move.
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
