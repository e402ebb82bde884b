//! OpenAI responses: every item whole once more when it is done, every event numbered.

use super::body::json;
use super::{Event, Identity, Pace};
use crate::reply::{Arguments, Completion, ErrorBody, Finish, Part, Pieces, Usage};
use serde::Serialize;
use serde_json::{Value, json};

/// An event with its type and number in front.
#[derive(Serialize)]
struct Numbered<'a, R> {
    #[serde(rename = "type")]
    kind: &'a str,
    sequence_number: usize,
    #[serde(flatten)]
    rest: R,
}

/// What the events about the response as a whole carry.
#[derive(Serialize)]
struct Whole<'a> {
    response: &'a Response,
}

/// The members keep this order on the wire: that the id comes first is what a cut shows of it.
#[derive(Serialize)]
struct Response {
    id: String,
    object: &'static str,
    created_at: u64,
    status: Option<&'static str>,
    background: bool,
    error: Value,
    incomplete_details: Value,
    instructions: Option<String>,
    max_output_tokens: Option<u64>,
    metadata: Value,
    model: String,
    output: Vec<Value>,
    parallel_tool_calls: bool,
    previous_response_id: Option<String>,
    store: bool,
    temperature: u8,
    tool_choice: &'static str,
    tools: [Value; 0],
    top_p: u8,
    truncation: &'static str,
    usage: Value,
    user: Option<String>,
}

/// How far an item is.
#[derive(Clone, Copy)]
enum Item<'a> {
    /// Without its content.
    Open,
    /// With it, whole or up to where the response was cut short.
    Done { content: &'a str, status: &'static str },
}

struct Stream<'a> {
    identity: &'a Identity,
    completion: &'a Completion,
    events: Vec<Event>,
    output: Vec<Value>,
}

pub(super) fn stream(completion: &Completion, identity: &Identity) -> Vec<Event> {
    let mut stream = Stream { identity, completion, events: Vec::new(), output: Vec::new() };
    let opening = response(identity, Some("in_progress"), Vec::new());
    stream.push("response.created", Pace::AtOnce, Whole { response: &opening });
    stream.push("response.in_progress", Pace::AtOnce, Whole { response: &opening });
    for part in &completion.parts {
        match part {
            Part::Text { text } => stream.message(text),
            Part::Reasoning { text } => stream.reasoning(text),
            Part::ToolCall { name, arguments, id } => stream.function_call(name, arguments, id.as_deref()),
        }
    }
    let output = std::mem::take(&mut stream.output);
    let response = finished(completion, identity, output);
    if let Some(status) = response.status {
        stream.push(&format!("response.{status}"), Pace::AtOnce, Whole { response: &response });
    }
    stream.events
}

pub(super) fn whole(completion: &Completion, identity: &Identity) -> impl Serialize {
    let items = completion.parts.iter().enumerate().map(|(index, part)| {
        let index = index as u64;
        let status = item_status(completion, index);
        match part {
            Part::Text { text } => {
                let content = &text.deltas().concat();
                message_item(identity, index, Item::Done { content, status })
            }
            Part::Reasoning { text } => {
                let content = &text.deltas().concat();
                reasoning_item(identity, index, Item::Done { content, status })
            }
            Part::ToolCall { name, arguments, id } => {
                let call = call_id(id.as_deref(), identity, index);
                let content = &arguments.deltas().concat();
                call_item(identity, index, name, &call, Item::Done { content, status })
            }
        }
    });
    finished(completion, identity, items.collect())
}

/// The in-band error and the failed response that real streams send behind it, at this place in the stream.
pub(super) fn error_events(error: &ErrorBody, identity: &Identity, at: usize) -> Vec<Event> {
    let ErrorBody { kind, message, code } = error;
    let code = code.as_ref().unwrap_or(kind);
    let details = json!({"type": kind, "code": code, "message": message, "param": null});
    let mut failed = response(identity, Some("failed"), Vec::new());
    failed.error = json!({"code": code, "message": message});
    vec![
        numbered("error", at, Pace::AtOnce, json!({"error": details})),
        numbered("response.failed", at + 1, Pace::AtOnce, Whole { response: &failed }),
    ]
}

fn numbered(kind: &str, sequence_number: usize, pace: Pace, rest: impl Serialize) -> Event {
    Event::named(pace, kind, &json(&Numbered { kind, sequence_number, rest }))
}

/// The status of a response that is over; a finish that is missing is a status that is missing.
fn status(finish: &Finish) -> Option<&'static str> {
    match finish {
        Finish::Stop | Finish::ToolCalls => Some("completed"),
        Finish::Length | Finish::ContentFilter | Finish::Other(_) => Some("incomplete"),
        Finish::Missing => None,
    }
}

