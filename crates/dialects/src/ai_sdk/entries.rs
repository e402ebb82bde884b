//! The parts of a turn in the order in which a client gets them, and the step that each belongs to.

use super::chunks::TextKind;
use super::profile::Profile;
use std::collections::BTreeSet;
use turnstream_model::event::{ItemKind, Role};
use turnstream_model::fold::{Approval, Asked, Item, State, Turn};
use turnstream_model::id::{ItemId, TurnId};

/// How an item is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text(TextKind),
    Call,
    /// A data part with this name.
    Data(&'static str),
    /// Text in the user's name: the chunks have no word for it.
    Hidden,
}

/// Where the client has a call. The input of one in an earlier step would make a second part; its request,
/// its answer and its output find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShownIn {
    LastStep,
    EarlierStep,
}

/// One part, or the parts of one item.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entry<'a> {
    Item(&'a Item),
    /// An approval that is a call of its own: it is for no call that is shown, or the client has none.
    Approval(&'a Approval),
    Question(&'a Asked),
}

pub(super) fn form(item: &Item) -> Form {
    let is_subagents = item.parent.is_some();
    match (item.kind, item.role) {
        (ItemKind::Message, Some(Role::User)) => Form::Hidden,
        (ItemKind::Message | ItemKind::Reasoning, _) if item.synthetic => Form::Hidden,
        (ItemKind::Message | ItemKind::Reasoning, _) if is_subagents => Form::Data("subagent"),
        (ItemKind::Message, Some(Role::Assistant) | None) => Form::Text(TextKind::Text),
        (ItemKind::Reasoning, _) => Form::Text(TextKind::Reasoning),
        (ItemKind::Tool, _) => Form::Call,
        (ItemKind::Plan, _) => Form::Data("plan"),
        (ItemKind::File, _) => Form::Data("file"),
        (ItemKind::Compaction, _) => Form::Data("compaction"),
    }
}

/// Whether an approval is shown at the call that it is for.
pub(super) fn is_at_call(state: &State, approval: &Approval, profile: Profile) -> bool {
    let is_call = |item: &Item| form(item) == Form::Call && item.turn == approval.turn;
    let call = approval.item.as_ref().and_then(|id| find(state, id));
    profile.has_approvals() && call.is_some_and(is_call)
}

/// An item by its id. The newest are at the end.
pub(super) fn find<'a>(state: &'a State, id: &ItemId) -> Option<&'a Item> {
    state.items.iter().rev().find(|item| item.id == *id)
}

/// The entries of a turn, in order.
pub(super) fn of_turn<'a>(state: &'a State, turn: &TurnId, profile: Profile) -> Vec<Entry<'a>> {
    let is_of = |of: &Option<TurnId>| of.as_ref() == Some(turn);
    let items = state.items.iter().filter(|item| is_of(&item.turn) && form(item) != Form::Hidden);
    let approvals = state.approvals.iter();
    let approvals = approvals.filter(|asked| is_of(&asked.turn) && !is_at_call(state, asked, profile));
    let questions = state.questions.iter().filter(|asked| is_of(&asked.turn));
    let mut entries: Vec<Entry<'a>> = items.map(Entry::Item).collect();
    entries.extend(approvals.map(Entry::Approval));
    entries.extend(questions.map(Entry::Question));
    // Stable: of one moment, the items come first.
    entries.sort_by_key(|entry| match entry {
        Entry::Item(item) => item.time,
        Entry::Approval(asked) => asked.time,
        Entry::Question(asked) => asked.time,
    });
    entries
}

/// The step of an entry, if its model call is known.
pub(super) fn step_of(entry: &Entry<'_>, turn: &Turn) -> Option<u32> {
    match entry {
        Entry::Item(item) => step_of_item(item, turn),
        Entry::Approval(_) | Entry::Question(_) => None,
    }
}

pub(super) fn step_of_item(item: &Item, turn: &Turn) -> Option<u32> {
    let id = item.attempt.as_ref()?;
    turn.attempts.iter().rev().find(|attempt| attempt.attempt == *id).map(|attempt| attempt.step)
}

/// The steps of a turn.
pub(super) fn steps(turn: &Turn) -> BTreeSet<u32> {
    turn.attempts.iter().map(|attempt| attempt.step).collect()
}

/// The entries of the last step. Without model calls, all are of one step.
pub(super) fn of_last_step<'a>(state: &'a State, turn: &Turn, profile: Profile) -> Vec<Entry<'a>> {
    let mut entries = of_turn(state, &turn.turn, profile);
    let Some(last) = steps(turn).last().copied() else { return entries };
    let first = entries.iter().position(|entry| step_of(entry, turn) == Some(last));
    entries.split_off(first.unwrap_or(entries.len()))
}

/// Whether an item is in the last step.
pub(super) fn is_in_last_step(state: &State, turn: &Turn, item: &Item, profile: Profile) -> bool {
    let Some(last) = steps(turn).last().copied() else { return true };
    match step_of_item(item, turn) {
        Some(step) => step == last,
        None => of_last_step(state, turn, profile)
            .iter()
            .any(|entry| matches!(entry, Entry::Item(known) if known.id == item.id)),
    }
}
