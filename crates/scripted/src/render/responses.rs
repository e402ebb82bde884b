//! OpenAI responses: every item whole once more when it is done, every event numbered.

use super::body::json;
use super::{Event, Identity, Pace};
use crate::reply::{Arguments, Completion, ErrorBody, Finish, Part, Pieces, Usage};
use serde::Serialize;
use serde_json::{Value, json};

/// An event with its type and number in front.
#[derive(Serialize)]
struct Numbered<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    sequence_number: usize,
    #[serde(flatten)]
    rest: Value,
}

struct Stream<'a> {
    identity: &'a Identity,
    events: Vec<Event>,
    output: Vec<Value>,
}

pub(super) fn stream(completion: &Completion, identity: &Identity) -> Vec<Event> {
    let mut stream = Stream { identity, events: Vec::new(), output: Vec::new() };
    let opening = response(identity, "in_progress", Vec::new());
    stream.push("response.created", Pace::AtOnce, json!({"response": opening}));
    stream.push("response.in_progress", Pace::AtOnce, json!({"response": opening}));
    for part in &completion.parts {
        match part {
            Part::Text { text } => stream.message(text),
            Part::Reasoning { text } => stream.reasoning(text),
            Part::ToolCall { name, arguments, id } => stream.function_call(name, arguments, id.as_deref()),
        }
    }
    if completion.finish() != Finish::Missing {
        let output = std::mem::take(&mut stream.output);
        let (kind, response) = finished(completion, identity, output);
        stream.push(kind, Pace::AtOnce, json!({"response": response}));
    }
    stream.events
}

pub(super) fn whole(completion: &Completion, identity: &Identity) -> impl Serialize {
    let items = completion.parts.iter().enumerate().map(|(index, part)| {
        let index = index as u64;
        match part {
            Part::Text { text } => message_item(identity, index, Some(&text.deltas().concat())),
            Part::Reasoning { text } => reasoning_item(identity, index, Some(&text.deltas().concat())),
            Part::ToolCall { name, arguments, id } => {
                let call = call_id(id.as_deref(), identity, index);
                call_item(identity, index, name, &call, Some(&arguments.deltas().concat()))
            }
        }
    });
    finished(completion, identity, items.collect()).1
}

/// The in-band error and the failed response that real streams send behind it, at this place in the stream.
pub(super) fn error_events(error: &ErrorBody, identity: &Identity, at: usize) -> Vec<Event> {
    let ErrorBody { kind, message, code } = error;
    let code = code.as_ref().unwrap_or(kind);
    let details = json!({"type": kind, "code": code, "message": message, "param": null});
    let mut failed = response(identity, "failed", Vec::new());
    failed["error"] = json!({"code": code, "message": message});
    vec![
        numbered("error", at, Pace::AtOnce, json!({"error": details})),
        numbered("response.failed", at + 1, Pace::AtOnce, json!({"response": failed})),
    ]
}

fn numbered(kind: &str, sequence_number: usize, pace: Pace, rest: Value) -> Event {
    Event::named(pace, kind, &json(&Numbered { kind, sequence_number, rest }))
}

fn finished(completion: &Completion, identity: &Identity, output: Vec<Value>) -> (&'static str, Value) {
    let finish = completion.finish();
    let reason = match &finish {
        Finish::Stop | Finish::ToolCalls | Finish::Missing => None,
        Finish::Length => Some("max_output_tokens"),
        Finish::ContentFilter => Some("content_filter"),
        Finish::Other(word) => Some(word.as_str()),
    };
    let (kind, status) = match reason {
        None => ("response.completed", "completed"),
        Some(_) => ("response.incomplete", "incomplete"),
    };
    let mut response = response(identity, status, output);
    response["incomplete_details"] = reason.map(|reason| json!({"reason": reason})).into();
    response["usage"] = usage(completion.usage);
    (kind, response)
}

fn response(identity: &Identity, status: &str, output: Vec<Value>) -> Value {
    json!({
        "id": identity.id("resp_", 0),
        "object": "response",
        "created_at": identity.created,
        "status": status,
        "background": false,
        "error": null,
        "incomplete_details": null,
        "instructions": null,
        "max_output_tokens": null,
        "metadata": {},
        "model": identity.asked.model,
        "output": output,
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "store": false,
        "temperature": 1,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1,
        "truncation": "disabled",
        "usage": null,
        "user": null,
    })
}

fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input.saturating_add(usage.output),
    })
}

fn output_text(text: &str) -> Value {
    json!({"type": "output_text", "annotations": [], "logprobs": [], "text": text})
}

