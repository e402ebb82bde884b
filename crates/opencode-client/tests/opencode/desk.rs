//! A conversation on a desk: step by step, with or without its machine, and everything it says and calls
//! laid out.

use serde_json::{Value, json};
use std::sync::Arc;
use turnstream_adapter::{Command, Observed};
use turnstream_model::event::{Event, Outcome, Permissions};
use turnstream_model::fold::{Fold, State};
use turnstream_model::time::Time;
use turnstream_opencode_client::conversation::{
    Answer, Budget, Call, Conversation, Pace, PromptAnswer, SessionSnapshot,
};
use turnstream_opencode_client::event::Event as AgentEvent;
use turnstream_opencode_client::standalone::StandaloneConversation;

pub(crate) const SESSION: &str = "ses_1";
pub(crate) const ONE: &str = "msg_1e0bba842001m4GyH0hPa967vW";
pub(crate) const TWO: &str = "msg_1e0bba942001m4GyH0hPa967vW";
const START: u64 = 1_794_770_000_000;

/// A conversation without a machine: what it says and what it calls.
pub(crate) struct Talk {
    pub(crate) conversation: Conversation,
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
        Self::of(Pace::default(), budget)
    }

    pub(crate) fn paced(pace: Pace) -> Self {
        Self::of(pace, Budget::default())
    }

    fn of(pace: Pace, budget: Budget) -> Self {
        let mut conversation = Conversation::new(SESSION, pace, budget, Time(START));
        conversation.connected(None, Time(START));
        Self { conversation, now: START }
    }

    pub(crate) fn new() -> Self {
        Self::with(Budget::default())
    }

    pub(crate) fn prompt(&mut self, name: &str) {
        let content = vec![json!({"type": "text", "text": "go"})];
        self.conversation.command(Command::Prompt { native_id: name.to_owned(), content }, Time(self.now));
    }

    pub(crate) fn calls(&mut self) -> Vec<Call> {
        std::iter::from_fn(|| self.conversation.next_call()).collect()
    }

    pub(crate) fn said(&mut self) -> Vec<Observed> {
        std::iter::from_fn(|| self.conversation.next_observed()).collect()
    }

    pub(crate) fn event(&mut self, kind: &str, properties: Value) {
        self.conversation.event(&parse(kind, properties), Time(self.now));
    }

    pub(crate) fn status(&mut self, status: &str) {
        self.event("session.status", json!({"status": {"type": status}}));
        if status == "idle" {
            self.event("session.idle", json!({}));
        }
    }

    pub(crate) fn answer(&mut self, answer: Answer) {
        self.conversation.answer(answer, Time(self.now));
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        self.now += millis;
        self.conversation.tick(Time(self.now));
    }
}

/// A conversation with its machine.
pub(crate) struct Desk {
    pub(crate) standalone: StandaloneConversation,
    pub(crate) now: u64,
    pub(crate) log: Vec<Event>,
    pub(crate) calls: Vec<Call>,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let conversation = Conversation::new(SESSION, Pace::default(), Budget::default(), Time(START));
        let mut standalone =
            StandaloneConversation::new(conversation, SESSION, "/w", Permissions::Ask, Time(START));
        standalone.connected(None, Time(START));
        let mut desk = Self { standalone, now: START, log: Vec::new(), calls: Vec::new() };
        desk.drain();
        desk
    }

    pub(crate) fn drain(&mut self) {
        while let Some(event) = self.standalone.take_event() {
            self.log.push(event);
        }
        while let Some(call) = self.standalone.next_call() {
            self.calls.push(call);
        }
    }

    pub(crate) fn prompt(&mut self, name: &str) {
        let content = vec![json!({"type": "text", "text": "go"})];
        self.standalone.prompt(name.to_owned(), content, Time(self.now)).unwrap();
        self.drain();
    }

    pub(crate) fn event(&mut self, kind: &str, properties: Value) {
        self.standalone.event(&parse(kind, properties), Time(self.now));
        self.drain();
    }

    pub(crate) fn status(&mut self, status: &str) {
        self.event("session.status", json!({"status": {"type": status}}));
        if status == "idle" {
            self.event("session.idle", json!({}));
        }
    }

    pub(crate) fn answer(&mut self, answer: Answer) {
        self.standalone.answer(answer, Time(self.now));
        self.drain();
    }

    /// Time passes; every question to the server is answered with this snapshot.
    pub(crate) fn pass(&mut self, millis: u64, snapshot: &SessionSnapshot) {
        let end = self.now + millis;
        for _ in 0..1_000 {
            while let Some(place) = self.calls.iter().position(|call| matches!(call, Call::Snapshot { .. })) {
                self.calls.remove(place);
                self.answer(Answer::Snapshot(Ok(Box::new(snapshot.clone()))));
            }
            let Some(due) = self.standalone.deadline().filter(|due| due.0 <= end) else { break };
            self.now = self.now.max(due.0);
            self.standalone.tick(Time(self.now));
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

pub(crate) fn snapshot(value: Value) -> Box<SessionSnapshot> {
    let read = |member: &str| serde_json::from_value(value[member].clone()).unwrap();
    Box::new(SessionSnapshot {
        busy: value["busy"].as_bool().unwrap(),
        messages: serde_json::from_value(value["messages"].clone()).unwrap(),
        children: Vec::new(),
        permissions: if value["permissions"].is_null() { Vec::new() } else { read("permissions") },
        questions: Vec::new(),
        unread_parts: Vec::new(),
    })
}
