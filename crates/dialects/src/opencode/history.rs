//! Sessions as opencode's server returns them: messages with their parts, to-do lists, open asks.

use super::asks;
use super::changes::{FileChange, by_file};
use super::ids::{Named, Names};
use super::infos;
use super::items::task_of;
use super::parts;
use super::place::{Place, item_of};
use super::todo::{self, Todo};
use crate::said::{is_echo, is_users};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use turnstream_model::event::ItemKind;
use turnstream_model::fold::{Item, PromptStage, State};
use turnstream_model::id::{ItemId, TurnId};
use turnstream_model::time::Time;

/// A message with its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its id.
    pub id: String,
    /// The turn that it belongs to. Waiting prompts and background work have none.
    pub turn: Option<TurnId>,
    /// Its description.
    pub info: Value,
    /// Its parts, by id.
    pub parts: Vec<Value>,
}

impl Message {
    /// The JSON of the server.
    pub fn to_json(&self) -> Value {
        json!({"info": self.info, "parts": self.parts})
    }
}

/// The messages of a session or of a subagent, in the order of their ids.
pub fn messages(state: &State, of: &Named) -> Vec<Message> {
    let names = Names::of(&state.session);
    let mut found = Messages { state, names: &names, by_id: BTreeMap::new() };
    match of {
        Named::Session => found.session(),
        Named::Subagent(call) => found.subagent(call),
    }
    found.by_id.into_values().collect()
}

struct Messages<'a> {
    state: &'a State,
    names: &'a Names,
    by_id: BTreeMap<String, Message>,
}

impl Messages<'_> {
    fn add(&mut self, turn: Option<TurnId>, info: Value, parts: Vec<Value>) {
        let id = info["id"].as_str().unwrap_or_default().to_owned();
        self.by_id.insert(id.clone(), Message { id, turn, info, parts });
    }

    fn session(&mut self) {
        let (state, names) = (self.state, self.names);
        let session = names.session();
        let said = state.prompts.iter().filter(|prompt| prompt.state != PromptStage::Withdrawn);
        for prompt in said.chain(&state.queue) {
            let info = infos::prompt(prompt, state, names);
            self.add(prompt.turn.clone(), info, parts::of_prompt(prompt, names));
        }
        let mut answers = self.answers(|place| !matches!(place, Place::Subagent(_)));
        for turn in &state.turns {
            let steps = turn.attempts.iter().map(|attempt| attempt.step);
            // A turn without any work has a message too: it has the error.
            let last = (!turn.is_open()).then(|| infos::last_step(turn));
            for step in steps.chain(last) {
                answers.entry(Place::step(turn, step)).or_default();
            }
            for attempt in turn.attempts.iter().filter(|attempt| attempt.superseded_by.is_none()) {
                let place = Place::step(turn, attempt.step);
                let parts = &mut answers.entry(place.clone()).or_default().parts;
                parts.push(parts::step_start(attempt, &place, names));
                if attempt.ended {
                    parts.push(parts::step_finish(attempt, &place, names));
                }
            }
        }
        self.add_answers(answers);
        for item in
            state.items.iter().filter(|item| is_users(item) && !item.is_open() && item.parent.is_none())
        {
            if is_echo(item, state) {
                continue;
            }
            let message = names.users_item(&item.id, item.time);
            let text = item.text.as_deref().unwrap_or_default();
            let part = parts::users_text(text, item.synthetic, &session, &message, names);
            let info = infos::user(&message, &session, item.turn.as_ref(), state, item.time);
            self.add(item.turn.clone(), info, vec![part]);
        }
    }

    fn subagent(&mut self, call: &ItemId) {
        let (state, names) = (self.state, self.names);
        if let Some(made_by) = item_of(call, state) {
            let (session, task) = (names.subagent(call), names.task(call));
            let text = task_of(made_by, &state.session.cwd);
            let part = parts::users_text(&text, false, &session, &task, names);
            let info = infos::user(&task, &session, made_by.turn.as_ref(), state, made_by.time);
            self.add(made_by.turn.clone(), info, vec![part]);
        }
        let answers = self.answers(|place| *place == Place::Subagent(call.clone()));
        self.add_answers(answers);
    }

    fn answers(&self, wanted: impl Fn(&Place) -> bool) -> BTreeMap<Place, Answer> {
        let mut answers: BTreeMap<Place, Answer> = BTreeMap::new();
        for (index, item) in self.state.items.iter().enumerate() {
            let Some(place) = Place::at(index, self.state).filter(&wanted) else { continue };
            let next = self.state.items.get(index + 1).filter(|next| next.turn == item.turn);
            let end = next.map_or(item.time, |next| next.time);
            let part = parts::at_place(item, &place, end, self.state, self.names);
            let answer = answers.entry(place).or_default();
            answer.last = Some(item.time);
            answer.parts.extend(part);
        }
        answers
    }

    fn add_answers(&mut self, answers: BTreeMap<Place, Answer>) {
        for (place, Answer { last, mut parts }) in answers {
            parts.sort_by(|one, other| one["id"].as_str().cmp(&other["id"].as_str()));
            let turn = match &place {
                Place::Step { turn, .. } => Some(turn.clone()),
                Place::Background { .. } | Place::Subagent(_) => None,
            };
            self.add(turn, infos::assistant(&place, last, self.state, self.names), parts);
        }
    }
}

#[derive(Default)]
struct Answer {
    last: Option<Time>,
    parts: Vec<Value>,
}

/// The calls of subagents that did something, in the order of their first work.
pub fn subagent_calls(state: &State) -> Vec<&ItemId> {
    super::place::subagents(state)
}

/// Whether a tool call has a subagent that did something.
pub fn has_subagent(state: &State, call: &ItemId) -> bool {
    super::place::has_subagent(call, state)
}

/// The to-do list of a session: that of its last plan, if it has one.
pub fn todos(state: &State) -> Option<Vec<Todo>> {
    let is_plan = |item: &&Item| item.kind == ItemKind::Plan && item.parent.is_none();
    state.items.iter().rev().find(is_plan).map(todo::of)
}

/// The changes that the completed edits of a session or of a subagent made, as far as they tell. Each file is
/// there once.
pub fn diffs(state: &State, of: &Named) -> Vec<FileChange> {
    let is_its = |item: &&Item| match of {
        Named::Session => item.kind == ItemKind::Tool,
        Named::Subagent(call) => item.kind == ItemKind::Tool && item.parent.as_ref() == Some(call),
    };
    let changes = state.items.iter().filter(is_its).flat_map(|item| {
        // Only its state is wanted, which is the same in every message.
        let place = Place::Background { item: item.id.clone(), time: item.time };
        let part = parts::at_place(item, &place, item.time, state, &Names::default());
        let completed = part.filter(|part| part["state"]["status"] == "completed");
        completed.map(|part| FileChange::in_metadata(&part["state"]["metadata"])).unwrap_or_default()
    });
    by_file(changes)
}

/// Permission requests that wait for an answer.
pub fn permissions(state: &State) -> Vec<Value> {
    let names = Names::of(&state.session);
    state.open().approvals.into_iter().map(|open| asks::permission(open, state, &names)).collect()
}

/// Questions that wait for an answer.
pub fn questions(state: &State) -> Vec<Value> {
    let names = Names::of(&state.session);
    state.open().questions.into_iter().map(|open| asks::question(open, state, &names)).collect()
}
