//! A part of a stored fold: the items before a place, and the turns and prompts that belong to them.

use super::PAGE_BYTES;
use crate::weight;
use std::collections::HashSet;
use turnstream_model::event::Event;
use turnstream_model::fold::{Item, Prompt, State};
use turnstream_model::id::{ItemId, PromptId, TurnId};

/// Turns without items that are taken along in one place; the oldest of more than these are left out.
pub(crate) const MOST_TURNS: usize = 500;

/// Which part is wanted.
#[derive(Clone, Debug)]
pub(crate) struct WindowQuery {
    /// The newest items that began before this one; `None` for the newest of all.
    pub(crate) before: Option<ItemId>,
    /// At most so many.
    pub(crate) limit: usize,
}

/// A part of a stored fold, as it was at one moment.
#[derive(Debug)]
pub(crate) struct Window {
    /// The stored fold with these items only, oldest first, and the turns from the one of the oldest item on
    /// up to the one of the item that was asked for, with their prompts. The newest turn is there in any
    /// case: an event after the fold may void items of it.
    pub(crate) state: State,
    /// Events after the fold that the store has too.
    pub(crate) tail: Vec<Event>,
    /// How far it reaches.
    pub(crate) reach: Reach,
    /// The turn of the item that was asked for, where that is stored.
    pub(crate) until: Option<TurnId>,
    /// Whether there are items before these.
    pub(crate) more: bool,
}

/// How far a window reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Up to the end of the stored fold: what began after it follows.
    Newest,
    /// Up to an item of the stored fold: what began after it is no part of it.
    Stored,
}

impl Window {
    /// The window of a whole fold.
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
        let turns = turns.iter().map(|&turn| state.turns[turn].clone()).collect();
        let state = State { turns, items, prompts, approvals: Vec::new(), questions: Vec::new(), ..state };
        Self { state, tail: Vec::new(), reach, until, more: start > 0 }
    }
}

/// Where the items before this one end.
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

/// The places of the turns that belong to these items.
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

/// What an item's id counts. Ids are no order by themselves; where an item is gone, the number is all that is
/// left of its place.
pub(crate) fn number_of(id: &str) -> Option<u64> {
    id.strip_prefix('i')?.parse().ok()
}

/// About how many bytes a prompt has.
pub(crate) fn weight_of_prompt(prompt: &Prompt) -> usize {
    weight::list(&prompt.content)
}
