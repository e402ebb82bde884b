//! Unattended runs on the wire: how a session goes on after a limit or a failure, and why a prompt continues
//! a turn.

use super::describe::flat_members;
use super::{ErrorClass, Redact, Secrets, Weigh};
use crate::id::TurnId;
use crate::time::Time;
use crate::words::words;
use serde::{Deserialize, Serialize};

/// How long a session waits for limits at most, unless it is told: seven days.
pub const LIMIT_WINDOW_MILLIS: u64 = 7 * 24 * 60 * 60 * 1_000;

/// The prompt that continues a turn, unless another one is configured.
pub const CONTINUATION_PROMPT: &str =
    "Your last turn was interrupted before it was done. Continue where you left off.";

words! {
    /// What follows when a turn fails at a limit of the provider.
    pub enum OnLimit {
        /// The session waits until the limit is over, and goes on.
        Wait = "wait",
        /// Nothing: the turn has failed.
        Fail = "fail",
    }
}

words! {
    /// What follows when a turn fails for another reason that passes.
    pub enum OnFailure {
        /// The session goes on after a pause.
        Continue = "continue",
        /// Nothing: the turn has failed.
        Fail = "fail",
    }
}

words! {
    /// Why a turn is continued.
    pub enum Because {
        /// It failed at a limit of the provider.
        Limit = "limit",
        /// It failed for another reason that passes.
        Failure = "failure",
    }
}

words! {
    /// Why a session waits no more.
    pub enum Released {
        /// The time has come.
        Due = "due",
        /// A client did not want to wait.
        Woken = "woken",
        /// A client sent a prompt of its own, which takes the place of the continuation.
        Prompt = "prompt",
        /// A client cancelled the continuation, or the session has ended.
        Cancelled = "cancelled",
        /// The session has reached a cap of its budget.
        Budget = "budget",
        /// The session's rules no longer ask for it.
        Rules = "rules",
    }
}

/// How a session goes on when nobody watches it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unattended {
    /// What follows a limit.
    #[serde(default = "on_limit")]
    pub on_limit: OnLimit,
    /// How long it waits for limits at most, in milliseconds.
    #[serde(default = "limit_window")]
    pub limit_window: u64,
    /// What follows another failure.
    #[serde(default = "on_failure")]
    pub on_failure: OnFailure,
    /// The text of the prompt that continues a turn.
    #[serde(default = "continue_with")]
    pub continue_with: String,
}

fn on_limit() -> OnLimit {
    OnLimit::Fail
}

fn on_failure() -> OnFailure {
    OnFailure::Fail
}

fn limit_window() -> u64 {
    LIMIT_WINDOW_MILLIS
}

fn continue_with() -> String {
    CONTINUATION_PROMPT.to_owned()
}

impl Default for Unattended {
    fn default() -> Self {
        Self {
            on_limit: on_limit(),
            limit_window: limit_window(),
            on_failure: on_failure(),
            continue_with: continue_with(),
        }
    }
}

impl Redact for Unattended {
    fn redact(&mut self, secrets: &impl Secrets) {
        let Self { on_limit: _, limit_window: _, on_failure: _, continue_with } = self;
        continue_with.redact(secrets);
    }
}

impl Weigh for Unattended {
    fn weight(&self) -> usize {
        96 + self.continue_with.len()
    }
}

/// Which turn is continued, and why. The counters go from one continuation to the next, until a turn
/// completes or takes a prompt of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continuation {
    /// The turn that is continued.
    pub of: TurnId,
    /// What kind of error it was.
    pub because: Because,
    /// The class of the error with which it failed.
    pub reason: ErrorClass,
    /// How many continuations after failures there were, this one included.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u32,
    /// How many waits for limits there were in which nothing was done, this one included.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub limits: u32,
    /// When the first of these waits began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

flat_members! {
    Continuation {
        of: TurnId = must id plain,
        because: Because = must word plain,
        reason: ErrorClass = must word plain,
        failures: u32 = or_default number plain,
        limits: u32 = or_default number plain,
        since: Option<Time> = may number plain,
    }
}

impl Continuation {
    /// The number of this continuation among those with the same cause.
    pub fn number(&self) -> u32 {
        match self.because {
            Because::Limit => self.limits,
            Because::Failure => self.failures,
        }
    }
}
