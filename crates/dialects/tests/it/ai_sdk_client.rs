//! A page with the AI SDK: the messages that it builds of chunks, and what a person sees of them.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use turnstream_dialects::ai_sdk::UiMessage;

/// The answers of a session, by the ids of their messages.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Page {
    messages: BTreeMap<String, Vec<Value>>,
}

impl Page {
    pub(crate) fn of(chunks: &[Value]) -> Self {
        let (mut messages, mut revisions) = (Vec::<UiMessage>::new(), Vec::new());
        for chunk in chunks {
            if chunk["type"] == "start" {
                messages.retain(|message| chunk["messageId"] != message.id());
                messages.push(UiMessage::default());
            }
            if chunk["type"] == "data-revised" {
                revisions.push(&chunk["data"]);
            } else if let Some(message) = messages.last_mut() {
                message.take(chunk);
            }
        }
        let seen = |message: UiMessage| (message.id().to_owned(), visible(&message.into_json()["parts"]));
        let mut page = Self { messages: messages.into_iter().map(seen).collect() };
        revisions.into_iter().for_each(|revision| page.revise(revision));
        page
    }

    /// News of a turn that is over.
    fn revise(&mut self, revision: &Value) {
        let gone: BTreeSet<&str> =
            revision["items"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for parts in self.messages.values_mut() {
            parts.retain(|part| !gone.contains(name(part)));
            for part in parts.iter_mut().filter(|part| revision["item"] == name(part)) {
                if revision["text"].is_string() {
                    part["text"] = revision["text"].clone();
                }
                let output = &revision["tool"]["output"];
                if !output.is_null() {
                    part["output"] = output.clone();
                }
                match revision["state"].as_str() {
                    Some("completed") => part["state"] = json!("output-available"),
                    Some(_) => part["state"] = json!("output-error"),
                    None => {}
                }
            }
        }
    }
}

/// The id of the item that a part shows.
fn name(part: &Value) -> &str {
    let call = part["toolCallId"].as_str();
    call.or(part["providerMetadata"]["turnstream"]["item"].as_str()).unwrap_or_default()
}

/// What counts of the parts of a message, as the page of the example decides it. What differs between clients
/// that came at different times is left out: how an approval was answered, and empty steps.
pub(crate) fn visible(parts: &Value) -> Vec<Value> {
    let parts = parts.as_array().unwrap();
    let superseded = parts.iter().filter(|part| part["type"] == "data-superseded");
    let gone: BTreeSet<&str> = superseded
        .flat_map(|part| part["data"]["items"].as_array().unwrap())
        .filter_map(Value::as_str)
        .collect();
    let mut seen: Vec<Value> = Vec::new();
    for part in parts {
        let ours = &part["providerMetadata"]["turnstream"];
        let is_data = part["type"].as_str().unwrap().starts_with("data-");
        let is_gone = ours["superseded"] == true || (!is_data && gone.contains(name(part)));
        if part["type"] == "step-start" || part["type"] == "data-superseded" || is_gone {
            continue;
        }
        let mut part = part.clone();
        part.as_object_mut().unwrap().remove("approval");
        // What a call says about itself changes while it runs, and only a page that loads it later has all.
        part.as_object_mut().unwrap().remove("callProviderMetadata");
        if ours["item"].is_string() {
            let earlier = seen.iter().position(|other| name(other) == name(&part)).map(|at| seen.remove(at));
            if let Some(earlier) = earlier.filter(|_| ours["continues"] == true) {
                let text = |part: &Value| part["text"].as_str().unwrap_or_default().to_owned();
                part["text"] = json!(text(&earlier) + &text(&part));
            }
        }
        seen.push(part);
    }
    seen
}
