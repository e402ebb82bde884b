//! Subagents as events of their own, which clients since 1.0 know. The dialect tags their work with the tool
//! call that began them.

use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

/// The subagents of one run.
#[derive(Default)]
pub(super) struct Subagents {
    /// The tool calls so far: their names, and the subagents that made them.
    calls: HashMap<String, (String, Option<String>)>,
    active: Vec<String>,
    ended: HashSet<String>,
}

impl Subagents {
    /// The events that must come before this one.
    pub(super) fn before(&mut self, event: &Value) -> Vec<Value> {
        match event["type"].as_str().unwrap_or_default() {
            "RUN_FINISHED" => {
                let end = match event["outcome"]["type"].as_str() {
                    Some("interrupt") => |id: &str| finished(id, "suspended"),
                    Some("cancelled") => |id: &str| failed(id, "cancelled"),
                    Some(_) | None => |id: &str| finished(id, "success"),
                };
                return self.end_all(end);
            }
            "RUN_ERROR" => return self.end_all(|id| failed(id, "abandoned")),
            "MESSAGES_SNAPSHOT" => {
                for message in event["messages"].as_array().into_iter().flatten() {
                    for call in message["toolCalls"].as_array().into_iter().flatten() {
                        self.note(&call["id"], &call["function"]["name"], &message["subagentRunId"]);
                    }
                }
            }
            "TOOL_CALL_START" => {
                self.note(&event["toolCallId"], &event["toolCallName"], &event["subagentRunId"]);
            }
            _ => {}
        }
        event["subagentRunId"].as_str().and_then(|id| self.start(id)).into_iter().collect()
    }

    /// The event that must come after this one: with the result of its call, a subagent has ended.
    pub(super) fn after(&mut self, event: &Value) -> Option<Value> {
        let call = event["toolCallId"].as_str().filter(|_| event["type"] == "TOOL_CALL_RESULT")?;
        let at = self.active.iter().position(|id| id == call)?;
        let id = self.active.remove(at);
        let end = match event["metadata"]["turnstream"]["state"].as_str() {
            None => finished(&id, "success"),
            Some(state) => failed(&id, state),
        };
        self.ended.insert(id);
        Some(end)
    }

    /// The run ends, and so do all of them, the innermost first.
    fn end_all(&mut self, end: impl Fn(&str) -> Value) -> Vec<Value> {
        std::mem::take(&mut self.active).iter().rev().map(|id| end(id)).collect()
    }

    fn note(&mut self, id: &Value, name: &Value, by: &Value) {
        if let (Some(id), Some(name)) = (id.as_str(), name.as_str()) {
            self.calls.insert(id.to_owned(), (name.to_owned(), by.as_str().map(str::to_owned)));
        }
    }

    /// Begins a subagent, unless it has begun. The client refuses a second beginning in one run.
    fn start(&mut self, id: &str) -> Option<Value> {
        let is_known = |id: &str| self.ended.contains(id) || self.active.iter().any(|active| active == id);
        if is_known(id) {
            return None;
        }
        let call = self.calls.get(id);
        let name = call.map_or("subagent", |(name, _)| name.as_str());
        let mut started = json!({
            "type": "SUBAGENT_STARTED", "subagentRunId": id, "name": name, "parentToolCallId": id,
        });
        if let Some(parent) = call.and_then(|(_, parent)| parent.as_deref()).filter(|parent| is_known(parent))
        {
            started["parentSubagentRunId"] = json!(parent);
        }
        self.active.push(id.to_owned());
        Some(started)
    }
}

fn failed(id: &str, state: &str) -> Value {
    let message = format!("The subagent's call is {state}.");
    json!({"type": "SUBAGENT_ERROR", "subagentRunId": id, "message": message, "code": state})
}

fn finished(id: &str, outcome: &str) -> Value {
    json!({"type": "SUBAGENT_FINISHED", "subagentRunId": id, "outcome": {"type": outcome}})
}

#[cfg(test)]
mod tests {
    use super::Subagents;
    use serde_json::{Value, json};

    fn told(events: &[Value]) -> Vec<String> {
        let mut subagents = Subagents::default();
        let mut told = Vec::new();
        for event in events {
            let before = subagents.before(event);
            let all = before.into_iter().chain([event.clone()]).chain(subagents.after(event));
            told.extend(all.map(|event| {
                let name = |member: &str| event[member].as_str().unwrap_or_default().to_owned();
                let id = name("subagentRunId") + &name("toolCallId");
                format!("{} {id} {}", name("type"), name("parentSubagentRunId")).trim_end().to_owned()
            }));
        }
        told
    }

    #[test]
    fn a_subagent_lasts_from_its_first_work_to_the_result_of_its_call_or_to_the_end_of_the_run() {
        let events = [
            json!({"type": "TOOL_CALL_START", "toolCallId": "a", "toolCallName": "Task"}),
            json!({"type": "TEXT_MESSAGE_START", "messageId": "1", "subagentRunId": "a"}),
            json!({"type": "TOOL_CALL_START", "toolCallId": "b", "toolCallName": "Task", "subagentRunId": "a"}),
            json!({"type": "TEXT_MESSAGE_START", "messageId": "2", "subagentRunId": "b"}),
            json!({"type": "TOOL_CALL_RESULT", "toolCallId": "b", "subagentRunId": "a"}),
            json!({"type": "TEXT_MESSAGE_END", "messageId": "2", "subagentRunId": "b"}),
            json!({"type": "RUN_FINISHED", "outcome": {"type": "interrupt"}}),
        ];
        let want = [
            "TOOL_CALL_START a",
            "SUBAGENT_STARTED a",
            "TEXT_MESSAGE_START a",
            "TOOL_CALL_START ab",
            "SUBAGENT_STARTED b a",
            "TEXT_MESSAGE_START b",
            "TOOL_CALL_RESULT ab",
            "SUBAGENT_FINISHED b",
            "TEXT_MESSAGE_END b",
            "SUBAGENT_FINISHED a",
            "RUN_FINISHED",
        ];
        assert_eq!(told(&events), want);
    }

    #[test]
    fn a_run_that_does_not_end_well_ends_its_subagents_with_an_error() {
        let work = json!({"type": "TEXT_MESSAGE_START", "messageId": "1", "subagentRunId": "a"});
        let cancelled = json!({"type": "RUN_FINISHED", "outcome": {"type": "cancelled"}});
        for end in [json!({"type": "RUN_ERROR", "message": "lost"}), cancelled] {
            let kind = end["type"].as_str().unwrap().to_owned();
            let want = ["SUBAGENT_STARTED a", "TEXT_MESSAGE_START a", "SUBAGENT_ERROR a", kind.as_str()];
            assert_eq!(told(&[work.clone(), end]), want);
        }
    }

    #[test]
    fn a_call_that_did_not_end_well_is_an_error() {
        let work = json!({"type": "TEXT_MESSAGE_START", "messageId": "1", "subagentRunId": "a"});
        let result = json!({
            "type": "TOOL_CALL_RESULT", "toolCallId": "a", "metadata": {"turnstream": {"state": "failed"}},
        });
        let want = ["SUBAGENT_STARTED a", "TEXT_MESSAGE_START a", "TOOL_CALL_RESULT a", "SUBAGENT_ERROR a"];
        assert_eq!(told(&[work, result]), want);
    }
}
