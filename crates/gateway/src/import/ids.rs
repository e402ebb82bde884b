//! Ids of a file, against those that the session would be given next: it may never be given one that it has.

use std::collections::BTreeSet;
use turnstream_model::event::{Body, Event};
use turnstream_model::fold::State;
use turnstream_model::id::Counters;

/// How many of a kind were started, and the highest number among their ids.
#[derive(Clone, Copy, Default)]
struct Count {
    started: u64,
    highest: u64,
    line: usize,
}

/// What the events so far have named.
#[derive(Default)]
pub(super) struct Ids {
    prompts: Count,
    turns: Count,
    attempts: Count,
    items: Count,
    approvals: Count,
    questions: Count,
    /// What is open where the file begins. No law is broken by its second beginning as far as the events tell.
    open: BTreeSet<String>,
    repeated: Option<(usize, String)>,
}

/// The line with the base.
const HEADER: usize = 1;

impl Ids {
    /// This was there before the file begins.
    pub(super) fn after(base: &State) -> Self {
        let Counters { prompts, turns, attempts, items, approvals, questions } = base.counters;
        let count = |started| Count { started, ..Count::default() };
        let mut ids = Self {
            prompts: count(prompts),
            turns: count(turns),
            attempts: count(attempts),
            items: count(items),
            approvals: count(approvals),
            questions: count(questions),
            ..Self::default()
        };
        for prompt in base.queue.iter().map(|prompt| &prompt.prompt) {
            ids.prompts.see(HEADER, 'p', prompt.as_str());
            ids.open(prompt.as_str());
        }
        for spent in &base.spent {
            ids.prompts.see(HEADER, 'p', spent.prompt.as_str());
        }
        for item in &base.items {
            ids.items.see(HEADER, 'i', item.id.as_str());
            ids.open(item.id.as_str());
        }
        for ask in &base.approvals {
            ids.approvals.see(HEADER, 'q', ask.approval.as_str());
            ids.open(ask.approval.as_str());
        }
        for asked in &base.questions {
            ids.questions.see(HEADER, 'u', asked.question.as_str());
            ids.open(asked.question.as_str());
        }
        ids
    }

    fn open(&mut self, id: &str) {
        if !self.open.insert(id.to_owned()) {
            self.repeated.get_or_insert((HEADER, id.to_owned()));
        }
    }

    /// The line in which something begins that was open already where the file begins, and what it is.
    pub(super) fn repeated(&self) -> Option<(usize, String)> {
        self.repeated.clone()
    }

    pub(super) fn event(&mut self, line: usize, event: &Event) {
        let draft = &event.draft;
        let started = match &draft.body {
            Body::PromptAccepted { prompt, .. } => Some(prompt.as_str()),
            Body::ItemStarted { .. } => draft.item.as_ref().map(|id| id.as_str()),
            Body::ApprovalRequested { approval, .. } => Some(approval.as_str()),
            Body::QuestionAsked { question, .. } => Some(question.as_str()),
            _ => None,
        };
        if let Some(id) = started.filter(|id| self.open.contains(*id)) {
            self.repeated.get_or_insert((line, id.to_owned()));
        }
        match &draft.body {
            Body::PromptAccepted { prompt, .. } => self.prompts.add(line, 'p', prompt.as_str()),
            Body::TurnStarted { .. } => {
                self.turns.add(line, 't', draft.turn.as_ref().map_or("", |id| id.as_str()))
            }
            Body::AttemptStarted { .. } => {
                self.attempts.add(line, 'a', draft.attempt.as_ref().map_or("", |id| id.as_str()));
            }
            Body::ItemStarted { .. } => {
                self.items.add(line, 'i', draft.item.as_ref().map_or("", |id| id.as_str()));
            }
            Body::ApprovalRequested { approval, .. } => self.approvals.add(line, 'q', approval.as_str()),
            Body::QuestionAsked { question, .. } => self.questions.add(line, 'u', question.as_str()),
            _ => {}
        }
    }

    /// The line of an id that would be given again, and what it is.
    pub(super) fn reused(&self) -> Option<(usize, String)> {
        let Self { prompts, turns, attempts, items, approvals, questions, open: _, repeated: _ } = self;
        let all =
            [('p', prompts), ('t', turns), ('a', attempts), ('i', items), ('q', approvals), ('u', questions)];
        let (prefix, count) = all.into_iter().find(|(_, count)| count.highest > count.started)?;
        Some((count.line, format!("{prefix}{}", count.highest)))
    }
}

impl Count {
    fn add(&mut self, line: usize, prefix: char, id: &str) {
        self.started = self.started.saturating_add(1);
        self.see(line, prefix, id);
    }

    fn see(&mut self, line: usize, prefix: char, id: &str) {
        let number = id.strip_prefix(prefix).and_then(|number| number.parse().ok()).unwrap_or(0);
        if number > self.highest {
            (self.highest, self.line) = (number, line);
        }
    }
}
