//! What a client of opencode has after some events. It follows the rules of opencode's own TUI: whole
//! messages and parts replace, deltas append, and a delta for an unknown part is lost.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use turnstream_dialects::opencode::{self, Named, Names};
use turnstream_model::fold::State;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Store {
    sessions: BTreeMap<String, Value>,
    status: BTreeMap<String, Value>,
    /// Messages with their parts, by session.
    messages: BTreeMap<String, BTreeMap<String, Message>>,
    todos: BTreeMap<String, Value>,
    asks: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Message {
    info: Value,
    parts: BTreeMap<String, Value>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

impl Store {
    pub(super) fn of(events: &[Value]) -> Self {
        let mut store = Self::default();
        for event in events {
            store.apply(event);
        }
        store
    }

    pub(super) fn apply(&mut self, event: &Value) {
        let properties = &event["properties"];
        match event["type"].as_str().unwrap() {
            "session.created" | "session.updated" => {
                self.sessions.insert(text(&properties["sessionID"]), properties["info"].clone());
            }
            "session.deleted" => {
                let session = text(&properties["sessionID"]);
                self.sessions.remove(&session);
                self.status.remove(&session);
                self.messages.remove(&session);
            }
            "session.status" => {
                self.status.insert(text(&properties["sessionID"]), properties["status"].clone());
            }
            "message.updated" => {
                let info = properties["info"].clone();
                assert_eq!(info["sessionID"], properties["sessionID"]);
                self.messages_of(&info["sessionID"]).entry(text(&info["id"])).or_default().info =
                    info.clone();
            }
            "message.removed" => {
                let gone = self.messages_of(&properties["sessionID"]).remove(&text(&properties["messageID"]));
                assert!(gone.is_some(), "an unknown message is removed: {event}");
            }
            "message.part.updated" => {
                let part = properties["part"].clone();
                let message = self.message(&part["sessionID"], &part["messageID"], event);
                message.parts.insert(text(&part["id"]), part);
            }
            "message.part.delta" => {
                assert_eq!(properties["field"], "text");
                let message = self.message(&properties["sessionID"], &properties["messageID"], event);
                let part = message.parts.get_mut(&text(&properties["partID"])).expect("a known part");
                let grown = text(&part["text"]) + properties["delta"].as_str().unwrap();
                part["text"] = json!(grown);
            }
            "message.part.removed" => {
                let message = self.message(&properties["sessionID"], &properties["messageID"], event);
                assert!(message.parts.remove(&text(&properties["partID"])).is_some(), "{event}");
            }
            "todo.updated" => {
                self.todos.insert(text(&properties["sessionID"]), properties["todos"].clone());
            }
            "permission.asked" | "question.asked" => {
                self.asks.insert(text(&properties["id"]), properties.clone());
            }
            "permission.replied" | "question.replied" | "question.rejected" => {
                assert!(self.asks.remove(&text(&properties["requestID"])).is_some(), "{event}");
            }
            "session.idle" | "session.error" | "session.compacted" => {}
            other => panic!("{other} is not an event that this client knows"),
        }
    }

    fn messages_of(&mut self, session: &Value) -> &mut BTreeMap<String, Message> {
        self.messages.entry(text(session)).or_default()
    }

    fn message(&mut self, session: &Value, message: &Value, event: &Value) -> &mut Message {
        let known = self.messages_of(session).get_mut(&text(message));
        known.unwrap_or_else(|| panic!("a part of an unknown message: {event}"))
    }

    /// Without times: a state does not have the ends of items.
    pub(super) fn for_comparison(mut self) -> Self {
        let infos = self.messages.values_mut().flatten().map(|(_, message)| message);
        for message in infos {
            drop_times(&mut message.info);
            message.parts.values_mut().for_each(drop_times);
        }
        self.sessions.values_mut().for_each(drop_times);
        self.messages.retain(|_, messages| !messages.is_empty());
        // An empty list is the same as none, and idle the same as unknown.
        self.todos.retain(|_, todos| todos.as_array().is_some_and(|todos| !todos.is_empty()));
        self.status.retain(|_, status| status["type"] != "idle");
        self
    }

    /// What the functions of history say of a state, in the same form.
    pub(super) fn of_state(state: &State) -> Self {
        let names = Names::of(&state.session);
        let mut store = Self::default();
        let mut places = vec![(names.session(), Named::Session)];
        let calls: std::collections::BTreeSet<_> =
            state.items.iter().filter_map(|item| item.parent.clone()).collect();
        places.extend(calls.into_iter().map(|call| (names.subagent(&call), Named::Subagent(call))));
        for (session, place) in places {
            for message in opencode::messages(state, &place) {
                let parts = message.parts.iter().map(|part| (text(&part["id"]), part.clone())).collect();
                let known = Message { info: message.info, parts };
                store.messages.entry(session.clone()).or_default().insert(message.id, known);
            }
        }
        store.todos.insert(names.session(), json!(opencode::todos(state).unwrap_or_default()));
        store.status.insert(names.session(), opencode::status_of(state));
        for ask in opencode::permissions(state).into_iter().chain(opencode::questions(state)) {
            store.asks.insert(text(&ask["id"]), ask);
        }
        store
    }

    /// What both know, for a comparison with a state. An ask may be about a call of an earlier turn, of which
    /// only the state knows more.
    pub(super) fn messages_and_asks(self) -> (impl std::fmt::Debug + PartialEq, Vec<String>) {
        let Self { mut messages, asks, .. } = self.for_comparison();
        // The task of a subagent is told once, as its call described it then.
        messages
            .values_mut()
            .for_each(|messages| messages.retain(|id, _| !id.starts_with("msg_000000000001")));
        messages.retain(|_, messages| !messages.is_empty());
        (messages, asks.into_keys().collect())
    }
}

fn drop_times(value: &mut Value) {
    if let Some(members) = value.as_object_mut() {
        members.remove("time");
        if let Some(state) = members.get_mut("state").and_then(Value::as_object_mut) {
            state.remove("time");
        }
    }
}
