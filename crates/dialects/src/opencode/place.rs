//! Where an item is shown: in which session of opencode, and in which message.

use super::ids::Names;
use crate::said::is_users;
use std::collections::HashSet;
use turnstream_model::event::ItemKind;
use turnstream_model::fold::{Attempt, Item, State, Turn, UserMessage};
use turnstream_model::id::{ItemId, TurnId};
use turnstream_model::time::Time;

/// A message of the assistant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// One step of a turn. Step 0 has the items of agents that do not show their model calls. `after` is the
    /// time of the message of the user that it follows, or when the turn started if that was later.
    Step { turn: TurnId, after: Time, step: u32 },
    /// Background work, outside of turns.
    Background { item: ItemId, time: Time },
    /// All work of the subagent that this tool call runs.
    Subagent(ItemId),
}

impl Place {
    /// The place of an item. `None` for what is no part of an answer: plans, and messages of the user.
    pub(super) fn of(item: &Item, state: &State) -> Option<Self> {
        let index = state.items.iter().rposition(|known| known.id == item.id)?;
        Self::at(index, state)
    }

    /// The place of the item with this index.
    pub(super) fn at(index: usize, state: &State) -> Option<Self> {
        let item = state.items.get(index)?;
        if item.kind == ItemKind::Plan || is_users(item) {
            return None;
        }
        if let Some(parent) = &item.parent {
            return Some(Self::Subagent(parent.clone()));
        }
        let Some(turn) = item.turn.as_ref().and_then(|id| turn_of(id, state)) else {
            return Some(Self::Background { item: item.id.clone(), time: item.time });
        };
        Some(Self::step(turn, step_of(index, turn, state)))
    }

    /// A step of a turn.
    pub(super) fn step(turn: &Turn, step: u32) -> Self {
        let calls = until_step(turn, step).iter();
        let messages = calls.filter_map(|call| call.after.as_ref()).map(UserMessage::time);
        let after = messages.fold(turn.started, Time::max);
        Self::Step { turn: turn.turn.clone(), after, step }
    }

    /// The id of its session.
    pub(super) fn session(&self, names: &Names) -> String {
        match self {
            Self::Step { .. } | Self::Background { .. } => names.session(),
            Self::Subagent(call) => names.subagent(call),
        }
    }

    /// The id of its message.
    pub(super) fn message(&self, names: &Names) -> String {
        match self {
            Self::Step { turn, after, step } => names.answer(turn, *after, *step),
            Self::Background { item, time } => names.background(item, *time),
            Self::Subagent(call) => names.subagent_answer(call),
        }
    }

    /// Whether clients know its message, by what the state has besides one item. An item makes its message
    /// known, and a model call that of its step.
    pub(super) fn is_announced(&self, state: &State, besides: Option<&ItemId>) -> bool {
        match self {
            Self::Step { turn, step, .. } if *step > 0 => turn_of(turn, state)
                .is_some_and(|turn| turn.attempts.iter().any(|attempt| attempt.step == *step)),
            Self::Step { .. } | Self::Background { .. } | Self::Subagent(_) => {
                let mut others =
                    state.items.iter().enumerate().rev().filter(|(_, item)| Some(&item.id) != besides);
                others.any(|(index, _)| Self::at(index, state).as_ref() == Some(self))
            }
        }
    }
}

/// The id of the message of one step of a turn.
pub fn step_message(turn: &Turn, step: u32, names: &Names) -> String {
    Place::step(turn, step).message(names)
}

/// The model calls of a turn up to the first of a step. That one makes the message of the step known, so
/// later ones do not change its id.
pub(super) fn until_step(turn: &Turn, step: u32) -> &[Attempt] {
    let first = turn.attempts.iter().position(|attempt| attempt.step == step);
    first.map_or(&[], |first| &turn.attempts[..=first])
}

/// The step of an item. A call that the agent makes after a model call has ended belongs to that model call.
fn step_of(index: usize, turn: &Turn, state: &State) -> u32 {
    if turn.attempts.is_empty() {
        return 0;
    }
    let earlier =
        state.items[..=index].iter().rev().take_while(|item| item.turn.as_ref() == Some(&turn.turn));
    let attempt = earlier.into_iter().find_map(|item| item.attempt.as_ref());
    let known = turn.attempts.iter().rev().find(|known| Some(&known.attempt) == attempt);
    known.map_or(0, |attempt| attempt.step)
}

/// The turn with this id. It is usually one of the last.
pub(super) fn turn_of<'a>(id: &TurnId, state: &'a State) -> Option<&'a Turn> {
    state.turns.iter().rev().find(|turn| turn.turn == *id)
}

/// The item with this id. It is usually one of the last.
pub(super) fn item_of<'a>(id: &ItemId, state: &'a State) -> Option<&'a Item> {
    state.items.iter().rev().find(|item| item.id == *id)
}

/// Whether the subagent of a tool call did anything that is shown.
pub(super) fn has_subagent(call: &ItemId, state: &State) -> bool {
    state.items.iter().any(|item| item.parent.as_ref() == Some(call) && is_work(item))
}

/// Whether the call of a subagent, or something that it does besides one item, is open.
pub(super) fn is_at_work(call: &ItemId, state: &State, besides: Option<&ItemId>) -> bool {
    let is_its =
        |item: &Item| Some(&item.id) != besides && (item.id == *call || item.parent.as_ref() == Some(call));
    state.items.iter().any(|item| item.is_open() && is_its(item))
}

/// The calls of subagents that did anything that is shown, in the order of their first work.
pub(super) fn subagents(state: &State) -> Vec<&ItemId> {
    let mut seen = HashSet::new();
    let calls = state.items.iter().filter(|item| is_work(item)).filter_map(|item| item.parent.as_ref());
    calls.filter(|call| seen.insert(*call)).collect()
}

fn is_work(item: &Item) -> bool {
    item.kind != ItemKind::Plan && !is_users(item)
}
