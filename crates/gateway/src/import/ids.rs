//! The ids in a file. The session numbers its ids onward, so the file may not have a number that comes later.

use std::collections::BTreeSet;
use turnstream_model::event::{Body, Event};
use turnstream_model::fold::State;
use turnstream_model::id::Counters;

/// How many ids of one kind the file has, and the highest number among them.
#[derive(Clone, Copy, Default)]
struct Count {
    started: u64,
    highest: u64,
    line: usize,
}

/// The ids of the events so far.
#[derive(Default)]
pub(super) struct Ids {
    prompts: Count,
    turns: Count,
    attempts: Count,
    items: Count,
    approvals: Count,
    questions: Count,
    /// What is open at the beginning of the file. The law checker does not see it begin, so it does not
    /// notice a second beginning.
    open: BTreeSet<String>,
    repeated: Option<(usize, String)>,
}

/// The line with the state at the beginning.
const HEADER: usize = 1;

impl Ids {
    /// Starts with the state at the beginning of the file.
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

    /// The line in which something begins a second time, and its id.
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

    /// The line of an id that the session would use again, and the id.
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
