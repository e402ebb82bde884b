//! What a session uses of its budget. It counts from the first `budget.set` on: earlier turns, and a turn
//! that is open then, do not count.

use crate::event::{Aside, Body, Budget, Cap, Caps, Cost, Scope, Status, Usage, Used};
use crate::event::{all_tokens, capped_amount};
use crate::id::PromptId;
use crate::time::Time;
use serde::{Deserialize, Serialize};

/// The caps of a session and what it has used of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Meter {
    /// The caps.
    #[serde(flatten)]
    pub budget: Budget,
    /// What the turns that have ended used.
    #[serde(default)]
    pub used: Used,
    /// The cap that the session has reached. It gets no further prompt until its caps are set again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<Cap>,
    /// The turn that is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<OpenUse>,
    /// Prompts without an outcome whose turn has caps of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<CappedPrompt>,
}

/// The caps that a prompt came with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CappedPrompt {
    /// The prompt.
    pub prompt: PromptId,
    /// The caps of its turn, instead of those of the session's turns.
    pub caps: Caps,
}

/// What the open turn uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenUse {
    /// When it began.
    pub started: Time,
    /// The caps of its prompt, if that had some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caps: Option<Caps>,
    /// What its model calls have used. The time is what is known of it, see [`OpenUse::used`].
    #[serde(default)]
    pub calls: Used,
    /// Milliseconds in which it waited for a person, without a wait that goes on.
    #[serde(default)]
    pub waited: u64,
    /// Since when it waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Time>,
    /// The cap of its own that it has reached. It was cancelled for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<Cap>,
}

impl Meter {
    /// Counts an event. A session without a budget has no meter, and its first budget makes one.
    pub fn follow(meter: &mut Option<Box<Self>>, body: &Body, time: Time) {
        if let Body::Aside(Aside::BudgetSet { prompt, budget, by: _ }) = body {
            let meter = meter.get_or_insert_default();
            match prompt {
                Some(prompt) => {
                    let caps = budget.turn.clone();
                    meter.prompts.push(CappedPrompt { prompt: prompt.clone(), caps });
                }
                None => {
                    meter.budget = (**budget).clone();
                    meter.reached = None;
                }
            }
        } else if let Some(meter) = meter {
            meter.count(body, time);
        }
    }

    fn count(&mut self, body: &Body, time: Time) {
        if let Body::TurnStarted { .. } = body {
            self.open = Some(OpenUse::begun(time));
        } else if let Body::PromptTaken { prompt } = body {
            let caps = self.remove_prompt(prompt);
            if let (Some(open), Some(caps)) = (&mut self.open, caps) {
                open.caps = Some(caps);
            }
        } else if let Body::PromptWithdrawn { prompt } = body {
            self.remove_prompt(prompt);
        } else if let Body::SessionStatus(status) = body {
            if let Some(open) = &mut self.open {
                open.show(status, time);
            }
        } else if let Body::AttemptStarted { .. } = body {
            if let Some(open) = &mut self.open {
                let steps = open.calls.steps.get_or_insert(0);
                *steps = steps.saturating_add(1);
            }
        } else if let Body::AttemptEnded { usage, cost, .. } = body {
            if let Some(open) = &mut self.open {
                open.calls = open.calls.and(&Used::told(usage.as_deref(), cost.as_ref()));
            }
        } else if let Body::TurnEnded { usage, cost, .. } = body {
            if let Some(open) = self.open.take() {
                let used = open.used(time).at_least(&Used::told(usage.as_deref(), cost.as_ref()));
                self.used = self.used.and(&used);
            }
        } else if let Body::Aside(Aside::BudgetReached { scope, cap, .. }) = body {
            match (scope, &mut self.open) {
                (Scope::Session, _) => self.reached = Some(*cap),
                (Scope::Turn, Some(open)) => open.reached = Some(*cap),
                (Scope::Turn, None) => {}
            }
        }
    }

    /// The prompt has its outcome. Returns the caps that it came with.
    fn remove_prompt(&mut self, prompt: &PromptId) -> Option<Caps> {
        let index = self.prompts.iter().position(|capped| capped.prompt == *prompt)?;
        Some(self.prompts.remove(index).caps)
    }

    /// The caps of the open turn, or of the next one.
    pub fn turn_caps(&self) -> &Caps {
        self.open.as_ref().and_then(|open| open.caps.as_ref()).unwrap_or(&self.budget.turn)
    }

    /// What the open turn has used so far: what its events say, but at least what the agent has told of it.
    pub fn used_by_turn(&self, now: Time, told: &Used) -> Option<Used> {
        self.open.as_ref().map(|open| open.used(now).at_least(told))
    }

    /// What all turns have used so far.
    pub fn used_by_session(&self, now: Time, told: &Used) -> Used {
        self.used_by_turn(now, told).map_or_else(|| self.used.clone(), |turn| self.used.and(&turn))
    }

    /// When the open turn reaches a cap on time, if it goes on. `None` while it waits for a person.
    pub fn time_is_up(&self) -> Option<Time> {
        let open = self.open.as_ref().filter(|open| open.waiting.is_none())?;
        let left = self.budget.session.time.map(|cap| cap.saturating_sub(self.used.time));
        let millis = [self.turn_caps().time, left].into_iter().flatten().min()?;
        Some(open.started.plus_millis(open.waited).plus_millis(millis))
    }
}

impl OpenUse {
    fn begun(started: Time) -> Self {
        Self { started, caps: None, calls: Used::default(), waited: 0, waiting: None, reached: None }
    }

    fn show(&mut self, status: &Status, time: Time) {
        match status {
            Status::Waiting => {
                self.waiting.get_or_insert(time);
            }
            Status::Idle | Status::Busy | Status::Recovering | Status::Retrying { .. } => {
                if let Some(since) = self.waiting.take() {
                    self.waited = self.waited.saturating_add(time.0.saturating_sub(since.0));
                }
            }
        }
    }

    /// What it has used until now.
    pub fn used(&self, now: Time) -> Used {
        let until = self.waiting.unwrap_or(now);
        let time = until.0.saturating_sub(self.started.0).saturating_sub(self.waited);
        Used { time, ..self.calls.clone() }
    }
}

impl Used {
    /// What an agent told of a model call or of a turn.
    pub fn told(usage: Option<&Usage>, cost: Option<&Cost>) -> Self {
        let (tokens, cost) = (usage.and_then(all_tokens), cost.and_then(capped_amount));
        Self { steps: None, time: 0, tokens, cost }
    }

    /// The larger value of each count.
    #[must_use]
    fn at_least(&self, other: &Self) -> Self {
        let cost = [self.cost, other.cost].into_iter().flatten().reduce(f64::max);
        Self {
            steps: self.steps.max(other.steps),
            time: self.time.max(other.time),
            tokens: self.tokens.max(other.tokens),
            cost,
        }
    }
}
