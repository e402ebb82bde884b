//! A turn from its state: from nothing, or from what a client already has.

use super::asks;
use super::calls::{self, Executed};
use super::chunks::{Mark, TextKind, bare, data, text_delta, text_end, text_start, transient};
use super::ends;
use super::entries::{self, Entry, Form, ShownIn, form};
use super::held::Held;
use super::profile::Profile;
use crate::dialect::FrameSink;
use serde_json::json;
use turnstream_model::fold::{Item, Retry, State, Turn};
use turnstream_model::id::TurnId;
use turnstream_model::time::Time;

/// What a client gets of a turn that waits for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhileWaiting {
    /// Everything, because more will follow.
    All,
    /// No calls that began after the request: the response ends there. Clients send an approval only if no
    /// other call of the step is unfinished, and these come when the turn goes on.
    UpToRequest,
}

/// Writes a turn as it is in this state, without what the client has.
pub(super) fn turn(
    out: &mut impl FrameSink,
    state: &State,
    turn: &Turn,
    held: &Held,
    waiting: WhileWaiting,
    profile: Profile,
) {
    ends::start(out, state, turn);
    let request = match waiting {
        WhileWaiting::All => None,
        WhileWaiting::UpToRequest => first_request(state, turn),
    };
    let steps = entries::steps(turn);
    let written = state.items.iter().filter(|item| held.has(item.id.as_str()));
    let mut step = written.filter_map(|item| entries::step_of_item(item, turn)).max().unwrap_or(0);
    let had = step;
    for entry in entries::of_turn(state, &turn.turn, profile) {
        if request.is_some_and(|request| is_held_back(state, &entry, request)) {
            continue;
        }
        let of_entry = entries::step_of(&entry, turn);
        for _ in steps.iter().filter(|next| (step + 1..=of_entry.unwrap_or(0)).contains(next)) {
            bare(out, "start-step");
        }
        step = of_entry.unwrap_or(0).max(step);
        let is_last = step == had && of_entry.is_none_or(|of_entry| of_entry == had);
        let shown_in = if is_last { ShownIn::LastStep } else { ShownIn::EarlierStep };
        write(out, state, &entry, held, shown_in, profile);
    }
    for _ in steps.iter().filter(|next| **next > step) {
        bare(out, "start-step");
    }
    let is_gone = |id: &&str| !is_shown(state, turn, id);
    let gone: Vec<&str> = held.ids().into_iter().filter(is_gone).collect();
    superseded(out, &gone);
    if let Some(retry) = state.session.retry.as_ref().filter(|_| turn.is_open()) {
        retrying(out, retry);
    }
    ends::end(out, state, turn, profile);
}

/// Writes an entry, or what the client lacks of it. `shown_in` is where the client has it.
fn write(
    out: &mut impl FrameSink,
    state: &State,
    entry: &Entry<'_>,
    held: &Held,
    shown_in: ShownIn,
    profile: Profile,
) {
    match entry {
        Entry::Item(known) if held.has(known.id.as_str()) => rest(out, state, known, held, shown_in, profile),
        Entry::Item(new) => item(out, state, new, profile),
        Entry::Approval(asked) if held.has(asked.approval.as_str()) => {
            asks::approval_outcome(out, asked, profile);
        }
        Entry::Approval(asked) => asks::approval(out, asked, profile),
        Entry::Question(asked) if held.has(asked.question.as_str()) => asks::question_outcome(out, asked),
        Entry::Question(asked) => asks::question(out, asked),
    }
}

/// Writes an entry whole.
pub(super) fn entry(out: &mut impl FrameSink, state: &State, entry: &Entry<'_>, profile: Profile) {
    write(out, state, entry, &Held::default(), ShownIn::LastStep, profile);
}

/// Writes an item as it is, whole.
pub(super) fn item(out: &mut impl FrameSink, state: &State, item: &Item, profile: Profile) {
    match form(item) {
        Form::Hidden => {}
        Form::Text(kind) => text(out, kind, item, item.text.as_deref().unwrap_or_default(), Mark::None),
        Form::Data(name) => note(out, name, item),
        Form::Call => {
            calls::start(out, item, profile);
            let has_input = item.tool.as_ref().is_some_and(|tool| tool.input.is_some());
            if let Some(input) = item.input.as_deref().filter(|input| !input.is_empty() && !has_input) {
                calls::input_delta(out, item.id.as_str(), input);
            }
            if has_input || !item.is_open() {
                calls::input_available(out, item, None, Executed::ByAgent, profile);
            }
            // Without a word for the answer, an answered request would look like an open one.
            let asked = calls::approval_of(state, item, profile);
            if let Some(asked) = asked.filter(|asked| asked.is_open() || profile.is_newest()) {
                asks::request(out, item, asked, ShownIn::LastStep, profile);
                asks::response(out, asked, profile);
            }
            if item.is_open() {
                calls::preliminary(out, item);
            } else {
                calls::output(out, state, item, profile);
            }
        }
    }
}

