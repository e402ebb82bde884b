//! The books of a checker: what was started, what ended, who belongs to whom.

use super::Law;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap, HashSet};

type Found = Vec<(Law, String)>;

#[derive(PartialEq, Eq)]
enum Life {
    Open,
    Ended,
    Gone,
}

struct Item {
    turn: Option<String>,
    attempt: Option<String>,
    is_tool: bool,
    life: Life,
}

#[derive(Default)]
struct Turn {
    ended: bool,
    /// Items and waits that were started in it.
    items: Vec<String>,
    waits: Vec<String>,
    /// Promised by `turn.started`, not yet confirmed by `prompt.taken`.
    promised: HashSet<String>,
    /// Open model calls and their steps.
    attempts: BTreeMap<String, u64>,
    /// Repeats that were named by `by` and have not started.
    awaited: HashSet<String>,
    steps: u64,
    /// The step that was just superseded, which the next call may repeat.
    repeatable: Option<u64>,
}

struct Wait {
    turn: Option<String>,
    settled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Prompt {
    Waiting,
    Sent,
    Taken,
    Withdrawn,
}

/// Everything a log has told so far.
#[derive(Default)]
pub(super) struct Lifecycle {
    /// The log's beginning is not kept: what it does not know may have started there.
    trimmed: bool,
    created: bool,
    ended: bool,
    turns: HashMap<String, Turn>,
    open_turn: Option<String>,
    items: HashMap<String, Item>,
    attempts: HashSet<String>,
    waits: HashMap<String, Wait>,
    prompts: HashMap<String, Prompt>,
}

/// A member that is a string. The shape was judged before: what is not there is passed over here.
fn text<'a>(event: &'a Map<String, Value>, member: &str) -> Option<&'a str> {
    event.get(member)?.as_str()
}

fn texts<'a>(event: &'a Map<String, Value>, member: &str) -> Vec<&'a str> {
    let list = event.get(member).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn flag(event: &Map<String, Value>, member: &str) -> bool {
    event.get(member).and_then(Value::as_bool).unwrap_or(false)
}

impl Lifecycle {
    /// A log that begins later than 1.
    pub(super) fn set_trimmed(&mut self) {
        self.trimmed = true;
    }

    /// Reports something that was never started, unless it may have been before the log's beginning.
    fn never(&self, law: Law, message: String, found: &mut Found) {
        if !self.trimmed {
            found.push((law, message));
        }
    }

    pub(super) fn turns(&self) -> usize {
        self.turns.len()
    }

