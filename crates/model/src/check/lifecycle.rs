//! The books of a checker: what was started, what ended, who belongs to whom.

use super::Law;
use super::spent::Spent;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap, HashSet};

type Found = Vec<(Law, String)>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Open,
    Ended,
    Gone,
}

struct Item {
    turn: Option<String>,
    attempt: Option<String>,
    parent: Option<String>,
    is_tool: bool,
    incomplete: bool,
    life: Life,
}

#[derive(Default)]
struct Turn {
    ended: bool,
    /// Somebody wants it to end.
    cancelling: bool,
    /// Its prompts that were to stop before they had a turn.
    unwanted: Vec<String>,
    /// Items and waits that were started in it.
    items: Vec<String>,
    waits: Vec<String>,
    /// Promised by `turn.started`, not yet confirmed by `prompt.taken`.
    promised: HashSet<String>,
    attempts: BTreeMap<String, Attempt>,
    /// Repeats that were named by `by` and have not started.
    awaited: HashSet<String>,
    /// A call that repeats a step, and has not superseded the one before it.
    repeat: Option<String>,
    steps: u64,
    spent: Spent,
}

struct Attempt {
    step: u64,
    life: Life,
}

struct Wait {
    turn: Option<String>,
    settled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Prompt {
    Waiting,
    Sent,
    /// Sent, and to stop.
    Cancelling,
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
    /// It was said to be busy for a prompt that was sent and has no turn. Earlier versions never say so.
    busy_for_prompt: bool,
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
            "prompt.accepted" | "prompt.sent" | "prompt.taken" | "prompt.withdrawn" | "prompt.cancelling" => {
                self.prompt(r#type, event, found);
            }
            "turn.started" => self.turn_started(event, found),
            "turn.cancelling" => self.turn_cancelling(turn, found),
            "turn.ended" => self.turn_ended(turn, event, found),
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
                self.nothing_open(found);
            }
            "session.status" => self.status(event, found),
            _ => {}
        }
    }

    fn status(&mut self, event: &Map<String, Value>, found: &mut Found) {
        let waits = self.waits.values().any(|wait| !wait.settled);
        let is_sent = |prompt: &Prompt| matches!(prompt, Prompt::Sent | Prompt::Cancelling);
        let sent = self.prompts.values().any(is_sent);
        let untrue = match (text(event, "status"), &self.open_turn) {
            (Some("idle"), Some(turn)) => format!("status idle while turn {turn} is open"),
            (Some("idle"), None) if sent && self.busy_for_prompt => {
                "status idle while a prompt was sent and has no turn".to_owned()
            }
            (Some("busy"), None) if sent => {
                self.busy_for_prompt = true;
                return;
            }
            (Some("busy" | "retrying"), None) => "status busy or retrying while no turn is open".to_owned(),
            (Some("waiting"), _) if !waits => "status waiting while nothing waits".to_owned(),
            _ => return,
        };
        self.never(Law::Session, untrue, found);
    }

    /// After the end of a session nothing can be settled any more.
    fn nothing_open(&self, found: &mut Found) {
        if let Some(turn) = &self.open_turn {
            found.push((Law::OneEnd, format!("the session ended with turn {turn} open")));
        }
        let items = self.items.iter().filter(|(_, item)| item.life == Life::Open && item.turn.is_none());
        let waits = self.waits.iter().filter(|(_, wait)| !wait.settled && wait.turn.is_none());
        let prompts =
            self.prompts.iter().filter(|(_, state)| !matches!(state, Prompt::Taken | Prompt::Withdrawn));
        let mut open: Vec<String> = items.map(|(id, _)| format!("item {id}")).collect();
        open.extend(waits.map(|(name, _)| name.clone()));
        open.extend(prompts.map(|(id, _)| format!("prompt {id}")));
        open.sort();
        for what in open {
            found.push((Law::Session, format!("the session ended with {what} open")));
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
                let belongs = ["prompt.", "turn.", "attempt.", "item.", "approval.", "question."];
                let is_allowed =
                    r#type == "item.revised" || !belongs.iter().any(|family| r#type.starts_with(family));
                if !is_allowed {
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
            "prompt.cancelling" => (old == Some(Prompt::Sent), Prompt::Cancelling),
            "prompt.taken" => (matches!(old, Some(Prompt::Sent | Prompt::Cancelling)), Prompt::Taken),
            "prompt.withdrawn" => (old == Some(Prompt::Waiting), Prompt::Withdrawn),
            _ => return,
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
            if old == Some(Prompt::Cancelling) {
                turn.unwanted.push(prompt.to_owned());
            }
        }
        if new == Prompt::Taken {
            self.busy_for_prompt = false;
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
        let prompts = texts(event, "prompts");
        if (text(event, "origin") == Some("prompt")) == prompts.is_empty() {
            found.push((Law::Prompt, format!("turn {id} has an origin that its prompts do not fit")));
        }
        let mut turn = Turn::default();
        for prompt in prompts {
            match self.prompts.get(prompt) {
                Some(Prompt::Sent | Prompt::Cancelling) => {
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

    /// Asked for once, however many ask.
    fn turn_cancelling(&mut self, id: Option<&str>, found: &mut Found) {
        if let Some(turn) = id.and_then(|id| self.turns.get_mut(id))
            && std::mem::replace(&mut turn.cancelling, true)
        {
            found.push((Law::OneEnd, format!("turn.cancelling of turn {} twice", id.unwrap_or_default())));
        }
    }

    fn turn_ended(&mut self, id: Option<&str>, event: &Map<String, Value>, found: &mut Found) {
        let Some(id) = id else { return };
        let Some(turn) = self.turns.get_mut(id) else {
            self.never(Law::EvidenceBeforeIdle, format!("turn {id} ended and never started"), found);
            self.turns.insert(id.to_owned(), Turn { ended: true, ..Turn::default() });
            return;
        };
        if turn.ended {
            found.push((Law::OneEnd, format!("turn {id} ended twice")));
        }
        turn.ended = true;
        for shortfall in turn.spent.shortfalls(event) {
            found.push((Law::Usage, format!("turn {id} {shortfall}")));
        }
        for prompt in turn.unwanted.iter().filter(|_| text(event, "outcome") != Some("cancelled")) {
            let message = format!("turn {id} took prompt {prompt}, which was to stop, and is not cancelled");
            found.push((Law::Prompt, message));
        }
        let attempts = turn.attempts.iter().filter(|(_, attempt)| attempt.life == Life::Open);
        let mut open: Vec<String> = attempts.map(|(id, _)| format!("attempt {id}")).collect();
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
        if let Some(unsettled) = turn.repeat.take() {
            found.push((Law::Attempt, format!("attempt {unsettled} repeats a step and superseded nothing")));
        }
        let was_named = turn.awaited.remove(id);
        let repeats = step == turn.steps && step > 0;
        if repeats && !was_named {
            turn.repeat = Some(id.to_owned());
        } else if !repeats && Some(step) != turn.steps.checked_add(1) {
            found.push((Law::Attempt, format!("attempt {id} is step {step} after step {}", turn.steps)));
        }
        turn.steps = turn.steps.max(step);
        turn.attempts.insert(id.to_owned(), Attempt { step, life: Life::Open });
    }

    fn attempt_ended(&mut self, event: &Map<String, Value>, found: &mut Found) {
        let (Some(id), Some(turn)) =
            (text(event, "attempt"), text(event, "turn").and_then(|turn| self.turns.get_mut(turn)))
        else {
            return;
        };
        turn.spent.add(event);
        match turn.attempts.get_mut(id) {
            Some(attempt) if attempt.life == Life::Open => attempt.life = Life::Ended,
            _ => found.push((Law::Attempt, format!("attempt {id} ended and is not open in its turn"))),
        }
    }

    /// A repeat may be named just before or just after the call it supersedes is closed.
    fn superseded(&mut self, event: &Map<String, Value>, found: &mut Found) {
        let (Some(id), Some(by)) = (text(event, "attempt"), text(event, "by")) else { return };
        let Some(turn) = text(event, "turn").and_then(|turn| self.turns.get_mut(turn)) else { return };
        if id == by {
            found.push((Law::Superseding, format!("attempt {id} supersedes itself")));
        }
        let old = match turn.attempts.get_mut(id) {
            Some(old) if old.life == Life::Gone => {
                found.push((Law::Superseding, format!("attempt {id} is superseded twice")));
                Some(old.step)
            }
            Some(old) => {
                old.life = Life::Gone;
                Some(old.step)
            }
            None => {
                found.push((
                    Law::Superseding,
                    format!("attempt {id} is superseded and never started in its turn"),
                ));
                None
            }
        };
        match turn.attempts.get(by) {
            Some(new) if old.is_some_and(|old| old != new.step) => {
                found.push((Law::Superseding, format!("attempt {by} supersedes {id} of another step")));
            }
            Some(_) => {}
            None => {
                turn.awaited.insert(by.to_owned());
            }
        }
        if turn.repeat.as_deref() == Some(by) {
            turn.repeat = None;
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
                    let message = format!("item {item} is voided and never started");
                    self.never(Law::Superseding, message, found);
                }
            }
        }
    }

    /// Only a repeat may start before the call it repeats is closed, and then at once closes it.
    fn one_attempt_at_a_time(&self, r#type: &str, turn: Option<&str>, found: &mut Found) {
        let Some(turn) = turn.and_then(|turn| self.turns.get(turn)).filter(|_| r#type != "attempt.started")
        else {
            return;
        };
        if let Some(repeat) = &turn.repeat {
            found.push((
                Law::Attempt,
                format!("{type} before attempt {repeat} superseded the call it repeats"),
            ));
        }
        let open = turn.attempts.iter().filter(|(_, attempt)| attempt.life == Life::Open);
        let names: Vec<&str> = open.map(|(id, _)| id.as_str()).collect();
        if names.len() > 1 {
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
            Life::Gone => found.push((Law::Item, format!("{type} of item {id}, which is void"))),
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

    /// An item of a log whose beginning is not kept: from here on it is in the books.
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
            Some(item) if item.life != Life::Gone => item.life = Life::Gone,
            Some(_) => found.push((Law::Item, format!("item.removed of item {id}, which is void"))),
            None => self.never(Law::Item, format!("item.removed of item {id}, which never started"), found),
        }
    }

    fn asked(&mut self, kind: &str, event: &Map<String, Value>, found: &mut Found) {
        let Some(id) = text(event, kind) else { return };
        if let Some(item) = text(event, "item").filter(|item| !self.items.contains_key(*item)) {
            self.never(Law::Wait, format!("{kind} {id} names item {item}, which never started"), found);
        }
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
            let turn = text(event, "turn").map(str::to_owned);
            self.waits.insert(format!("{kind} {id}"), Wait { turn, settled: true });
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
