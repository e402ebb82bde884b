//! Event to JSON: flat, envelope first, absent members left out. Streams without building a tree.

use super::{Body, Draft, Event, Field, Status};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

impl Event {
    /// The event as one line of JSON, without a line feed.
    pub fn to_json(&self) -> String {
        // Only maps with string keys, strings, numbers and trees: serde_json refuses none of them.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Event {
    /// Adds the line to a buffer: no allocation of its own.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        // As above, and a Vec takes whatever it is given.
        let _ = serde_json::to_writer(out, self);
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("seq", &self.seq)?;
        map.serialize_entry("time", &self.time)?;
        members(&self.draft, &mut map)?;
        map.end()
    }
}

fn members<M: SerializeMap>(draft: &Draft, map: &mut M) -> Result<(), M::Error> {
    let Draft { turn, attempt, item, parent, native, body, extra } = draft;
    map.serialize_entry("type", body.type_name())?;
    optional(map, "turn", turn)?;
    optional(map, "attempt", attempt)?;
    optional(map, "item", item)?;
    optional(map, "parent", parent)?;
    body_members(body, map)?;
    optional(map, "native", native)?;
    for (member, value) in extra {
        map.serialize_entry(member, value)?;
    }
    Ok(())
}

fn body_members<M: SerializeMap>(body: &Body, map: &mut M) -> Result<(), M::Error> {
    match body {
        Body::SessionCreated { session, agent, cwd, title, key } => {
            map.serialize_entry("session", session)?;
            map.serialize_entry("agent", agent)?;
            map.serialize_entry("cwd", cwd)?;
            optional(map, "title", title)?;
            optional(map, "key", key)
        }
        Body::SessionUpdated(patch) => {
            optional(map, "title", &patch.title)?;
            optional(map, "model", &patch.model)?;
            optional(map, "mode", &patch.mode)?;
            optional(map, "native_id", &patch.native_id)?;
            optional(map, "context", &patch.context)?;
            optional(map, "permissions", &patch.permissions)?;
            optional(map, "redact_prompts", &patch.redact_prompts)
        }
        Body::SessionStatus(status) => status_members(status, map),
        Body::PromptAccepted { prompt, key, content } => {
            map.serialize_entry("prompt", prompt)?;
            optional(map, "key", key)?;
            map.serialize_entry("content", content)
        }
        Body::PromptSent { prompt, native_id } => {
            map.serialize_entry("prompt", prompt)?;
            optional(map, "native_id", native_id)
        }
        Body::PromptTaken { prompt } | Body::PromptWithdrawn { prompt } => {
            map.serialize_entry("prompt", prompt)
        }
        Body::PromptCancelling { prompt, by } => {
            map.serialize_entry("prompt", prompt)?;
            map.serialize_entry("by", by)
        }
        Body::TurnStarted { origin, prompts, native_id } => {
            map.serialize_entry("origin", origin)?;
            map.serialize_entry("prompts", prompts)?;
            optional(map, "native_id", native_id)
        }
        Body::TurnCancelling { by } => map.serialize_entry("by", by),
        Body::AttemptStarted { step, model, native_id } => {
            map.serialize_entry("step", step)?;
            optional(map, "model", model)?;
            optional(map, "native_id", native_id)
        }
        Body::ItemStarted { kind, role, synthetic, text, tool, native_id } => {
            map.serialize_entry("kind", kind)?;
            optional(map, "role", role)?;
            flag(map, "synthetic", *synthetic)?;
            optional(map, "text", text)?;
            optional(map, "tool", tool)?;
            optional(map, "native_id", native_id)
        }
        Body::ItemDelta { field, text } | Body::ItemReplaced { field, text } => {
            if *field != Field::Text {
                map.serialize_entry("field", field)?;
            }
            map.serialize_entry("text", text)
        }
        Body::ItemUpdated { tool } => optional(map, "tool", tool),
        Body::ItemEnded { state, reason, incomplete, caused_by } => {
            map.serialize_entry("state", state)?;
            optional(map, "reason", reason)?;
            flag(map, "incomplete", *incomplete)?;
            optional(map, "caused_by", caused_by)
        }
        Body::ItemRevised { late, state, text, tool } => {
            flag(map, "late", *late)?;
            optional(map, "state", state)?;
            optional(map, "text", text)?;
            optional(map, "tool", tool)
        }
        Body::ItemRemoved => Ok(()),
        Body::AttemptEnded { finish, usage, cost } => {
            optional(map, "finish", finish)?;
            optional(map, "usage", usage)?;
            optional(map, "cost", cost)
        }
        Body::AttemptSuperseded { by, items } => {
            map.serialize_entry("by", by)?;
            map.serialize_entry("items", items)
        }
        Body::ApprovalRequested { approval, tool, options, native_id } => {
            map.serialize_entry("approval", approval)?;
            optional(map, "tool", tool)?;
            map.serialize_entry("options", options)?;
            optional(map, "native_id", native_id)
        }
        Body::ApprovalResolved { approval, resolution } => {
            map.serialize_entry("approval", approval)?;
            map.serialize_entry("outcome", &resolution.outcome)?;
            map.serialize_entry("by", &resolution.by)?;
            optional(map, "option", &resolution.option)?;
            optional(map, "message", &resolution.message)?;
            optional(map, "key", &resolution.key)
        }
        Body::QuestionAsked { question, questions, native_id } => {
            map.serialize_entry("question", question)?;
            map.serialize_entry("questions", questions)?;
            optional(map, "native_id", native_id)
        }
        Body::QuestionAnswered { question, outcome, answers, key } => {
            map.serialize_entry("question", question)?;
            map.serialize_entry("outcome", outcome)?;
            optional(map, "answers", answers)?;
            optional(map, "key", key)
        }
        Body::TurnEnded { outcome, stop_reason, usage, cost, summed, error } => {
            map.serialize_entry("outcome", outcome)?;
            optional(map, "stop_reason", stop_reason)?;
            optional(map, "usage", usage)?;
            optional(map, "cost", cost)?;
            flag(map, "summed", *summed)?;
            optional(map, "error", error)
        }
        Body::Notice { code, message, detail } => {
            map.serialize_entry("code", code)?;
            map.serialize_entry("message", message)?;
            optional(map, "detail", detail)
        }
        Body::SessionEnded { reason } => map.serialize_entry("reason", reason),
        Body::Unknown { .. } => Ok(()),
    }
}

fn status_members<M: SerializeMap>(status: &Status, map: &mut M) -> Result<(), M::Error> {
    map.serialize_entry("status", status.as_str())?;
    match status {
        Status::Idle | Status::Busy | Status::Waiting | Status::Recovering => Ok(()),
        Status::Retrying { attempt, reason, until, message } => {
            optional(map, "attempt", attempt)?;
            optional(map, "reason", reason)?;
            optional(map, "until", until)?;
            optional(map, "message", message)
        }
    }
}

impl Status {
    /// The word on the wire.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Waiting => "waiting",
            Self::Recovering => "recovering",
            Self::Retrying { .. } => "retrying",
        }
    }
}

fn optional<M: SerializeMap, T: Serialize>(
    map: &mut M,
    member: &'static str,
    value: &Option<T>,
) -> Result<(), M::Error> {
    match value {
        Some(value) => map.serialize_entry(member, value),
        None => Ok(()),
    }
}

fn flag<M: SerializeMap>(map: &mut M, member: &'static str, set: bool) -> Result<(), M::Error> {
    if set { map.serialize_entry(member, &true) } else { Ok(()) }
}
