//! Items: each starts once, ends once, and changes only in between. An item that lost bytes is never
//! completed (L7).

use super::Law;
use super::lifecycle::{Found, Life, Lifecycle, flag, text};
use super::shape::{Flag, Id, MAY, MUST, Object, Shape, Text, Word};
use serde_json::{Map, Value};

const STATES: &[&str] = &["completed", "failed", "abandoned", "unknown"];
const FIELDS: &[&str] = &["text", "input", "output"];

pub(super) const SHAPES: &[Shape] = &[
    (
        "item.started",
        &[
            ("item", Id, MUST),
            ("kind", Word(&["message", "reasoning", "tool", "plan", "file", "compaction"]), MUST),
            ("role", Word(&["user", "assistant"]), MAY),
            ("synthetic", Flag, MAY),
            ("text", Text, MAY),
            ("tool", Object, MAY),
            ("attempt", Id, MAY),
        ],
    ),
    ("item.delta", &[("item", Id, MUST), ("text", Text, MUST), ("field", Word(FIELDS), MAY)]),
    ("item.replaced", &[("item", Id, MUST), ("text", Text, MUST), ("field", Word(FIELDS), MAY)]),
    ("item.updated", &[("item", Id, MUST), ("tool", Object, MAY)]),
    (
        "item.ended",
        &[
            ("item", Id, MUST),
            ("state", Word(STATES), MUST),
            ("reason", Text, MAY),
            ("incomplete", Flag, MAY),
            ("caused_by", Text, MAY),
        ],
    ),
    (
        "item.revised",
        &[
            ("item", Id, MUST),
            ("late", Flag, MAY),
            ("state", Word(STATES), MAY),
            ("text", Text, MAY),
            ("tool", Object, MAY),
        ],
    ),
    ("item.removed", &[("item", Id, MUST)]),
];

/// An item that was started.
pub(super) struct Item {
    pub(super) turn: Option<String>,
    pub(super) attempt: Option<String>,
    parent: Option<String>,
    is_tool: bool,
    incomplete: bool,
    pub(super) life: Life,
}

impl Lifecycle {
    pub(super) fn item(&mut self, r#type: &str, event: &Map<String, Value>, found: &mut Found) {
        match r#type {
            "item.started" => self.item_started(event, found),
            "item.delta" | "item.replaced" | "item.updated" | "item.ended" => {
                self.item_changed(r#type, event, found)
            }
            "item.revised" => self.item_revised(event, found),
            "item.removed" => self.item_removed(event, found),
            _ => {}
        }
    }

    fn item_started(&mut self, event: &Map<String, Value>, found: &mut Found) {
        let Some(id) = text(event, "item") else { return };
        if self.items.contains_key(id) {
            found.push((Law::Item, format!("item {id} started twice")));
        }
        let turn = text(event, "turn");
        let attempt = text(event, "attempt");
        match text(event, "parent") {
            Some(parent) => self.parent_is_tool(id, parent, found),
            None if turn.is_none() => {
                found.push((Law::Item, format!("item {id} has neither a turn nor a parent")));
            }
            None => {}
        }
        if let (Some(attempt), Some(turn)) = (attempt, turn.and_then(|turn| self.turns.get(turn)))
            && turn.attempts.get(attempt).is_none_or(|attempt| attempt.life != Life::Open)
        {
            found.push((Law::Item, format!("item {id} started in attempt {attempt}, which is not open")));
        }
        let is_tool = text(event, "kind") == Some("tool");
        if is_tool != event.contains_key("tool") {
            found.push((Law::Item, format!("item {id} must have \"tool\" if it is a tool, and only then")));
        }
        let item = Item {
            turn: turn.map(str::to_owned),
            attempt: attempt.map(str::to_owned),
            parent: text(event, "parent").map(str::to_owned),
            is_tool,
            incomplete: false,
            life: Life::Open,
        };
        self.items.insert(id.to_owned(), item);
        if let Some(turn) = turn.and_then(|turn| self.turns.get_mut(turn)) {
            turn.items.push(id.to_owned());
        }
    }

