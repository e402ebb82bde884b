//! The items of ended turns that can still be taken back.

use super::ids::Names;
use super::place::Place;
use super::write::Events;
use crate::dialect::FrameSink;
use crate::said::{is_echo, is_users};
use std::collections::VecDeque;
use turnstream_model::fold::{Item, State};
use turnstream_model::id::{ItemId, TurnId};

/// How many items are remembered. The oldest are forgotten first.
const KEPT: usize = 1_024;

/// Where the last items of ended turns are shown.
#[derive(Clone, Debug, Default)]
pub(super) struct Ended(VecDeque<Shown>);

#[derive(Clone, Debug)]
struct Shown {
    item: ItemId,
    session: String,
    message: String,
    /// `None` for a message of the user, which is removed as a whole.
    part: Option<String>,
    /// Whether the message stays without parts: a model call or a turn stands behind it.
    stays: bool,
}

impl Ended {
    /// Those of a state.
    pub(super) fn of(state: &State) -> Self {
        let mut ended = Self::default();
        let names = Names::of(&state.session);
        let last = state.items.len().saturating_sub(2 * KEPT);
        for item in &state.items[last..] {
            let is_over =
                |turn: &TurnId| super::place::turn_of(turn, state).is_some_and(|turn| !turn.is_open());
            if item.turn.as_ref().is_some_and(is_over) {
                ended.add(item, state, &names);
            }
        }
        ended
    }

    /// Adds the items of a turn that ends.
    pub(super) fn add_turn(&mut self, turn: &TurnId, state: &State, names: &Names) {
        for item in state.items.iter().filter(|item| item.turn.as_ref() == Some(turn)) {
            self.add(item, state, names);
        }
    }

    fn add(&mut self, item: &Item, state: &State, names: &Names) {
        let shown = match Place::of(item, state) {
            Some(place) => {
                let (session, message) = (place.session(names), place.message(names));
                let part = Some(names.part(&item.id));
                Shown { item: item.id.clone(), session, message, part, stays: stays(&place, state) }
            }
            None if is_users(item) && item.parent.is_none() && !is_echo(item, state) => {
                let message = names.users_item(&item.id, item.time);
                Shown { item: item.id.clone(), session: names.session(), message, part: None, stays: false }
            }
            None => return,
        };
        self.0.push_back(shown);
        if self.0.len() > KEPT {
            self.0.pop_front();
        }
    }

    /// Tells that an item is taken back.
    pub(super) fn remove<S: FrameSink>(&mut self, item: &ItemId, out: &mut Events<'_, S>) {
        let at = self.0.iter().position(|shown| shown.item == *item);
        let Some(gone) = at.and_then(|at| self.0.remove(at)) else { return };
        let Shown { session, message, part, stays, .. } = gone;
        if let Some(part) = part {
            out.part_removed(&session, &message, &part);
        }
        if !stays && !self.0.iter().any(|other| other.message == message) {
            out.message_removed(&session, &message);
        }
    }
}

fn stays(place: &Place, state: &State) -> bool {
    match place {
        Place::Step { turn, step, .. } => {
            let has_calls = super::place::turn_of(turn, state).is_some_and(|turn| !turn.attempts.is_empty());
            *step > 0 || !has_calls
        }
        Place::Background { .. } | Place::Subagent(_) => false,
    }
}
