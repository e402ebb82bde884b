//! What search can find of a session: finished items and prompts. Nothing else has an index entry (L7, L10).

use serde_json::Value;
use std::collections::HashSet;
use turnstream_model::event::{ItemKind, Role, Tool};
use turnstream_model::fold::{Item, ItemStage, Prompt, PromptStage};
use turnstream_model::id::{ItemId, PromptId, TurnId};
use turnstream_model::time::Time;

/// Bytes of one item that are indexed. The rest of a longer item is only in the log.
const MOST_BYTES: usize = 1 << 20;

/// The item or prompt that an entry is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A finished item.
    Item(ItemId),
    /// A prompt of the user.
    Prompt(PromptId),
}

/// One entry of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) subject: Subject,
    pub(crate) turn: Option<TurnId>,
    pub(crate) kind: ItemKind,
    pub(crate) role: Option<Role>,
    /// When the item or prompt began.
    pub(crate) time: Time,
    pub(crate) text: String,
}

impl Entry {
    /// `None` for an incomplete item, and for an item without text.
    pub(crate) fn of_item(item: &Item) -> Option<Self> {
        let is_whole = match item.state {
            ItemStage::Completed => !item.incomplete,
            ItemStage::Streaming | ItemStage::Failed | ItemStage::Abandoned | ItemStage::Unknown => false,
        };
        if !is_whole {
            return None;
        }
        let mut texts = Texts::default();
        texts.add(item.text.as_deref());
        if let Some(Tool { name, kind: _, title, status: _, input, output, content, locations, extra: _ }) =
            item.tool.as_deref()
        {
            texts.add(name.as_deref());
            texts.add(title.as_deref());
            input.iter().for_each(|value| texts.add_all(value));
            locations.iter().flatten().for_each(|value| texts.add_all(value));
            content.iter().flatten().for_each(|value| texts.add_all(value));
            output.iter().for_each(|value| texts.add_all(value));
        }
        texts.add(item.input.as_deref());
        texts.add(item.output.as_deref());
        let text = texts.joined()?;
        let (subject, turn) = (Subject::Item(item.id.clone()), item.turn.clone());
        Some(Self { subject, turn, kind: item.kind, role: item.role, time: item.time, text })
    }

    /// `None` for a withdrawn prompt, and for a prompt without text.
    pub(crate) fn of_prompt(prompt: &Prompt) -> Option<Self> {
        match prompt.state {
            PromptStage::Waiting | PromptStage::Sent | PromptStage::Taken => {}
            PromptStage::Withdrawn => return None,
        }
        let mut texts = Texts::default();
        prompt.content.iter().for_each(|value| texts.add_all(value));
        let text = texts.joined()?;
        let (subject, turn) = (Subject::Prompt(prompt.prompt.clone()), prompt.turn.clone());
        let (kind, role) = (ItemKind::Message, Some(Role::User));
        Some(Self { subject, turn, kind, role, time: prompt.time, text })
    }
}

/// The distinct texts of an item: agents send the same output as a raw result and as content.
#[derive(Default)]
struct Texts<'a> {
    seen: HashSet<&'a str>,
    all: Vec<&'a str>,
}

impl<'a> Texts<'a> {
    fn add(&mut self, text: Option<&'a str>) {
        let text = text.unwrap_or_default().trim();
        if !text.is_empty() && self.seen.insert(text) {
            self.all.push(text);
        }
    }

    /// Adds every string that a person could have read. The recursion is bounded, because parsers limit the
    /// depth of JSON.
    fn add_all(&mut self, value: &'a Value) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => self.add(Some(text)),
            Value::Array(values) => values.iter().for_each(|value| self.add_all(value)),
            Value::Object(members) => {
                let is_block = members.contains_key("type");
                for (name, member) in members {
                    // In ACP blocks, the type and encoded media are not text.
                    let is_shape = is_block && matches!(name.as_str(), "type" | "data" | "blob" | "mimeType");
                    if !is_shape && name != "blob" {
                        self.add_all(member);
                    }
                }
            }
        }
    }

    fn joined(self) -> Option<String> {
        let mut text = String::new();
        for part in self.all {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(part);
            if text.len() >= MOST_BYTES {
                text.truncate(text.floor_char_boundary(MOST_BYTES));
                break;
            }
        }
        Some(text).filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn item(value: Value) -> Option<Entry> {
        Entry::of_item(&serde_json::from_value(value).unwrap())
    }

    #[test]
    fn only_a_whole_item_can_be_found() {
        let message = |state: &str, incomplete: bool| {
            item(
                json!({"item": "i1", "kind": "message", "role": "assistant", "text": "words", "state": state,
                "incomplete": incomplete, "time": 7}),
            )
        };
        let whole = message("completed", false).unwrap();
        assert_eq!((whole.text.as_str(), whole.role, whole.time), ("words", Some(Role::Assistant), Time(7)));
        assert_eq!(message("completed", true), None, "bytes may be missing");
        for state in ["streaming", "failed", "abandoned", "unknown"] {
            assert_eq!(message(state, false), None, "{state}");
        }
    }

    #[test]
    fn of_a_tool_its_names_arguments_and_results_are_found_once_each() {
        let found = item(
            json!({"item": "i1", "kind": "tool", "state": "completed", "time": 1, "output": "streamed",
            "tool": {"name": "edit", "title": "Edit a.rs", "status": "completed",
                "input": {"path": "a.rs", "lines": [1, 2], "new": {"text": "deep"}},
                "locations": [{"path": "/w/a.rs", "line": 3}],
                "content": [{"type": "content", "content": {"type": "text", "text": "result"}},
                    {"type": "diff", "path": "/w/a.rs", "oldText": "old", "newText": "new"},
                    {"type": "content", "content": {"type": "image", "data": "aWNvbg==", "mimeType": "image/png"}}],
                "output": "result"}}),
        );
        let text = found.unwrap().text;
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            ["/w/a.rs", "Edit a.rs", "a.rs", "deep", "edit", "new", "old", "result", "streamed"]
        );
    }

    #[test]
    fn a_prompt_is_the_users_message_until_it_is_withdrawn() {
        let prompt = |state: &str| {
            let content = json!([{"type": "text", "text": "Hi"}, {"type": "image", "data": "aWNvbg=="}]);
            let value = json!({"prompt": "p1", "content": content, "state": state, "time": 1});
            Entry::of_prompt(&serde_json::from_value(value).unwrap())
        };
        let said = prompt("waiting").unwrap();
        assert_eq!((said.text.as_str(), said.kind, said.role), ("Hi", ItemKind::Message, Some(Role::User)));
        assert_eq!(prompt("withdrawn"), None);
    }

    #[test]
    fn a_very_long_text_is_found_by_its_beginning() {
        let long = "wörter ".repeat(400_000);
        let found =
            item(json!({"item": "i1", "kind": "message", "text": long, "state": "completed", "time": 1}));
        let length = found.unwrap().text.len();
        assert!(length <= MOST_BYTES && length > MOST_BYTES - 4, "{length}");
    }
}