/// An item is open without its content and done with it.
fn status(content: Option<&str>) -> &'static str {
    if content.is_some() { "completed" } else { "in_progress" }
}

fn message_item(identity: &Identity, index: u64, text: Option<&str>) -> Value {
    let content: Vec<Value> = text.map(output_text).into_iter().collect();
    json!({"id": identity.id("msg_", index), "type": "message", "status": status(text), "content": content,
        "role": "assistant"})
}

fn reasoning_item(identity: &Identity, index: u64, text: Option<&str>) -> Value {
    let summary: Vec<Value> =
        text.map(|text| json!({"type": "summary_text", "text": text})).into_iter().collect();
    json!({"id": identity.id("rs_", index), "type": "reasoning", "summary": summary})
}

fn call_item(identity: &Identity, index: u64, name: &str, call: &str, arguments: Option<&str>) -> Value {
    json!({"id": identity.id("fc_", index), "type": "function_call", "status": status(arguments),
        "arguments": arguments.unwrap_or_default(), "call_id": call, "name": name})
}

fn call_id(given: Option<&str>, identity: &Identity, index: u64) -> String {
    given.map_or_else(|| identity.id("call_", index + 1), str::to_owned)
}

// === impl Stream ===

impl Stream<'_> {
    fn push(&mut self, kind: &str, pace: Pace, rest: Value) {
        self.events.push(numbered(kind, self.events.len(), pace, rest));
    }

    fn index(&self) -> u64 {
        self.output.len() as u64
    }

    fn added(&mut self, item: Value) {
        let index = self.index();
        self.push("response.output_item.added", Pace::AtOnce, json!({"output_index": index, "item": item}));
    }

    fn done(&mut self, item: Value) {
        let index = self.index();
        self.push("response.output_item.done", Pace::AtOnce, json!({"output_index": index, "item": item}));
        self.output.push(item);
    }

    fn message(&mut self, text: &Pieces) {
        let index = self.index();
        self.added(message_item(self.identity, index, None));
        let place = json!({"item_id": self.identity.id("msg_", index), "output_index": index,
            "content_index": 0});
        let part = with(&place, "part", output_text(""));
        self.push("response.content_part.added", Pace::AtOnce, part);
        for delta in text.deltas() {
            let delta = with(&with(&place, "delta", delta.into()), "logprobs", json!([]));
            self.push("response.output_text.delta", Pace::Delta, delta);
        }
        let text = text.deltas().concat();
        let done = with(&with(&place, "text", text.clone().into()), "logprobs", json!([]));
        self.push("response.output_text.done", Pace::AtOnce, done);
        let part = with(&place, "part", output_text(&text));
        self.push("response.content_part.done", Pace::AtOnce, part);
        self.done(message_item(self.identity, index, Some(&text)));
    }

    fn reasoning(&mut self, text: &Pieces) {
        let index = self.index();
        self.added(reasoning_item(self.identity, index, None));
        let place = json!({"item_id": self.identity.id("rs_", index), "output_index": index,
            "summary_index": 0});
        let summary = |text: &str| json!({"type": "summary_text", "text": text});
        let part = with(&place, "part", summary(""));
        self.push("response.reasoning_summary_part.added", Pace::AtOnce, part);
        for delta in text.deltas() {
            let delta = with(&place, "delta", delta.into());
            self.push("response.reasoning_summary_text.delta", Pace::Delta, delta);
        }
        let text = text.deltas().concat();
        let done = with(&place, "text", text.clone().into());
        self.push("response.reasoning_summary_text.done", Pace::AtOnce, done);
        let part = with(&place, "part", summary(&text));
        self.push("response.reasoning_summary_part.done", Pace::AtOnce, part);
        self.done(reasoning_item(self.identity, index, Some(&text)));
    }

    fn function_call(&mut self, name: &str, arguments: &Arguments, given: Option<&str>) {
        let index = self.index();
        let call = call_id(given, self.identity, index);
        self.added(call_item(self.identity, index, name, &call, None));
        let place = json!({"item_id": self.identity.id("fc_", index), "output_index": index});
        for delta in arguments.deltas() {
            let delta = with(&place, "delta", delta.into());
            self.push("response.function_call_arguments.delta", Pace::Delta, delta);
        }
        let text = arguments.deltas().concat();
        let done = with(&place, "arguments", text.clone().into());
        self.push("response.function_call_arguments.done", Pace::AtOnce, done);
        self.done(call_item(self.identity, index, name, &call, Some(&text)));
    }
}

fn with(place: &Value, member: &str, value: Value) -> Value {
    let mut place = place.clone();
    place[member] = value;
    place
}
