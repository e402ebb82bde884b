//! What a client already has of a turn: the parts of its message, which it sends with an answer.

use super::chunks::OURS;
use serde_json::Value;
use std::collections::HashMap;

/// The parts of a message, as its client has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Held {
    /// Texts by the ids of their items.
    texts: HashMap<String, String>,
    /// Calls by their ids.
    calls: HashMap<String, HeldCall>,
}

/// A call, as a client has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct HeldCall {
    pub(super) state: String,
    pub(super) is_preliminary: bool,
}

impl Held {
    /// Reads a message. Parts that are not ours are ignored.
    pub fn read(message: &Value) -> Self {
        let mut held = Self::default();
        for part in message["parts"].as_array().into_iter().flatten() {
            let word = |member: &str| part[member].as_str().unwrap_or_default().to_owned();
            let ours = &part["providerMetadata"][OURS];
            match (word("type").as_str(), ours["item"].as_str(), part["toolCallId"].as_str()) {
                ("text" | "reasoning", Some(item), _) => {
                    let text = held.texts.entry(item.to_owned()).or_default();
                    if ours["continues"] != true {
                        text.clear();
                    }
                    text.push_str(&word("text"));
                }
                (_, _, Some(call)) => {
                    let is_preliminary = part["preliminary"] == true;
                    held.calls.insert(call.to_owned(), HeldCall { state: word("state"), is_preliminary });
                }
                _ => {}
            }
        }
        held
    }

    pub(super) fn text(&self, item: &str) -> Option<&str> {
        self.texts.get(item).map(String::as_str)
    }

    pub(super) fn call(&self, id: &str) -> Option<&HeldCall> {
        self.calls.get(id)
    }

    pub(super) fn has(&self, item: &str) -> bool {
        self.texts.contains_key(item) || self.calls.contains_key(item)
    }

    /// The ids of everything in it, sorted.
    pub(super) fn ids(&self) -> Vec<&str> {
        let mut ids: Vec<&str> = self.texts.keys().chain(self.calls.keys()).map(String::as_str).collect();
        ids.sort_unstable();
        ids
    }
}

impl HeldCall {
    /// Whether the client has the end of the call.
    pub(super) fn has_ended(&self) -> bool {
        self.state.starts_with("output-") && !self.is_preliminary
    }
}
