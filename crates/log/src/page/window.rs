//! A window of a stored fold: the items before a position, with their turns and prompts.

use super::PAGE_BYTES;
use crate::weight;
use std::collections::HashSet;
use turnstream_model::event::Event;
use turnstream_model::fold::{Item, Prompt, State, Turn};
use turnstream_model::id::{ItemId, PromptId, TurnId};

/// The most turns without items in one window. The oldest ones beyond this are left out.
pub(crate) const MOST_TURNS: usize = 500;

/// The most approvals, and the most questions, in a window. Older ones are left out. Those that are open are
/// among the newest: a turn closes its own before it ends.
pub(crate) const MOST_WAITS: usize = 200;

/// A query for a window.
#[derive(Clone, Debug)]
pub(crate) struct WindowQuery {
    /// The newest items that began before this one. `None` for the newest of all.
    pub(crate) before: Option<ItemId>,
    /// The largest number of items.
    pub(crate) limit: usize,
}

/// A window of a stored fold, read at one moment.
#[derive(Debug)]
pub(crate) struct Window {
    /// The stored fold with only these items, oldest first. Its turns reach from the turn of the oldest item
    /// to the turn of the requested item, with their prompts. The newest turn is always included, because an
    /// event after the fold may void its items. Its approvals and questions are those of its turns, and maybe
    /// others.
    pub(crate) state: State,
    /// Stored events after the fold.
    pub(crate) tail: Vec<Event>,
    /// Where the window ends.
    pub(crate) reach: Reach,
    /// The turn of the requested item, if that item is stored.
    pub(crate) until: Option<TurnId>,
    /// Whether there are older items.
    pub(crate) more: bool,
}

/// Where a window ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// At the end of the stored fold: newer items follow.
    Newest,
    /// At an item of the stored fold: newer items do not belong to the window.
    Stored,
}

impl Window {
    /// The window of a complete fold.
    pub(crate) fn of(state: State, wanted: &WindowQuery) -> Self {
        let (end, reach) = match &wanted.before {
            None => (state.items.len(), Reach::Newest),
            Some(id) => place_of(&state, id),
        };
        let asked = wanted.before.as_ref().and_then(|id| state.items.get(end).filter(|item| item.id == *id));
        let until = asked.and_then(|item| item.turn.clone());
        let start = start_of(&state.items[..end], wanted.limit);
        let items = state.items[start..end].to_vec();
        let turns = turns_of(&state, &items, until.as_ref(), reach, start > 0);
        let named: HashSet<&PromptId> = turns.iter().flat_map(|&turn| &state.turns[turn].prompts).collect();
        let prompts = state.prompts.iter().filter(|prompt| named.contains(&prompt.prompt)).cloned().collect();
        let turns: Vec<Turn> = turns.iter().map(|&turn| state.turns[turn].clone()).collect();
        let is_wanted = |turn: &Option<TurnId>| match wanted.before {
            None => true,
            Some(_) => turns.iter().any(|known| turn.as_ref() == Some(&known.turn)),
        };
        let approvals = newest(state.approvals.iter().filter(|ask| is_wanted(&ask.turn)));
        let questions = newest(state.questions.iter().filter(|asked| is_wanted(&asked.turn)));
        let state = State { turns, items, prompts, approvals, questions, ..state };
        Self { state, tail: Vec::new(), reach, until, more: start > 0 }
    }
}

fn newest<'a, T: Clone + 'a>(waits: impl DoubleEndedIterator<Item = &'a T>) -> Vec<T> {
    let mut newest: Vec<T> = waits.rev().take(MOST_WAITS).cloned().collect();
    newest.reverse();
    newest
}

/// The end of the items before this one.
fn place_of(state: &State, id: &ItemId) -> (usize, Reach) {
    if let Some(place) = state.items.iter().position(|item| item.id == *id) {
        return (place, Reach::Stored);
    }
    match number_of(id.as_str()) {
        Some(number) if number <= state.counters.items => {
            let is_before = |item: &Item| number_of(item.id.as_str()).is_none_or(|its| its < number);
            (state.items.partition_point(is_before), Reach::Stored)
        }
        _ => (state.items.len(), Reach::Newest),
    }
}

fn start_of(items: &[Item], limit: usize) -> usize {
    let mut bytes = 0;
    let fits = |item: &&Item| {
        let is_first = bytes == 0;
        bytes += weight::item(item);
        is_first || bytes <= PAGE_BYTES
    };
    items.len() - items.iter().rev().take(limit).take_while(fits).count()
}

/// The indexes of the turns that belong to these items.
fn turns_of(state: &State, items: &[Item], until: Option<&TurnId>, reach: Reach, more: bool) -> Vec<usize> {
    let at = |id: &TurnId| state.turns.iter().position(|turn| turn.turn == *id);
    let places: Vec<usize> = items.iter().filter_map(|item| at(item.turn.as_ref()?)).collect();
    let last = state.turns.len().saturating_sub(1);
    let first = if more { places.iter().min().copied() } else { Some(0) };
    let end = match reach {
        Reach::Newest => Some(last),
        Reach::Stored => until.and_then(at).or(places.iter().max().copied()),
    };
    let mut turns: Vec<usize> = match (first, end) {
        (Some(first), Some(end)) if !state.turns.is_empty() => {
            let first = first.max((end + 1).saturating_sub(MOST_TURNS.max(items.len())));
            (first..=end).chain(places).collect()
        }
        _ => places,
    };
    turns.extend((!state.turns.is_empty()).then_some(last));
    turns.sort_unstable();
    turns.dedup();
    turns
}

/// The counter in an item's id. Ids do not define an order; but for a removed item, this number is all that
/// is known of its position.
pub(crate) fn number_of(id: &str) -> Option<u64> {
    id.strip_prefix('i')?.parse().ok()
}

/// The approximate size of a prompt in bytes.
pub(crate) fn weight_of_prompt(prompt: &Prompt) -> usize {
    weight::list(&prompt.content)
}
