//! OpenAI chat completions.

use super::body::json;
use super::{Event, Identity, Pace};
use crate::reply::{Completion, Finish, Part, Usage};
use serde::Serialize;
use serde_json::{Value, json};

/// One object of the format. The members keep this order on the wire: that the id comes first is what a cut
/// in the middle of an event shows of it.
#[derive(Serialize)]
struct Object {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
    choices: Vec<Choice>,
    /// Present with null in every other chunk of a stream that carries usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Value>,
}

/// The only choice. A stream has a delta, a whole answer has a message.
#[derive(Serialize)]
struct Choice {
    index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Value>,
    finish_reason: Option<String>,
}

struct Stream<'a> {
    identity: &'a Identity,
    events: Vec<Event>,
}

pub(super) fn stream(completion: &Completion, identity: &Identity) -> Vec<Event> {
    let mut stream = Stream { identity, events: Vec::new() };
    stream.delta(Pace::AtOnce, json!({"role": "assistant", "content": ""}));
    let mut calls = 0;
    for part in &completion.parts {
        match part {
            Part::Text { text } => {
                text.deltas().iter().for_each(|delta| stream.delta(Pace::Delta, json!({"content": delta})));
            }
            Part::Reasoning { text } => {
                let deltas = text.deltas();
                deltas
                    .iter()
                    .for_each(|delta| stream.delta(Pace::Delta, json!({"reasoning_content": delta})));
            }
            Part::ToolCall { name, arguments, id } => {
                let opening = json!({"index": calls, "id": call_id(id.as_deref(), identity, calls),
                    "type": "function", "function": {"name": name, "arguments": ""}});
                stream.delta(Pace::AtOnce, json!({"tool_calls": [opening]}));
                for delta in arguments.deltas() {
                    let piece = json!({"index": calls, "function": {"arguments": delta}});
                    stream.delta(Pace::Delta, json!({"tool_calls": [piece]}));
                }
                calls += 1;
            }
        }
    }
    if let Some(reason) = finish_reason(&completion.finish()) {
        stream.finish(reason, identity.asked.include_usage.then_some(completion.usage));
    }
    stream.events
}

pub(super) fn whole(completion: &Completion, identity: &Identity) -> impl Serialize {
    let mut content = String::new();
    let mut reasoning = String::new();
    let mut calls = Vec::new();
    for part in &completion.parts {
        match part {
            Part::Text { text } => content.push_str(&text.deltas().concat()),
            Part::Reasoning { text } => reasoning.push_str(&text.deltas().concat()),
            Part::ToolCall { name, arguments, id } => calls.push(json!({
                "id": call_id(id.as_deref(), identity, calls.len() as u64), "type": "function",
                "function": {"name": name, "arguments": arguments.deltas().concat()}})),
        }
    }
    // OpenAI says null where a model only calls tools.
    let content = if content.is_empty() && !calls.is_empty() { Value::Null } else { content.into() };
    let mut message = json!({"role": "assistant", "content": content});
    if !reasoning.is_empty() {
        message["reasoning_content"] = reasoning.into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let finish_reason = finish_reason(&completion.finish());
    let choice = Choice { index: 0, delta: None, message: Some(message), finish_reason };
    Object {
        id: identity.id("chatcmpl-", 0),
        object: "chat.completion",
        created: identity.created,
        model: identity.asked.model.clone(),
        choices: vec![choice],
        usage: Some(usage(completion.usage)),
    }
}

/// The data of an in-band error.
pub(super) fn error_events(body: &Value) -> Vec<Event> {
    vec![Event::data(Pace::AtOnce, &json(body))]
}

fn call_id(given: Option<&str>, identity: &Identity, call: u64) -> String {
    given.map_or_else(|| identity.id("call_", call + 1), str::to_owned)
}

fn finish_reason(finish: &Finish) -> Option<String> {
    let word = match finish {
        Finish::Stop => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::Length => "length",
        Finish::ContentFilter => "content_filter",
        Finish::Other(word) => word,
        Finish::Missing => return None,
    };
    Some(word.to_owned())
}

fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input.saturating_add(usage.output),
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    })
}

// === impl Stream ===

impl Stream<'_> {
    fn delta(&mut self, pace: Pace, delta: Value) {
        let choice = Choice { index: 0, delta: Some(delta), message: None, finish_reason: None };
        self.push(pace, vec![choice], None);
    }

    /// The finish, the usage in a chunk without choices if it was asked for, and the end marker.
    fn finish(&mut self, reason: String, counts: Option<Usage>) {
        let choice = Choice { index: 0, delta: Some(json!({})), message: None, finish_reason: Some(reason) };
        self.push(Pace::AtOnce, vec![choice], None);
        if let Some(counts) = counts {
            self.push(Pace::AtOnce, Vec::new(), Some(usage(counts)));
        }
        self.events.push(Event::data(Pace::AtOnce, "[DONE]"));
    }

    fn push(&mut self, pace: Pace, choices: Vec<Choice>, usage: Option<Value>) {
        let usage = usage.or_else(|| self.identity.asked.include_usage.then_some(Value::Null));
        let object = Object {
            id: self.identity.id("chatcmpl-", 0),
            object: "chat.completion.chunk",
            created: self.identity.created,
            model: self.identity.asked.model.clone(),
            choices,
            usage,
        };
        self.events.push(Event::data(pace, &json(&object)));
    }
}
