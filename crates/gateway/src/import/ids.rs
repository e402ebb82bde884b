//! Ids of a file, against those that the session would be given next: it may never be given one that it has.

use turnstream_model::event::{Body, Event};
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
}

impl Ids {
    /// So many were started before the file begins.
    pub(super) fn after(counters: &Counters) -> Self {
        let Counters { prompts, turns, attempts, items, approvals, questions } = *counters;
        let count = |started| Count { started, ..Count::default() };
        Self {
            prompts: count(prompts),
            turns: count(turns),
            attempts: count(attempts),
            items: count(items),
            approvals: count(approvals),
            questions: count(questions),
        }
    }

    pub(super) fn event(&mut self, line: usize, event: &Event) {
        let draft = &event.draft;
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
        let Self { prompts, turns, attempts, items, approvals, questions } = self;
        let all =
            [('p', prompts), ('t', turns), ('a', attempts), ('i', items), ('q', approvals), ('u', questions)];
        let (prefix, count) = all.into_iter().find(|(_, count)| count.highest > count.started)?;
        Some((count.line, format!("{prefix}{}", count.highest)))
    }
}

impl Count {
    fn add(&mut self, line: usize, prefix: char, id: &str) {
        self.started = self.started.saturating_add(1);
        let number = id.strip_prefix(prefix).and_then(|number| number.parse().ok()).unwrap_or(0);
        if number > self.highest {
            (self.highest, self.line) = (number, line);
        }
    }
}