    pub(super) fn event(&mut self, r#type: &str, event: &Map<String, Value>, first: bool, found: &mut Found) {
        self.session(r#type, event, first, found);
        self.turn_is_open(r#type, event, found);
        let turn = text(event, "turn");
        match r#type {
            "prompt.accepted" | "prompt.sent" | "prompt.taken" | "prompt.withdrawn" => {
                self.prompt(r#type, event, found);
            }
            "turn.started" => self.turn_started(event, found),
            "turn.ended" => self.turn_ended(turn, found),
            "attempt.started" => self.attempt_started(event, found),
            "attempt.ended" => self.attempt_ended(event, found),
            "attempt.superseded" => self.superseded(event, found),
            "item.started" => self.item_started(event, found),
            "item.delta" | "item.replaced" | "item.updated" | "item.ended" => {
                self.item_changed(r#type, event, found)
            }
            "item.revised" => self.item_revised(event, found),
            "item.removed" => self.item_removed(event, found),
            "approval.requested" => self.asked("approval", event, found),
            "approval.resolved" => self.settled("approval", event, found),
            "question.asked" => self.asked("question", event, found),
            "question.answered" => self.settled("question", event, found),
            _ => {}
        }
        self.one_attempt_at_a_time(r#type, turn, found);
    }

    pub(super) fn end_of_log(&self, found: &mut Found) {
        if let Some(turn) = &self.open_turn {
            found.push((Law::OneEnd, format!("turn {turn} never ended")));
        }
    }

    fn session(&mut self, r#type: &str, event: &Map<String, Value>, first: bool, found: &mut Found) {
        if self.ended {
            found.push((Law::Session, format!("{type} after session.ended")));
        }
        if first && r#type != "session.created" {
            found.push((Law::Session, format!("a log begins with session.created, not {type}")));
        }
        match r#type {
            "session.created" if self.created || !first => {
                found.push((Law::Session, "session.created again".to_owned()));
            }
            "session.created" => self.created = true,
            "session.ended" => {
                self.ended = true;
                if let Some(turn) = &self.open_turn {
                    found.push((Law::OneEnd, format!("the session ended with turn {turn} open")));
                }
            }
            "session.status" if text(event, "status") == Some("idle") => {
                if let Some(turn) = &self.open_turn {
                    found.push((Law::Session, format!("status idle while turn {turn} is open")));
                }
            }
            _ => {}
        }
    }

    /// Nothing that belongs to a turn comes before its start or follows its end.
    fn turn_is_open(&self, r#type: &str, event: &Map<String, Value>, found: &mut Found) {
        let Some(turn) = text(event, "turn") else { return };
        if matches!(r#type, "turn.started" | "turn.ended") {
            return;
        }
        match self.turns.get(turn) {
            None => {
                let message = format!("{type} names turn {turn}, which never started");
                self.never(Law::EvidenceBeforeIdle, message, found);
            }
            Some(known) if known.ended => {
                let allowed = matches!(r#type, "item.revised" | "notice") || r#type.starts_with("session.");
                if !allowed {
                    found.push((Law::OneEnd, format!("{type} after the end of turn {turn}")));
                }
            }
            Some(_) => {}
        }
    }

    fn prompt(&mut self, r#type: &str, event: &Map<String, Value>, found: &mut Found) {
        let Some(prompt) = text(event, "prompt") else { return };
        let old = self.prompts.get(prompt).copied();
        let (fits, new) = match r#type {
            "prompt.accepted" => (old.is_none(), Prompt::Waiting),
            "prompt.sent" => (old == Some(Prompt::Waiting), Prompt::Sent),
            "prompt.taken" => (old == Some(Prompt::Sent), Prompt::Taken),
            _ => (old == Some(Prompt::Waiting), Prompt::Withdrawn),
        };
        if !fits {
            let before = old.map_or("unknown".to_owned(), |old| format!("{old:?}").to_lowercase());
            let message = format!("{type} of prompt {prompt}, which is {before}");
            match old {
                Some(_) => found.push((Law::Prompt, message)),
                None => self.never(Law::Prompt, message, found),
            }
        }
        self.prompts.insert(prompt.to_owned(), new);
        if let (Prompt::Taken, Some(turn)) =
            (new, text(event, "turn").and_then(|turn| self.turns.get_mut(turn)))
        {
            turn.promised.remove(prompt);
        }
    }

    fn turn_started(&mut self, event: &Map<String, Value>, found: &mut Found) {
        let Some(id) = text(event, "turn") else { return };
        if let Some(open) = &self.open_turn {
            found.push((Law::OneEnd, format!("turn {id} started while turn {open} was open")));
        }
        if self.turns.contains_key(id) {
            found.push((Law::OneEnd, format!("turn {id} started twice")));
        }
        let mut turn = Turn::default();
        for prompt in texts(event, "prompts") {
            match self.prompts.get(prompt) {
                Some(Prompt::Sent) => {
                    turn.promised.insert(prompt.to_owned());
                }
                Some(Prompt::Taken) => {}
                None if self.trimmed => {}
                _ => found.push((
                    Law::EvidenceBeforeIdle,
                    format!("turn {id} started for prompt {prompt}, which was not sent"),
                )),
            }
        }
        self.turns.insert(id.to_owned(), turn);
        self.open_turn = Some(id.to_owned());
    }

    fn turn_ended(&mut self, id: Option<&str>, found: &mut Found) {
        let Some(id) = id else { return };
        let Some(turn) = self.turns.get_mut(id) else {
            self.never(Law::EvidenceBeforeIdle, format!("turn {id} ended and never started"), found);
            return;
        };
        if turn.ended {
            found.push((Law::OneEnd, format!("turn {id} ended twice")));
        }
        turn.ended = true;
        let mut open: Vec<String> =
            turn.attempts.keys().map(|attempt| format!("attempt {attempt}")).collect();
        open.extend(turn.promised.iter().map(|prompt| format!("prompt {prompt}")));
        open.extend(turn.awaited.iter().map(|attempt| format!("repeat {attempt}")));
        let is_open = |item: &&String| self.items.get(*item).is_some_and(|item| item.life == Life::Open);
        open.extend(turn.items.iter().filter(is_open).map(|item| format!("item {item}")));
        let waits = |wait: &&String| self.waits.get(*wait).is_some_and(|wait| !wait.settled);
        open.extend(turn.waits.iter().filter(waits).cloned());
        for what in open {
            found.push((Law::OneEnd, format!("turn {id} ended with {what} open")));
        }
        if self.open_turn.as_deref() == Some(id) {
            self.open_turn = None;
        }
    }

    fn attempt_started(&mut self, event: &Map<String, Value>, found: &mut Found) {
        let (Some(id), Some(step)) = (text(event, "attempt"), event.get("step").and_then(Value::as_u64))
        else {
            return;
        };
        if !self.attempts.insert(id.to_owned()) {
            found.push((Law::Attempt, format!("attempt {id} started twice")));
        }
        let Some(turn) = text(event, "turn").and_then(|turn| self.turns.get_mut(turn)) else { return };
        let repeats_open = turn.attempts.values().any(|open| *open == step);
        let is_repeat = repeats_open || turn.repeatable.take() == Some(step);
        if step != turn.steps + 1 && !is_repeat {
            found.push((Law::Attempt, format!("attempt {id} is step {step} after step {}", turn.steps)));
        }
        turn.steps = turn.steps.max(step);
        turn.awaited.remove(id);
        turn.attempts.insert(id.to_owned(), step);
    }

    fn attempt_ended(&mut self, event: &Map<String, Value>, found: &mut Found) {
        let (Some(id), Some(turn)) =
            (text(event, "attempt"), text(event, "turn").and_then(|turn| self.turns.get_mut(turn)))
        else {
            return;
        };
        if turn.attempts.remove(id).is_none() {
            found.push((Law::Attempt, format!("attempt {id} ended and is not open in its turn")));
        }
    }

    fn superseded(&mut self, event: &Map<String, Value>, found: &mut Found) {
        let (Some(id), Some(by)) = (text(event, "attempt"), text(event, "by")) else { return };
        if !self.attempts.contains(id) {
            self.never(Law::Superseding, format!("attempt {id} was superseded and never started"), found);
        }
        let Some(turn) = text(event, "turn").and_then(|turn| self.turns.get_mut(turn)) else { return };
        if id == by {
            found.push((Law::Superseding, format!("attempt {id} supersedes itself")));
        }
        let step = turn.attempts.remove(id);
        match turn.attempts.get(by) {
            Some(new) if step.is_some_and(|old| old != *new) => {
                found.push((Law::Superseding, format!("attempt {by} supersedes {id} of another step")));
            }
            Some(_) => {}
            None => {
                turn.awaited.insert(by.to_owned());
                turn.repeatable = step;
            }
        }
        for item in texts(event, "items") {
            match self.items.get_mut(item) {
                Some(known) if known.attempt.as_deref() != Some(id) => {
                    found.push((
                        Law::Superseding,
                        format!("item {item} is voided with attempt {id}, not its own"),
                    ));
                }
                Some(known) if known.life == Life::Gone => {
                    found.push((Law::Superseding, format!("item {item} is voided twice")));
                }
                Some(known) => known.life = Life::Gone,
                None => {
                    self.never(Law::Superseding, format!("item {item} is voided and never started"), found);
                }
            }
        }
    }

    /// A repeat may be named just before or just after the call it supersedes is closed; nothing else overlaps.
    fn one_attempt_at_a_time(&self, r#type: &str, turn: Option<&str>, found: &mut Found) {
        if r#type == "attempt.started" {
            return;
        }
        if let Some(open) = turn.and_then(|turn| self.turns.get(turn)).filter(|turn| turn.attempts.len() > 1)
        {
            let names: Vec<&str> = open.attempts.keys().map(String::as_str).collect();
            found.push((Law::Attempt, format!("attempts {} are open at once", names.join(", "))));
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
            && !turn.attempts.contains_key(attempt)
        {
            found.push((Law::Item, format!("item {id} started in attempt {attempt}, which is not open")));
        }
        let is_tool = text(event, "kind") == Some("tool");
        let item = Item {
            turn: turn.map(str::to_owned),
            attempt: attempt.map(str::to_owned),
            is_tool,
            life: Life::Open,
        };
        self.items.insert(id.to_owned(), item);
        if let Some(turn) = turn.and_then(|turn| self.turns.get_mut(turn)) {
            turn.items.push(id.to_owned());
        }
    }

    fn parent_is_tool(&self, id: &str, parent: &str, found: &mut Found) {
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
            return;
        };
        match item.life {
            Life::Open => {}
            Life::Ended => found.push((Law::Item, format!("{type} of item {id}, which has ended"))),
            Life::Gone => found.push((Law::Item, format!("{type} of item {id}, which is void"))),
        }
        if item.turn.as_deref() != text(event, "turn") {
            found.push((Law::Item, format!("{type} of item {id} names another turn than its start")));
        }
        let field = text(event, "field").unwrap_or("text");
        if matches!(r#type, "item.delta" | "item.replaced") && field != "text" && !item.is_tool {
            found.push((Law::Item, format!("{type} of {field} of item {id}, which is not a tool")));
        }
        if r#type == "item.ended" {
            item.life = Life::Ended;
            if flag(event, "incomplete") && text(event, "state") == Some("completed") {
                found.push((Law::Taint, format!("item {id} is completed and incomplete")));
            }
        }
    }

