//! What a client of AG-UI has after some events. It follows the rules of `@ag-ui/client` 1.0.0: what its
//! verifier refuses panics here, a start of a known message continues it, and a list of messages replaces.

use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Thread {
    messages: BTreeMap<String, Value>,
    interrupts: Vec<Value>,
    run: Run,
    open: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Run {
    #[default]
    None,
    Open,
    Failed,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

impl Thread {
    pub(super) fn of(events: &[Value]) -> Self {
        let mut thread = Self::default();
        for event in events {
            thread.apply(event);
        }
        thread
    }

    fn apply(&mut self, event: &Value) {
        assert!(event.as_object().unwrap().values().all(|member| !member.is_null()), "null: {event}");
        let kind = event["type"].as_str().unwrap();
        if kind == "RUN_STARTED" {
            assert!(self.run != Run::Open, "a run inside of a run: {event}");
            assert!(event["threadId"].is_string() && event["runId"].is_string(), "{event}");
            self.run = Run::Open;
            self.interrupts.clear();
            return;
        }
        assert!(self.run == Run::Open, "outside of a run: {event}");
        match kind {
            "RUN_FINISHED" => {
                assert!(self.open.is_empty(), "{:?} is open: {event}", self.open);
                self.run = Run::None;
                if event["outcome"]["type"] == "interrupt" {
                    self.interrupts = event["outcome"]["interrupts"].as_array().unwrap().clone();
                    assert!(!self.interrupts.is_empty(), "{event}");
                }
            }
            "RUN_ERROR" => {
                assert!(event["message"].is_string(), "{event}");
                self.open.clear();
                self.run = Run::Failed;
            }
            "TEXT_MESSAGE_START" => {
                self.begin(event, json!({"role": event["role"], "content": ""}));
            }
            "REASONING_MESSAGE_START" => {
                self.begin(event, json!({"role": "reasoning", "content": ""}));
            }
            "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT" => {
                let id = self.opened(&event["messageId"], event);
                let Some(message) = self.messages.get_mut(&id) else { return };
                assert_eq!(message.get("subagentRunId"), event.get("subagentRunId"), "{event}");
                message["content"] = json!(text(&message["content"]) + &text(&event["delta"]));
            }
            "TEXT_MESSAGE_END" | "REASONING_MESSAGE_END" => {
                let id = self.opened(&event["messageId"], event);
                self.open.remove(&id);
                self.note(&id, event);
            }
            "REASONING_START" | "REASONING_END" | "CUSTOM" => {}
            "TOOL_CALL_START" => {
                let id = text(&event["toolCallId"]);
                assert!(self.open.insert(id.clone()), "an open call begins: {event}");
                let call = json!({"name": event["toolCallName"], "arguments": ""});
                let message = json!({"role": "assistant", "toolCalls": [call]});
                self.messages.entry(id).or_insert_with(|| tagged(message, event));
            }
            "TOOL_CALL_ARGS" => {
                let id = self.opened(&event["toolCallId"], event);
                let call = &mut self.messages.get_mut(&id).unwrap()["toolCalls"][0];
                call["arguments"] = json!(text(&call["arguments"]) + &text(&event["delta"]));
            }
            "TOOL_CALL_END" => {
                let id = self.opened(&event["toolCallId"], event);
                self.open.remove(&id);
            }
            "TOOL_CALL_RESULT" => {
                let (id, call) = (text(&event["messageId"]), &event["toolCallId"]);
                let message = json!({"role": "tool", "toolCallId": call, "content": event["content"]});
                let before = self.messages.insert(id.clone(), tagged(message, event));
                assert_eq!(before, None, "a second result: {event}");
                self.note(&id, event);
            }
            "ACTIVITY_SNAPSHOT" => {
                let id = text(&event["messageId"]);
                let (kind, content) = (&event["activityType"], &event["content"]);
                let message = json!({"role": "activity", "activityType": kind, "content": content});
                self.messages.insert(id.clone(), tagged(message, event));
                self.note(&id, event);
            }
            "MESSAGES_SNAPSHOT" => self.list(event),
            other => panic!("{other} is not an event that this client knows"),
        }
    }

    fn begin(&mut self, event: &Value, message: Value) {
        let id = text(&event["messageId"]);
        assert!(self.open.insert(id.clone()), "an open message begins: {event}");
        self.messages.entry(id.clone()).or_insert_with(|| tagged(message, event));
        self.note(&id, event);
    }

    fn opened(&self, id: &Value, event: &Value) -> String {
        let id = text(id);
        assert!(self.open.contains(&id), "not open: {event}");
        id
    }

    /// Metadata lands on the message.
    fn note(&mut self, id: &str, event: &Value) {
        if let (Some(message), Some(metadata)) = (self.messages.get_mut(id), event.get("metadata")) {
            message["metadata"] = metadata.clone();
        }
    }

    fn list(&mut self, event: &Value) {
        let listed = event["messages"].as_array().unwrap();
        let has_thinking = listed.iter().any(|message| message["role"] == "reasoning");
        let owned = event["metadata"]["@ag-ui/client"]["authoritativeActivityTypes"].as_array().unwrap();
        self.messages.retain(|_, message| {
            (message["role"] == "reasoning" && !has_thinking)
                || (message["role"] == "activity" && !owned.contains(&message["activityType"]))
        });
        for message in listed {
            let mut message = message.as_object().unwrap().clone();
            let id = text(&message.remove("id").unwrap());
            if let Some(calls) = message.get("toolCalls").and_then(Value::as_array) {
                let calls: Vec<Value> = calls.iter().map(|call| call["function"].clone()).collect();
                message.insert("toolCalls".to_owned(), json!(calls));
            }
            self.messages.insert(id, Value::Object(message));
        }
    }

    /// Without what a list of messages cannot take away, and without what came after the end of its turn.
    pub(super) fn for_comparison(mut self, revised: &BTreeSet<String>) -> Self {
        self.messages.retain(|id, message| {
            let is_void = message["role"] == "reasoning" && message["content"] == "";
            !is_void && !revised.contains(id.trim_end_matches(".result"))
        });
        if self.run == Run::Failed {
            self.run = Run::None;
        }
        self
    }
}

fn tagged(message: Value, event: &Value) -> Value {
    let mut message: Map<String, Value> = message.as_object().unwrap().clone();
    if let Some(subagent) = event.get("subagentRunId") {
        message.insert("subagentRunId".to_owned(), subagent.clone());
    }
    Value::Object(message)
}
