//! The conversation, turn by turn.

use super::text::inline;
use super::time::minute;
use super::{Page, ask, item, prose::prose, tool};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use turnstream_model::event::{ItemKind, Origin, Outcome, Role, StopReason};
use turnstream_model::fold::{Approval, Asked, Item, Prompt, State, Turn};
use turnstream_model::id::{ItemId, TurnId};
use turnstream_model::time::Time;

/// How many levels of subagents are shown.
const DEEPEST: usize = 6;

/// One thing of a turn, in the order of time.
#[derive(Clone, Copy)]
enum Entry<'a> {
    Item(&'a Item),
    Approval(&'a Approval),
    Question(&'a Asked),
}

/// What belongs to what.
struct Book<'a> {
    state: &'a State,
    prompts: HashMap<&'a str, &'a Prompt>,
    by_turn: HashMap<&'a TurnId, Vec<&'a Item>>,
    /// Work of subagents, by the call that it is for.
    children: HashMap<&'a ItemId, Vec<&'a Item>>,
    /// Neither of a turn nor of a call.
    loose: Vec<&'a Item>,
    items: HashSet<&'a ItemId>,
}

pub(super) fn write(state: &State, page: &mut Page) {
    let book = Book::new(state);
    let mut loose = book.loose.iter().peekable();
    for turn in &state.turns {
        while let Some(item) = loose.next_if(|item| item.time < turn.started) {
            book.entry(Entry::Item(item), 0, page);
        }
        book.turn(turn, page);
    }
    for item in loose {
        book.entry(Entry::Item(item), 0, page);
    }
}

impl<'a> Book<'a> {
    fn new(state: &'a State) -> Self {
        let prompts = state.prompts.iter().map(|prompt| (prompt.prompt.as_str(), prompt)).collect();
        let items: HashSet<&ItemId> = state.items.iter().map(|item| &item.id).collect();
        let mut book = Self {
            state,
            prompts,
            by_turn: HashMap::new(),
            children: HashMap::new(),
            loose: Vec::new(),
            items,
        };
        for item in &state.items {
            // The call was removed, so the work of its subagent has no place either.
            match (item.parent.as_ref().filter(|parent| book.items.contains(parent)), &item.turn) {
                (Some(parent), _) => book.children.entry(parent).or_default().push(item),
                (None, Some(turn)) => book.by_turn.entry(turn).or_default().push(item),
                (None, None) => book.loose.push(item),
            }
        }
        book
    }

    fn turn(&self, turn: &Turn, page: &mut Page) {
        for prompt in turn.prompts.iter().filter_map(|id| self.prompts.get(id.as_str())) {
            page.block(&format!("## User · {}", minute(prompt.time)));
            for block in &prompt.content {
                content(block, page);
            }
        }
        let agent = inline(&self.state.session.agent);
        let agent = if agent.is_empty() { "Agent".to_owned() } else { agent };
        let origin = match turn.origin {
            Origin::Prompt | Origin::Foreign => "",
            Origin::Agent => " · by itself",
        };
        let heading = format!("## {agent}{origin} · {}", minute(turn.started));
        let mut is_headed = false;
        for entry in self.entries(turn) {
            let is_user =
                matches!(entry, Entry::Item(item) if item.role == Some(Role::User) && !item.synthetic);
            if is_user {
                // Somebody else spoke to the same agent.
                page.block(&format!("## User, elsewhere · {}", minute(entry.time())));
                is_headed = false;
            } else if !is_headed {
                page.block(&heading);
                is_headed = true;
            }
            self.entry(entry, 0, page);
        }
        if let Some(end) = ending(turn) {
            if !is_headed {
                page.block(&heading);
            }
            page.block(&end);
        }
    }

    /// The items of a turn, and the asks that belong to none of them.
    fn entries(&self, turn: &Turn) -> Vec<Entry<'a>> {
        let items = self.by_turn.get(&turn.turn).map(Vec::as_slice).unwrap_or_default();
        let mut entries: Vec<Entry<'a>> = items.iter().map(|item| Entry::Item(item)).collect();
        let has_item = |item: &Option<ItemId>| item.as_ref().is_some_and(|item| self.items.contains(item));
        let of_turn = |of: &Option<TurnId>| of.as_ref() == Some(&turn.turn);
        let approvals = self.state.approvals.iter().filter(|ask| of_turn(&ask.turn) && !has_item(&ask.item));
        let questions = self.state.questions.iter().filter(|ask| of_turn(&ask.turn) && !has_item(&ask.item));
        entries.extend(approvals.map(Entry::Approval));
        entries.extend(questions.map(Entry::Question));
        entries.sort_by_key(Entry::time);
        entries
    }

    fn entry(&self, entry: Entry<'a>, depth: usize, page: &mut Page) {
        match entry {
            Entry::Approval(approval) => page.block(&ask::approval(approval)),
            Entry::Question(asked) => page.block(&ask::question(asked)),
            Entry::Item(item) if item.kind == ItemKind::Tool => self.call(item, depth, page),
            Entry::Item(item) => item::write(item, page),
        }
    }

    fn call(&self, item: &'a Item, depth: usize, page: &mut Page) {
        page.block(&tool::title(item));
        let is_its = |of: &Option<ItemId>| of.as_ref() == Some(&item.id);
        // A call that asks people is shown as its questions and answers.
        let asks = self.state.questions.iter().any(|ask| is_its(&ask.item));
        if !asks {
            tool::input(item, page);
        }
        for approval in self.state.approvals.iter().filter(|ask| is_its(&ask.item)) {
            page.block(&ask::approval(approval));
        }
        for asked in self.state.questions.iter().filter(|ask| is_its(&ask.item)) {
            page.block(&ask::question(asked));
        }
        if let Some(children) = self.children.get(&item.id).filter(|_| depth < DEEPEST) {
            page.folded("What the subagent did", |page| {
                for child in children {
                    self.entry(Entry::Item(child), depth + 1, page);
                }
            });
        }
        if item::is_whole(item) && !asks {
            tool::output(item, page);
        }
    }
}