    fn parent_is_tool(&self, id: &str, parent: &str, found: &mut Found) {
        let mut above = Some(parent);
        for _ in 0..self.items.len() {
            if above == Some(id) {
                found.push((Law::Item, format!("item {id} is below itself")));
                return;
            }
            above = above.and_then(|item| self.items.get(item)).and_then(|item| item.parent.as_deref());
            if above.is_none() {
                break;
            }
        }
        match self.items.get(parent) {
            Some(item) if item.is_tool => {}
            Some(_) => found.push((Law::Item, format!("item {id} has parent {parent}, which is not a tool"))),
            None => {
                let message = format!("item {id} has parent {parent}, which never started");
                self.never(Law::Item, message, found);
            }
        }
    }

    fn item_changed(&mut self, r#type: &str, event: &Map<String, Value>, found: &mut Found) {
        let Some(id) = text(event, "item") else { return };
        if r#type == "item.updated"
            && let Some(parent) = text(event, "parent")
        {
            self.parent_is_tool(id, parent, found);
        }
        let Some(item) = self.items.get_mut(id) else {
            self.never(Law::Item, format!("{type} of item {id}, which never started"), found);
            let life = if r#type == "item.ended" { Life::Ended } else { Life::Open };
            self.met(id, event, life);
            return;
        };
        match item.life {
            Life::Open => {}
            Life::Ended => found.push((Law::Item, format!("{type} of item {id}, which has ended"))),
            Life::Void => found.push((Law::Item, format!("{type} of item {id}, which is void"))),
        }
        if item.turn.as_deref() != text(event, "turn") {
            found.push((Law::Item, format!("{type} of item {id} names another turn than its start")));
        }
        let field = text(event, "field").unwrap_or("text");
        if matches!(r#type, "item.delta" | "item.replaced") && field != "text" && !item.is_tool {
            found.push((Law::Item, format!("{type} of {field} of item {id}, which is not a tool")));
        }
        if r#type == "item.updated" {
            item.parent = text(event, "parent").map(str::to_owned).or(item.parent.take());
            if event.contains_key("tool") && !item.is_tool {
                found.push((Law::Item, format!("{type} of a call on item {id}, which is not a tool")));
            }
        }
        if r#type == "item.ended" {
            item.life = Life::Ended;
            item.incomplete = flag(event, "incomplete");
            if item.incomplete && text(event, "state") == Some("completed") && !item.is_tool {
                found.push((Law::Taint, format!("item {id} is completed and incomplete")));
            }
        }
    }

    /// Adds an item that began before the first event of a trimmed log.
    fn met(&mut self, id: &str, event: &Map<String, Value>, life: Life) {
        let turn = text(event, "turn").map(str::to_owned);
        let (attempt, parent, is_tool, incomplete) = (None, None, true, false);
        self.items.insert(id.to_owned(), Item { turn, attempt, parent, is_tool, incomplete, life });
    }

    fn item_revised(&mut self, event: &Map<String, Value>, found: &mut Found) {
        let Some(id) = text(event, "item") else { return };
        let Some(item) = self.items.get_mut(id) else {
            self.never(Law::Item, format!("item.revised of item {id}, which never started"), found);
            return self.met(id, event, Life::Ended);
        };
        if item.life != Life::Ended {
            found.push((Law::Item, format!("item.revised of item {id}, which has not ended or is void")));
        }
        if item.turn.as_deref() != text(event, "turn") {
            found.push((Law::Item, format!("item.revised of item {id} names another turn than its start")));
        }
        if ["state", "text", "tool"].iter().all(|member| !event.contains_key(*member)) {
            found.push((Law::Item, format!("item.revised of item {id} revises nothing")));
        }
        let has_text = event.contains_key("text");
        if item.incomplete && !item.is_tool && !has_text && text(event, "state") == Some("completed") {
            found.push((
                Law::Taint,
                format!("item {id} lost bytes and became completed without its final text"),
            ));
        }
        item.incomplete &= !has_text;
        if let Some(turn) = item.turn.as_ref().and_then(|turn| self.turns.get(turn))
            && turn.ended != flag(event, "late")
        {
            let when =
                if turn.ended { "after its turn is not marked late" } else { "in its turn is marked late" };
            found.push((Law::OneEnd, format!("item.revised of item {id} {when}")));
        }
    }

    fn item_removed(&mut self, event: &Map<String, Value>, found: &mut Found) {
        let Some(id) = text(event, "item") else { return };
        match self.items.get_mut(id) {
            Some(item) if item.life != Life::Void => item.life = Life::Void,
            Some(_) => found.push((Law::Item, format!("item.removed of item {id}, which is void"))),
            None => self.never(Law::Item, format!("item.removed of item {id}, which never started"), found),
        }
    }
}
