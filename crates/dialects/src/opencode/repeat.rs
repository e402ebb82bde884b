//! What a client that has missed something is told again: whole messages and parts, and never a delta.

use super::encoder::{is_busy, is_parked, status};
use super::history::{self, Message};
use super::ids::{Named, Names};
use super::infos;
use super::place::{is_at_work, subagents};
use super::write::Events;
use crate::dialect::FrameSink;
use serde_json::json;
use turnstream_model::fold::{State, Turn};
use turnstream_model::time::Time;

/// Whether clients are told again that a session is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// For clients that may have missed the end of a turn.
    Told,
    /// For clients that take every idle as the end of their own prompt.
    LeftOut,
    /// For clients that have missed the end of a turn for sure. They are told in full that it is over.
    Missed,
}

/// The whole conversation, the status, and what waits for a person.
pub(super) fn conversation(state: &State, out: &mut impl FrameSink) {
    write(state, None, Idle::Told, out);
}

/// The status of a session, its open turn, turns that ended at this time or later, prompts that wait, and
/// what waits for a person.
pub fn since(state: &State, since: Time, idle: Idle, out: &mut impl FrameSink) {
    write(state, Some(since), idle, out);
}

fn write(state: &State, since: Option<Time>, idle: Idle, out: &mut impl FrameSink) {
    let names = Names::of(&state.session);
    let updated = last_time(state);
    let mut buffer = Vec::new();
    let out = &mut Events::new(out, &mut buffer, state.seq, updated);
    if state.session.id.is_none() {
        return;
    }
    out.session("session.updated", &infos::session(&state.session, updated));
    let recent = recent(state, since);
    for message in history::messages(&recent, &Named::Session) {
        add(&message, out);
    }
    for call in subagents(&recent) {
        out.session("session.updated", &infos::subagent(call, state));
        for message in history::messages(&recent, &Named::Subagent(call.clone())) {
            add(&message, out);
        }
        let kind = if is_at_work(call, state, None) { "busy" } else { "idle" };
        match idle {
            Idle::LeftOut if kind == "idle" => {}
            Idle::Told | Idle::LeftOut | Idle::Missed => {
                out.status(&names.subagent(call), kind);
            }
        }
    }
    if let Some(todos) = history::todos(&recent).filter(|todos| !todos.is_empty()) {
        out.add("todo.updated", &json!({"sessionID": names.session(), "todos": todos}));
    }
    match idle {
        Idle::Missed if !is_busy(state) => out.idle(&names.session()),
        Idle::LeftOut if !is_busy(state) => {}
        Idle::Told | Idle::LeftOut | Idle::Missed => out.add("session.status", &status(state, &names)),
    }
    if is_parked(state) && !is_busy(state) && idle != Idle::Told {
        out.add("session.status", &status(state, &names));
    }
    for request in history::permissions(state) {
        out.add("permission.asked", &request);
    }
    for request in history::questions(state) {
        out.add("question.asked", &request);
    }
}

fn add<S: FrameSink>(message: &Message, out: &mut Events<'_, S>) {
    out.message(&message.info);
    for part in &message.parts {
        out.part(part);
    }
}

/// The state with the turns that are open or ended since then.
fn recent(state: &State, since: Option<Time>) -> State {
    let mut recent = state.clone();
    let Some(since) = since else { return recent };
    let is_recent = |turn: &Turn| turn.ended.is_none_or(|ended| ended >= since);
    recent.turns.retain(is_recent);
    let turns: Vec<_> = recent.turns.iter().map(|turn| turn.turn.clone()).collect();
    recent.items.retain(|item| match &item.turn {
        Some(turn) => turns.contains(turn),
        None => item.is_open() || item.time >= since,
    });
    recent.prompts.retain(|prompt| prompt.turn.as_ref().is_some_and(|turn| turns.contains(turn)));
    recent
}

/// The last time that the state has.
fn last_time(state: &State) -> Time {
    let turn = state.turns.last().map(|turn| turn.ended.unwrap_or(turn.started));
    let item = state.items.last().map(|item| item.time);
    turn.max(item).or(state.session.created).unwrap_or(Time(0))
}
