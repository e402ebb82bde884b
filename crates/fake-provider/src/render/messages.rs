//! Anthropic messages. The members of every event are those of the events that Claude Code shows in its
//! `stream_event` lines (`fixtures/claude`).

use super::body::json;
use super::{Event, Identity, Pace};
use crate::reply::{Completion, Finish, Part, Pieces, Usage};
use serde::Serialize;
use serde_json::{Value, json};

/// An event with its type in front, as on the real wire.
#[derive(Serialize)]
struct Typed<'a, R> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(flatten)]
    rest: R,
}

#[derive(Serialize)]
struct Start {
    message: Message,
}

/// The members keep this order on the wire: that the id comes first is what a cut shows of it.
#[derive(Serialize)]
struct Message {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    model: String,
    content: Vec<Value>,
    stop_reason: Option<String>,
    stop_sequence: Option<String>,
    usage: Value,
}

#[derive(Default)]
struct Stream {
    events: Vec<Event>,
    block: u64,
}

pub(super) fn stream(completion: &Completion, identity: &Identity) -> Vec<Event> {
    let mut stream = Stream::default();
    let mut message = message(completion, identity, Vec::new());
    message.usage["output_tokens"] = 1.into();
    stream.push("message_start", Pace::AtOnce, Start { message });
    stream.push("ping", Pace::AtOnce, json!({}));
    for part in &completion.parts {
        stream.part(part, identity);
    }
    if let Some(reason) = stop_reason(&completion.finish()) {
        let delta = json!({"stop_reason": reason, "stop_sequence": null});
        let usage = delta_usage(completion.usage);
        stream.push("message_delta", Pace::AtOnce, json!({"delta": delta, "usage": usage}));
        stream.push("message_stop", Pace::AtOnce, json!({}));
    }
    stream.events
}

pub(super) fn whole(completion: &Completion, identity: &Identity) -> impl Serialize {
    let blocks = completion.parts.iter().enumerate().map(|(index, part)| match part {
        Part::Text { text } => json!({"type": "text", "text": text.deltas().concat()}),
        Part::Reasoning { text } => json!({"type": "thinking", "thinking": text.deltas().concat(),
            "signature": signature(identity, index as u64)}),
        Part::ToolCall { name, arguments, id } => {
            let text = arguments.deltas().concat();
            // Arguments that are scripted to be broken have no whole form; the text shows what they were.
            let input = serde_json::from_str(&text).unwrap_or(Value::String(text));
            json!({"type": "tool_use", "id": call_id(id.as_deref(), identity, index as u64), "name": name,
                "input": input})
        }
    });
    let mut message = message(completion, identity, blocks.collect());
    message.stop_reason = stop_reason(&completion.finish()).map(str::to_owned);
    message
}

/// The data of an in-band error.
pub(super) fn error_events(body: &Value) -> Vec<Event> {
    vec![Event::named(Pace::AtOnce, "error", &json(body))]
}

fn message(completion: &Completion, identity: &Identity, content: Vec<Value>) -> Message {
    let usage = completion.usage;
    Message {
        id: identity.id("msg_", 0),
        kind: "message",
        role: "assistant",
        model: identity.asked.model.clone(),
        content,
        stop_reason: None,
        stop_sequence: None,
        usage: json!({
            "input_tokens": usage.input.saturating_sub(usage.cached),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": usage.cached,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "output_tokens": usage.output,
            "service_tier": "standard",
        }),
    }
}

fn delta_usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input.saturating_sub(usage.cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    })
}

fn call_id(given: Option<&str>, identity: &Identity, block: u64) -> String {
    given.map_or_else(|| identity.id("toolu_", block + 1), str::to_owned)
}

fn signature(identity: &Identity, block: u64) -> String {
    identity.id("sig", block)
}

fn stop_reason(finish: &Finish) -> Option<&str> {
    match finish {
        Finish::Stop => Some("end_turn"),
        Finish::ToolCalls => Some("tool_use"),
        Finish::Length => Some("max_tokens"),
        Finish::ContentFilter => Some("refusal"),
        Finish::Other(word) => Some(word),
        Finish::Missing => None,
    }
}

// === impl Stream ===

impl Stream {
    fn push(&mut self, kind: &str, pace: Pace, rest: impl Serialize) {
        self.events.push(Event::named(pace, kind, &json(&Typed { kind, rest })));
    }

    fn part(&mut self, part: &Part, identity: &Identity) {
        match part {
            Part::Text { text } => {
                self.start(json!({"type": "text", "text": ""}));
                self.deltas("text_delta", "text", text);
            }
            Part::Reasoning { text } => {
                self.start(json!({"type": "thinking", "thinking": "", "signature": ""}));
                self.deltas("thinking_delta", "thinking", text);
                let signature = signature(identity, self.block);
                self.delta(Pace::AtOnce, json!({"type": "signature_delta", "signature": signature}));
            }
            Part::ToolCall { name, arguments, id } => {
                let id = call_id(id.as_deref(), identity, self.block);
                self.start(json!({"type": "tool_use", "id": id, "name": name, "input": {}}));
                self.delta(Pace::AtOnce, json!({"type": "input_json_delta", "partial_json": ""}));
                self.deltas("input_json_delta", "partial_json", &Pieces::Given(arguments.deltas()));
            }
        }
        self.push("content_block_stop", Pace::AtOnce, json!({"index": self.block}));
        self.block += 1;
    }

    fn start(&mut self, block: Value) {
        let index = self.block;
        self.push("content_block_start", Pace::AtOnce, json!({"index": index, "content_block": block}));
    }

    fn deltas(&mut self, kind: &str, member: &str, text: &Pieces) {
        for delta in text.deltas() {
            self.delta(Pace::Delta, json!({"type": kind, member: delta}));
        }
    }

    fn delta(&mut self, pace: Pace, delta: Value) {
        self.push("content_block_delta", pace, json!({"index": self.block, "delta": delta}));
    }
}
