//! The model calls of one turn: the open one, its step, and the items that a repeat makes void.

use super::items::Items;
use crate::event::{Body, Cost, Draft, StopReason, Usage};
use crate::fold;
use crate::id::{AttemptId, Key, TurnId};
use std::collections::HashSet;

struct Attempt {
    id: AttemptId,
    key: Option<Key>,
    step: u32,
    model: Option<String>,
    /// The agent repeats it. Its unfinished items become void when the repeat begins.
    discarded: bool,
}

/// How a call ended, and its tokens and cost.
#[derive(Default)]
pub(crate) struct Closing {
    pub(crate) finish: Option<String>,
    pub(crate) usage: Option<Usage>,
    pub(crate) cost: Option<Cost>,
}

/// The attempts of one turn, one open at a time.
#[derive(Default)]
pub(crate) struct Attempts {
    open: Option<Attempt>,
    /// The last call, if it failed: a retry repeats it.
    broken: Option<Attempt>,
    steps: u32,
    seen: HashSet<Key>,
    last_finish: Option<String>,
    usage_sums: UsageSums,
}

/// The tokens and cost of a turn's calls, superseded ones included.
#[derive(Clone, Default)]
pub(crate) struct UsageSums {
    usage: Option<Usage>,
    cost: Option<Cost>,
}

impl UsageSums {
    fn add(&mut self, usage: Option<&Usage>, cost: Option<&Cost>) {
        if let Some(usage) = usage {
            self.usage.get_or_insert_default().add(usage);
        }
        match (&mut self.cost, cost) {
            (Some(sum), Some(cost)) => sum.add(cost),
            (sum @ None, Some(cost)) => *sum = Some(cost.clone()),
            (_, None) => {}
        }
    }

    /// The tokens of a turn: the agent's total, but at least the sum of its calls.
    pub(super) fn usage(&self, total: Option<Usage>) -> Option<Usage> {
        let Some(mut total) = total else { return self.usage.clone() };
        if let Some(known) = &self.usage {
            total.raise(known);
        }
        Some(total)
    }

    /// The cost of a turn, in the same way.
    pub(super) fn cost(&self, total: Option<Cost>) -> Option<Cost> {
        let Some(mut total) = total else { return self.cost.clone() };
        if let Some(known) = &self.cost {
            total.raise(known);
        }
        Some(total)
    }
}

impl Attempts {
    /// The calls of a turn that the last owner left open.
    pub(crate) fn resumed(attempts: &[fold::Attempt]) -> Self {
        let mut resumed = Self::default();
        for attempt in attempts {
            let key = attempt.native_id.as_deref().map(Key::from);
            resumed.steps = resumed.steps.max(attempt.step);
            resumed.seen.extend(key.clone());
            if attempt.ended {
                resumed.last_finish.clone_from(&attempt.finish);
            } else {
                let (id, step, model) = (attempt.attempt.clone(), attempt.step, attempt.model.clone());
                resumed.open = Some(Attempt { id, key, step, model, discarded: false });
            }
            resumed.usage_sums.add(attempt.usage.as_ref(), attempt.cost.as_ref());
        }
        resumed
    }

    /// The agent's ids of its calls. A signal about one of them belongs to this turn.
    pub(crate) fn into_seen(self) -> HashSet<Key> {
        self.seen
    }

    /// The call that new items belong to.
    pub(crate) fn current(&self) -> Option<&AttemptId> {
        self.open.as_ref().map(|attempt| &attempt.id)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    pub(crate) fn is_discarded(&self) -> bool {
        self.open.as_ref().or(self.broken.as_ref()).is_some_and(|attempt| attempt.discarded)
    }

    /// True when the last call asked for tools, so that another call must follow.
    pub(crate) fn expects_more(&self) -> bool {
        matches!(self.last_finish.as_deref(), Some("tool_calls" | "tool-calls" | "tool_use"))
    }

    /// The stop reason by the finish reason of the last call, for agents that only report idle.
    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        match self.last_finish.as_deref()? {
            "length" | "max_tokens" => Some(StopReason::MaxTokens),
            "content-filter" | "content_filter" | "refusal" => Some(StopReason::Refusal),
            // It asked for a tool and stopped: the tool was not allowed.
            "tool_calls" | "tool-calls" | "tool_use" => Some(StopReason::Rejected),
            _ => None,
        }
    }