/// A response that was cut short was cut in its last item.
fn item_status(completion: &Completion, index: u64) -> &'static str {
    let last = index + 1 == completion.parts.len() as u64;
    match status(&completion.finish()) {
        Some(status) if last => status,
        Some(_) | None => "completed",
    }
}

fn finished(completion: &Completion, identity: &Identity, output: Vec<Value>) -> Response {
    let finish = completion.finish();
    let mut response = response(identity, status(&finish), output);
    response.incomplete_details = match &finish {
        Finish::Stop | Finish::ToolCalls | Finish::Missing => Value::Null,
        Finish::Length => json!({"reason": "max_output_tokens"}),
        Finish::ContentFilter => json!({"reason": "content_filter"}),
        Finish::Other(word) => json!({"reason": word}),
    };
    response.usage = usage(completion.usage);
    response
}

fn response(identity: &Identity, status: Option<&'static str>, output: Vec<Value>) -> Response {
    Response {
        id: identity.id("resp_", 0),
        object: "response",
        created_at: identity.created,
        status,
        background: false,
        error: Value::Null,
        incomplete_details: Value::Null,
        instructions: None,
        max_output_tokens: None,
        metadata: json!({}),
        model: identity.asked.model.clone(),
        output,
        parallel_tool_calls: true,
        previous_response_id: None,
        store: false,
        temperature: 1,
        tool_choice: "auto",
        tools: [],
        top_p: 1,
        truncation: "disabled",
        usage: Value::Null,
        user: None,
    }
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

fn message_item(identity: &Identity, index: u64, item: Item<'_>) -> Value {
    let content: Vec<Value> = item.content().map(output_text).into_iter().collect();
    json!({"id": identity.id("msg_", index), "type": "message", "status": item.status(), "content": content,
        "role": "assistant"})
}

fn reasoning_item(identity: &Identity, index: u64, item: Item<'_>) -> Value {
    let summary: Vec<Value> =
        item.content().map(|text| json!({"type": "summary_text", "text": text})).into_iter().collect();
    json!({"id": identity.id("rs_", index), "type": "reasoning", "summary": summary})
}

fn call_item(identity: &Identity, index: u64, name: &str, call: &str, item: Item<'_>) -> Value {
    let (namespace, name) = name.split_once('/').map_or((None, name), |(space, name)| (Some(space), name));
    let mut item = json!({"id": identity.id("fc_", index), "type": "function_call", "status": item.status(),
        "arguments": item.content().unwrap_or_default(), "call_id": call, "name": name});
    if let Some(namespace) = namespace {
        item["namespace"] = namespace.into();
    }
    item
}

fn call_id(given: Option<&str>, identity: &Identity, index: u64) -> String {
    given.map_or_else(|| identity.id("call_", index + 1), str::to_owned)
}

// === impl Item ===

impl<'a> Item<'a> {
    fn content(self) -> Option<&'a str> {
        match self {
            Self::Open => None,
            Self::Done { content, .. } => Some(content),
        }
    }

    fn status(self) -> &'static str {
        match self {
            Self::Open => "in_progress",
            Self::Done { status, .. } => status,
        }
    }
}

// === impl Stream ===

impl Stream<'_> {
    fn push(&mut self, kind: &str, pace: Pace, rest: impl Serialize) {
        self.events.push(numbered(kind, self.events.len(), pace, rest));
    }

    /// The item at hand with its content.
    fn whole_item<'c>(&self, content: &'c str) -> Item<'c> {
        Item::Done { content, status: item_status(self.completion, self.index()) }
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
        self.added(message_item(self.identity, index, Item::Open));
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
        self.done(message_item(self.identity, index, self.whole_item(&text)));
    }

    fn reasoning(&mut self, text: &Pieces) {
        let index = self.index();
        self.added(reasoning_item(self.identity, index, Item::Open));
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
        self.done(reasoning_item(self.identity, index, self.whole_item(&text)));
    }

    fn function_call(&mut self, name: &str, arguments: &Arguments, given: Option<&str>) {
        let index = self.index();
        let call = call_id(given, self.identity, index);
        self.added(call_item(self.identity, index, name, &call, Item::Open));
        let place = json!({"item_id": self.identity.id("fc_", index), "output_index": index});
        for delta in arguments.deltas() {
            let delta = with(&place, "delta", delta.into());
            self.push("response.function_call_arguments.delta", Pace::Delta, delta);
        }
        let text = arguments.deltas().concat();
        let done = with(&place, "arguments", text.clone().into());
        self.push("response.function_call_arguments.done", Pace::AtOnce, done);
        self.done(call_item(self.identity, index, name, &call, self.whole_item(&text)));
    }
}

fn with(place: &Value, member: &str, value: Value) -> Value {
    let mut place = place.clone();
    place[member] = value;
    place
}