impl Entry<'_> {
    fn time(&self) -> Time {
        match self {
            Self::Item(item) => item.time,
            Self::Approval(approval) => approval.time,
            Self::Question(asked) => asked.time,
        }
    }
}

/// One block of a prompt.
fn content(block: &Value, page: &mut Page) {
    match block["type"].as_str() {
        Some("text") => page.block(&prose(block["text"].as_str().unwrap_or_default())),
        Some("resource_link") => {
            let name = block["name"].as_str().or_else(|| block["uri"].as_str()).unwrap_or("a file");
            page.block(&format!("*Attached:* {}", inline(name)));
        }
        other => page.block(&format!("*Attached:* {}", inline(other.unwrap_or("something")))),
    }
}

/// How a turn ended, unless it simply completed.
fn ending(turn: &Turn) -> Option<String> {
    let error = turn.error.as_ref().map(|error| {
        let status = error.status.map_or_else(String::new, |status| format!(", status {status}"));
        format!(" {} ({}{status})", inline(&error.message), inline(error.class.as_str()))
    });
    let error = error.unwrap_or_default();
    Some(match turn.outcome? {
        Outcome::Completed => match turn.stop_reason {
            None | Some(StopReason::EndTurn) => return None,
            Some(StopReason::MaxTokens) => "> **The answer stopped at the limit of its length.**".to_owned(),
            Some(StopReason::MaxTurnRequests) => {
                "> **The turn stopped at the limit of model calls.**".to_owned()
            }
            Some(StopReason::Refusal) => "> **The model refused to go on.**".to_owned(),
            Some(StopReason::Rejected) => {
                "> **The turn stopped because a permission was refused.**".to_owned()
            }
        },
        Outcome::Cancelled => format!("> **The turn was cancelled.**{error}"),
        Outcome::Failed => format!("> **The turn failed.**{error}"),
        Outcome::Lost => format!("> **It is not known how the turn ended.**{error}"),
    })
}
