//! Trimming: what remains of a state when retention removes the first events of a log.
//!
//! A log may be cut at the end of a turn. Ended turns, items, approvals, questions and prompts are removed
//! with their events. Everything open stays, and so do the session and its counters, because ids are never
//! reused. What stays is the *base*. Applying the events after the cut to the base gives the same state as
//! all events, without what was removed.

use super::{Approval, Asked, Fold, Item, OpenIds, State, Turn};
use crate::event::{Event, Known};
use crate::id::{ApprovalId, ItemId, PromptId, QuestionId, TurnId};
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// How many keys of removed prompts are kept. After that many newer ones, a repeated request counts as a
/// new prompt.
pub const SPENT_KEPT: usize = 1_024;

/// The key of a prompt that is no longer kept. Without it a repeated request would run the prompt again
/// (L12).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpentKey {
    /// The client's own key.
    pub key: String,
    /// The prompt it made.
    pub prompt: PromptId,
}

/// The ids of what a trim removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gone {
    /// Turns that had ended.
    pub turns: BTreeSet<TurnId>,
    /// Items that had ended.
    pub items: BTreeSet<ItemId>,
    /// Approvals that were settled.
    pub approvals: BTreeSet<ApprovalId>,
    /// Questions that were settled.
    pub questions: BTreeSet<QuestionId>,
    /// Prompts that had their outcome.
    pub prompts: BTreeSet<PromptId>,
}

impl State {
    /// Removes everything that has ended, and returns the rest and the removed ids. The events up to `seq`
    /// are then not needed for any later state. `last` is the time of the last of them, which is kept
    /// because there may be no later event.
    pub fn trimmed(self, last: Time) -> (Self, Gone) {
        let Self {
            seq,
            session,
            turns,
            items,
            approvals,
            questions,
            queue,
            prompts,
            degraded,
            counters,
            spent,
            trimmed: _,
        } = self;
        let mut gone = Gone::default();
        let (open, ended): (Vec<_>, Vec<_>) = turns.into_iter().partition(Turn::is_open);
        gone.turns = ended.into_iter().map(|turn| turn.turn).collect();
        let is_open = |turn: Option<&TurnId>| open.iter().any(|open| Some(&open.turn) == turn);
        let (items, ended): (Vec<_>, Vec<_>) =
            items.into_iter().partition(|item: &Item| item.is_open() || is_open(item.turn.as_ref()));
        gone.items = ended.into_iter().map(|item| item.id).collect();
        let (approvals, settled): (Vec<_>, Vec<_>) =
            approvals.into_iter().partition(|ask: &Approval| ask.is_open() || is_open(ask.turn.as_ref()));
        gone.approvals = settled.into_iter().map(|ask| ask.approval).collect();
        let (questions, settled): (Vec<_>, Vec<_>) =
            questions.into_iter().partition(|asked: &Asked| asked.is_open() || is_open(asked.turn.as_ref()));
        gone.questions = settled.into_iter().map(|asked| asked.question).collect();
        let (prompts, settled): (Vec<_>, Vec<_>) =
            prompts.into_iter().partition(|prompt| is_open(prompt.turn.as_ref()));
        let new = settled
            .iter()
            .filter_map(|prompt| Some(SpentKey { key: prompt.key.clone()?, prompt: prompt.prompt.clone() }));
        let mut spent: Vec<SpentKey> = spent.into_iter().chain(new).collect();
        spent.drain(..spent.len().saturating_sub(SPENT_KEPT));
        gone.prompts = settled.into_iter().map(|prompt| prompt.prompt).collect();
        let turns = open;
        let base = Self {
            seq,
            session,
            turns,
            items,
            approvals,
            questions,
            queue,
            prompts,
            degraded,
            counters,
            spent,
            trimmed: Some(last),
        };
        (base, gone)
    }
}

impl Fold {
    /// True when the log may be cut after this event, which was applied last. A turn must have ended with
    /// it, and nothing that is open at the head (`now`) may have begun before it.
    pub fn may_cut_after(&self, event: &Event, now: &OpenIds) -> bool {
        event.draft.body.kind().is(Known::TurnEnded)
            && event.seq == self.state.seq
            && self.state.open_turn().is_none()
            && !self.state.open().ids().shares_with(now)
    }
}
