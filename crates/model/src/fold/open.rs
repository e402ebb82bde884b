//! What is open in a session: its turn, items, approvals, questions and prompts. Every crate asks here.

use super::state::{Approval, Asked, Item, ItemStage, Prompt, State, Turn};
use crate::event::{Draft, Effect, Subject};
use crate::id::{ApprovalId, ItemId, PromptId, QuestionId, TurnId};
use std::collections::BTreeSet;

/// What is open in a state.
#[derive(Clone, Debug)]
pub struct Open<'a> {
    /// The turn that has not ended. There is at most one.
    pub turn: Option<&'a Turn>,
    /// Items that can still grow.
    pub items: Vec<&'a Item>,
    /// Approvals that wait for an answer.
    pub approvals: Vec<&'a Approval>,
    /// Questions that wait for an answer.
    pub questions: Vec<&'a Asked>,
    /// Prompts without an outcome: they wait in the queue, or were sent and have no turn yet.
    pub prompts: &'a [Prompt],
}

/// The ids of what is open. Retention keeps it, and an export ends before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenIds {
    /// Turns that have not ended.
    pub turns: BTreeSet<TurnId>,
    /// Items that can still grow.
    pub items: BTreeSet<ItemId>,
    /// Approvals that wait for an answer.
    pub approvals: BTreeSet<ApprovalId>,
    /// Questions that wait for an answer.
    pub questions: BTreeSet<QuestionId>,
    /// Prompts without an outcome.
    pub prompts: BTreeSet<PromptId>,
}

impl State {
    /// What is open in it.
    pub fn open(&self) -> Open<'_> {
        Open {
            turn: self.open_turn(),
            items: self.items.iter().filter(|item| item.is_open()).collect(),
            approvals: self.approvals.iter().filter(|approval| approval.is_open()).collect(),
            questions: self.questions.iter().filter(|asked| asked.is_open()).collect(),
            prompts: &self.queue,
        }
    }

    /// The turn that has not ended.
    pub fn open_turn(&self) -> Option<&Turn> {
        self.turns.iter().rev().find(|turn| turn.is_open())
    }
}

impl Turn {
    /// True until it has ended.
    pub fn is_open(&self) -> bool {
        self.outcome.is_none()
    }
}

impl Item {
    /// True while it can still grow.
    pub fn is_open(&self) -> bool {
        self.state == ItemStage::Streaming
    }
}

impl Approval {
    /// True while it waits for an answer.
    pub fn is_open(&self) -> bool {
        self.outcome.is_none()
    }
}

impl Asked {
    /// True while it waits for an answer.
    pub fn is_open(&self) -> bool {
        self.outcome.is_none()
    }
}

impl Open<'_> {
    /// The ids alone.
    pub fn ids(&self) -> OpenIds {
        OpenIds {
            turns: self.turn.iter().map(|turn| turn.turn.clone()).collect(),
            items: self.items.iter().map(|item| item.id.clone()).collect(),
            approvals: self.approvals.iter().map(|approval| approval.approval.clone()).collect(),
            questions: self.questions.iter().map(|asked| asked.question.clone()).collect(),
            prompts: self.prompts.iter().map(|prompt| prompt.prompt.clone()).collect(),
        }
    }
}

impl OpenIds {
    /// Keeps up with the log: what begins is open until it ends.
    pub fn apply(&mut self, draft: &Draft) {
        for item in draft.voided_items() {
            self.items.remove(item);
        }
        let Some((subject, effect)) = draft.about() else { return };
        match subject {
            Subject::Turn(id) => track(&mut self.turns, id, effect),
            Subject::Item(id) => track(&mut self.items, id, effect),
            Subject::Approval(id) => track(&mut self.approvals, id, effect),
            Subject::Question(id) => track(&mut self.questions, id, effect),
            Subject::Prompt(id) => track(&mut self.prompts, id, effect),
            Subject::Session | Subject::Attempt(_) | Subject::Notice => {}
        }
    }

    /// True when an item, approval, question or prompt is open in both: its beginning must be kept.
    pub fn shares_with(&self, later: &Self) -> bool {
        !self.items.is_disjoint(&later.items)
            || !self.approvals.is_disjoint(&later.approvals)
            || !self.questions.is_disjoint(&later.questions)
            || !self.prompts.is_disjoint(&later.prompts)
    }

    /// True when nothing is open.
    pub fn is_empty(&self) -> bool {
        let Self { turns, items, approvals, questions, prompts } = self;
        turns.is_empty()
            && items.is_empty()
            && approvals.is_empty()
            && questions.is_empty()
            && prompts.is_empty()
    }

    /// One of the things that are open, as a person names it: `turn t1`.
    pub fn first(&self) -> Option<String> {
        let Self { turns, items, approvals, questions, prompts } = self;
        let turn = turns.first().map(|turn| format!("turn {turn}"));
        let item = || items.first().map(|item| format!("item {item}"));
        let approval = || approvals.first().map(|approval| format!("approval {approval}"));
        let question = || questions.first().map(|question| format!("question {question}"));
        let prompt = || prompts.first().map(|prompt| format!("prompt {prompt}"));
        turn.or_else(item).or_else(approval).or_else(question).or_else(prompt)
    }
}

fn track<T: Ord + Clone>(open: &mut BTreeSet<T>, id: &T, effect: Effect) {
    match effect {
        Effect::Begins => drop(open.insert(id.clone())),
        Effect::Ends => drop(open.remove(id)),
        Effect::Changes | Effect::Cancels => {}
    }
}