    fn item_revised(&mut self, event: &Map<String, Value>, found: &mut Found) {
        let Some(id) = text(event, "item") else { return };
        let Some(item) = self.items.get(id) else {
            self.never(Law::Item, format!("item.revised of item {id}, which never started"), found);
            return;
        };
        if item.life != Life::Ended {
            found.push((Law::Item, format!("item.revised of item {id}, which has not ended or is void")));
        }
        let turn_ended =
            item.turn.as_ref().and_then(|turn| self.turns.get(turn)).is_some_and(|turn| turn.ended);
        if turn_ended && !flag(event, "late") {
            found.push((Law::OneEnd, format!("item.revised of item {id} after its turn, not marked late")));
        }
    }

    fn item_removed(&mut self, event: &Map<String, Value>, found: &mut Found) {
        let Some(id) = text(event, "item") else { return };
        match self.items.get_mut(id) {
            Some(item) if item.life != Life::Gone => item.life = Life::Gone,
            Some(_) => found.push((Law::Item, format!("item.removed of item {id}, which is void"))),
            None => self.never(Law::Item, format!("item.removed of item {id}, which never started"), found),
        }
    }

    fn asked(&mut self, kind: &str, event: &Map<String, Value>, found: &mut Found) {
        let Some(id) = text(event, kind) else { return };
        let wait = Wait { turn: text(event, "turn").map(str::to_owned), settled: false };
        let name = format!("{kind} {id}");
        if let Some(turn) = text(event, "turn").and_then(|turn| self.turns.get_mut(turn)) {
            turn.waits.push(name.clone());
        }
        if self.waits.insert(name, wait).is_some() {
            found.push((Law::Wait, format!("{kind} {id} was asked twice")));
        }
    }

    fn settled(&mut self, kind: &str, event: &Map<String, Value>, found: &mut Found) {
        let Some(id) = text(event, kind) else { return };
        let Some(wait) = self.waits.get_mut(&format!("{kind} {id}")) else {
            self.never(Law::Wait, format!("{kind} {id} was settled and never asked"), found);
            return;
        };
        if std::mem::replace(&mut wait.settled, true) {
            found.push((Law::Wait, format!("{kind} {id} was settled twice")));
        }
        if wait.turn.as_deref() != text(event, "turn") {
            found.push((Law::Wait, format!("{kind} {id} was settled in another turn than it was asked in")));
        }
    }
}