/// Writes what a client lacks of an item that it has.
fn rest(
    out: &mut impl FrameSink,
    state: &State,
    item: &Item,
    held: &Held,
    shown_in: ShownIn,
    profile: Profile,
) {
    let id = item.id.as_str();
    match form(item) {
        Form::Hidden => {}
        Form::Data(name) => note(out, name, item),
        Form::Text(kind) => {
            let whole = item.text.as_deref().unwrap_or_default();
            match held.text(id).and_then(|had| whole.strip_prefix(had)) {
                Some("") if !item.is_open() => {}
                Some(more) => text(out, kind, item, more, Mark::Continues),
                // Its text was replaced.
                None => text(out, kind, item, whole, Mark::None),
            }
        }
        Form::Call => {
            let Some(call) = held.call(id) else { return };
            if call.has_ended() {
                return;
            }
            let has_input = item.tool.as_ref().is_some_and(|tool| tool.input.is_some());
            let asked = calls::approval_of(state, item, profile);
            match asked {
                Some(asked) if asked.is_open() && call.state != "approval-requested" => {
                    asks::request(out, item, asked, shown_in, profile);
                }
                Some(asked) if asked.is_open() => {}
                _ if shown_in == ShownIn::EarlierStep => {}
                // Without a word for the answer: the call is no longer asked about.
                Some(_) if call.state == "approval-requested" && !profile.is_newest() => {
                    calls::input_available(out, item, None, Executed::ByAgent, profile);
                }
                _ if call.state == "input-streaming" && (has_input || !item.is_open()) => {
                    calls::input_available(out, item, None, Executed::ByAgent, profile);
                }
                _ => {}
            }
            if let Some(asked) = asked.filter(|_| call.state.starts_with("approval-")) {
                asks::response(out, asked, profile);
            }
            if !item.is_open() {
                calls::output(out, state, item, profile);
            }
        }
    }
}

/// A text part, which stays open as long as its item.
fn text(out: &mut impl FrameSink, kind: TextKind, item: &Item, text: &str, mark: Mark) {
    text_start(out, kind, item, mark);
    if !text.is_empty() {
        text_delta(out, kind, item.id.as_str(), text, &mut Vec::new());
    }
    if !item.is_open() {
        // The end repeats the mark if it says anything at all.
        text_end(out, kind, item, if item.incomplete { mark } else { Mark::None });
    }
}

/// An item for which the SDK has no part: its text, and how far it has come.
pub(super) fn note(out: &mut impl FrameSink, name: &str, item: &Item) {
    let content = json!({
        "item": item.id,
        "kind": item.kind,
        "parent": item.parent,
        "text": item.text.as_deref().unwrap_or_default(),
        "state": item.state,
    });
    data(out, name, item.id.as_str(), content);
}

/// Parts that no longer count, for clients that cannot take them back.
pub(super) fn superseded(out: &mut impl FrameSink, items: &[&str]) {
    if let [first, ..] = items {
        data(out, "superseded", &format!("superseded-{first}"), json!({"items": items}));
    }
}

/// The agent waits to repeat a model call.
pub(super) fn retrying(out: &mut impl FrameSink, retry: &Retry) {
    let mut status = json!(retry);
    status["status"] = json!("retrying");
    transient(out, "status", status);
}

/// Whether a turn waits for a person.
pub(super) fn is_waiting(state: &State, turn: &Turn) -> bool {
    first_request(state, turn).is_some()
}

/// When a person was first asked what is still open.
fn first_request(state: &State, turn: &Turn) -> Option<Time> {
    let is_its = |of: &Option<TurnId>| of.as_ref() == Some(&turn.turn);
    let approvals = state.approvals.iter().filter(|asked| asked.is_open() && is_its(&asked.turn));
    let questions = state.questions.iter().filter(|asked| asked.is_open() && is_its(&asked.turn));
    approvals.map(|asked| asked.time).chain(questions.map(|asked| asked.time)).min()
}

/// Whether an entry is a call that began after the request, is unfinished, and is not asked about.
fn is_held_back(state: &State, entry: &Entry<'_>, request: Time) -> bool {
    match entry {
        Entry::Item(item) => {
            let is_asked = state.approvals.iter().any(|asked| asked.item.as_ref() == Some(&item.id));
            form(item) == Form::Call && item.is_open() && item.time >= request && !is_asked
        }
        Entry::Approval(_) | Entry::Question(_) => false,
    }
}

/// Whether a part with this id still counts.
fn is_shown(state: &State, turn: &Turn, id: &str) -> bool {
    let is_item = |item: &Item| item.id.as_str() == id && item.turn.as_ref() == Some(&turn.turn);
    state.items.iter().any(is_item)
        || state.approvals.iter().any(|asked| asked.approval.as_str() == id)
        || state.questions.iter().any(|asked| asked.question.as_str() == id)
}
