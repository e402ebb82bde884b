//! A conversation on a desk: step by step, with or without its machine, and everything it says and calls laid out.

use serde_json::{Value, json};
use std::sync::Arc;
use turnstream_agents::opencode::conduct::{Answer, Budget, Call, Conductor, Pace, PromptAnswer, Shelf};
use turnstream_agents::opencode::event::Event as AgentEvent;
use turnstream_agents::opencode::solo::Solo;
use turnstream_agents::{Command, Observed};
use turnstream_model::event::{Event, Outcome, Permissions};
use turnstream_model::fold::{Fold, State};
use turnstream_model::time::Time;

pub(crate) const SESSION: &str = "ses_1";
pub(crate) const ONE: &str = "msg_1e0bba842001m4GyH0hPa967vW";
pub(crate) const TWO: &str = "msg_1e0bba942001m4GyH0hPa967vW";
const START: u64 = 1_794_770_000_000;

/// A conversation without a machine: what it says and what it calls.
pub(crate) struct Talk {
    pub(crate) conductor: Conductor,
    pub(crate) now: u64,
}

pub(crate) fn parse(kind: &str, mut properties: Value) -> Arc<AgentEvent> {
    if properties["sessionID"].is_null() && kind != "unscoped" {
        properties["sessionID"] = json!(SESSION);
    }
    Arc::new(
        AgentEvent::parse(json!({"type": kind, "properties": properties}).to_string().as_bytes()).unwrap(),
    )
}

pub(crate) fn answer_info(id: &str, parent: &str, more: Value) -> Value {
    let mut info = json!({"id": id, "sessionID": SESSION, "role": "assistant", "parentID": parent,
        "modelID": "m", "providerID": "lab", "time": {"created": 1.0}});
    for (name, value) in more.as_object().unwrap() {
        info[name] = value.clone();
    }
    info
}

pub(crate) fn text_part(id: &str, message: &str, text: &str, over: bool) -> Value {
    let time = if over { json!({"start": 1.0, "end": 2.0}) } else { json!({"start": 1.0}) };
    json!({"part": {"id": id, "messageID": message, "sessionID": SESSION, "type": "text", "text": text, "time": time}})
}

impl Talk {
    pub(crate) fn with(budget: Budget) -> Self {
        let mut conductor = Conductor::new(SESSION, Pace::default(), budget, Time(START));
        conductor.connected(None, Time(START));
        Self { conductor, now: START }
    }

    pub(crate) fn new() -> Self {
        Self::with(Budget::default())
    }

    pub(crate) fn prompt(&mut self, name: &str) {
        let content = vec![json!({"type": "text", "text": "go"})];
        self.conductor.command(Command::Prompt { native_id: name.to_owned(), content }, Time(self.now));
    }

    pub(crate) fn calls(&mut self) -> Vec<Call> {
        std::iter::from_fn(|| self.conductor.call()).collect()
    }

    pub(crate) fn said(&mut self) -> Vec<Observed> {
        std::iter::from_fn(|| self.conductor.observed()).collect()
    }

    pub(crate) fn event(&mut self, kind: &str, properties: Value) {
        self.conductor.event(&parse(kind, properties), Time(self.now));
    }

    pub(crate) fn status(&mut self, status: &str) {
        self.event("session.status", json!({"status": {"type": status}}));
        if status == "idle" {
            self.event("session.idle", json!({}));
        }
    }

    pub(crate) fn answer(&mut self, answer: Answer) {
        self.conductor.answer(answer, Time(self.now));
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        self.now += millis;
        self.conductor.tick(Time(self.now));
    }
}

/// A conversation with its machine.
pub(crate) struct Desk {
    pub(crate) solo: Solo,
    pub(crate) now: u64,
    pub(crate) log: Vec<Event>,
    pub(crate) calls: Vec<Call>,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let conductor = Conductor::new(SESSION, Pace::default(), Budget::default(), Time(START));
        let mut solo = Solo::new(conductor, SESSION, "/w", Permissions::Ask, Time(START));
        solo.connected(None, Time(START));
        let mut desk = Self { solo, now: START, log: Vec::new(), calls: Vec::new() };
        desk.drain();
        desk
    }

    pub(crate) fn drain(&mut self) {
        while let Some(event) = self.solo.take_event() {
            self.log.push(event);
        }
        while let Some(call) = self.solo.call() {
            self.calls.push(call);
        }
    }

    pub(crate) fn prompt(&mut self, name: &str) {
        let content = vec![json!({"type": "text", "text": "go"})];
        self.solo.prompt(name.to_owned(), content, Time(self.now)).unwrap();
        self.drain();
    }

    pub(crate) fn event(&mut self, kind: &str, properties: Value) {
        self.solo.event(&parse(kind, properties), Time(self.now));
        self.drain();
    }

    pub(crate) fn status(&mut self, status: &str) {
        self.event("session.status", json!({"status": {"type": status}}));
        if status == "idle" {
            self.event("session.idle", json!({}));
        }
    }

    pub(crate) fn answer(&mut self, answer: Answer) {
        self.solo.answer(answer, Time(self.now));
        self.drain();
    }

    /// Time passes; every question to the server is answered with this shelf.
    pub(crate) fn pass(&mut self, millis: u64, shelf: &Shelf) {
        let end = self.now + millis;
        for _ in 0..1_000 {
            while let Some(place) = self.calls.iter().position(|call| matches!(call, Call::Shelf { .. })) {
                self.calls.remove(place);
                self.answer(Answer::Shelf(Ok(Box::new(shelf.clone()))));
            }
            let Some(due) = self.solo.deadline().filter(|due| due.0 <= end) else { break };
            self.now = self.now.max(due.0);
            self.solo.tick(Time(self.now));
            self.drain();
        }
        self.now = end;
    }

    pub(crate) fn aborts(&self) -> usize {
        self.calls.iter().filter(|call| **call == Call::Abort).count()
    }

    pub(crate) fn state(&self) -> State {
        Fold::of(&self.log).state().clone()
    }

    pub(crate) fn outcomes(&self) -> Vec<Option<Outcome>> {
        self.state().turns.iter().map(|turn| turn.outcome).collect()
    }

    /// A whole turn of one answer.
    pub(crate) fn whole_turn(&mut self, prompt: &str, answer: &str, part: &str) {
        self.prompt(prompt);
        self.answer(Answer::Prompt(ONE.to_owned(), PromptAnswer::Accepted));
        self.begins(prompt, answer, part);
        self.ends(prompt, answer, part);
    }

    pub(crate) fn begins(&mut self, prompt: &str, answer: &str, part: &str) {
        self.status("busy");
        self.event("message.updated", json!({"info": answer_info(answer, prompt, json!({}))}));
        self.event("message.part.updated", text_part(part, answer, "", false));
    }

    pub(crate) fn ends(&mut self, prompt: &str, answer: &str, part: &str) {
        self.event("message.part.updated", text_part(part, answer, "Done.", true));
        let over = json!({"finish": "stop", "time": {"created": 1.0, "completed": 2.0}});
        self.event("message.updated", json!({"info": answer_info(answer, prompt, over)}));
        self.status("idle");
    }
}

pub(crate) fn shelf(value: Value) -> Box<Shelf> {
    let read = |member: &str| serde_json::from_value(value[member].clone()).unwrap();
    Box::new(Shelf {
        busy: value["busy"].as_bool().unwrap(),
        messages: serde_json::from_value(value["messages"].clone()).unwrap(),
        children: Vec::new(),
        permissions: if value["permissions"].is_null() { Vec::new() } else { read("permissions") },
        questions: Vec::new(),
        lacking: Vec::new(),
    })
}