    /// The sum of the tokens and costs that calls reported.
    pub(super) fn usage_sums(&self) -> &UsageSums {
        &self.usage_sums
    }

    /// True when that call is not known yet.
    pub(crate) fn is_new(&self, key: &Key) -> bool {
        !self.seen.contains(key)
    }

    /// Begins a call. It supersedes the one it repeats, and ends one that never ended.
    pub(crate) fn begin(
        &mut self,
        id: AttemptId,
        key: Option<Key>,
        model: Option<String>,
        turn: &TurnId,
        items: &mut Items,
        out: &mut Vec<Draft>,
    ) {
        let superseded = match self.open.take() {
            Some(old) if old.discarded => Some(old),
            Some(old) => {
                self.close(&old, Closing::default(), turn, out);
                None
            }
            None => self.broken.take().filter(|old| old.discarded),
        };
        self.broken = None;
        let (step, model) = match &superseded {
            Some(old) => (old.step, model.or_else(|| old.model.clone())),
            None => {
                self.steps += 1;
                (self.steps, model)
            }
        };
        let native_id = key.as_ref().map(|key| key.as_str().to_owned());
        out.push(draft(turn, &id, Body::AttemptStarted { step, model: model.clone(), native_id }));
        if let Some(old) = superseded {
            let items = items.void_attempt(&old.id);
            out.push(draft(turn, &old.id, Body::AttemptSuperseded { by: id.clone(), items }));
        }
        self.last_finish = None;
        self.seen.extend(key.clone());
        self.open = Some(Attempt { id, key, step, model, discarded: false });
    }

    /// The agent repeats its call. Returns false if there is none.
    pub(crate) fn discard(&mut self) -> bool {
        match self.open.as_mut().or(self.broken.as_mut()) {
            Some(attempt) => {
                attempt.discarded = true;
                true
            }
            None => false,
        }
    }

    /// Ends the open call if it is that one. A repeated or late end changes nothing.
    pub(crate) fn end(&mut self, key: &Key, closing: Closing, turn: &TurnId, out: &mut Vec<Draft>) {
        let ours = |attempt: &Attempt| attempt.key.as_ref().is_none_or(|open| open == key);
        if !self.open.as_ref().is_some_and(ours) {
            return;
        }
        if let Some(attempt) = self.open.take() {
            self.seen.insert(key.clone());
            let is_broken = closing.finish.as_deref().is_none_or(|finish| finish == "error");
            self.close(&attempt, closing, turn, out);
            self.broken = Some(attempt).filter(|_| is_broken);
        }
    }

    /// Ends the open call, because its turn ends.
    pub(crate) fn close_open(&mut self, finish: Option<&str>, turn: &TurnId, out: &mut Vec<Draft>) {
        if let Some(attempt) = self.open.take() {
            let finish = finish.map(str::to_owned);
            self.close(&attempt, Closing { finish, ..Closing::default() }, turn, out);
        }
    }

    fn close(&mut self, attempt: &Attempt, closing: Closing, turn: &TurnId, out: &mut Vec<Draft>) {
        let Closing { finish, usage, cost } = closing;
        // JSON has no infinity and no NaN.
        let cost = cost.filter(|cost| cost.amount.is_finite());
        self.usage_sums.add(usage.as_ref(), cost.as_ref());
        self.last_finish.clone_from(&finish);
        let usage = usage.map(Box::new);
        out.push(draft(turn, &attempt.id, Body::AttemptEnded { finish, usage, cost }));
    }
}

fn draft(turn: &TurnId, attempt: &AttemptId, body: Body) -> Draft {
    Draft { turn: Some(turn.clone()), attempt: Some(attempt.clone()), ..Draft::new(body) }
}
