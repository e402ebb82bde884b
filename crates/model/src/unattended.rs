//! The rules of unattended runs: whether a turn that has failed is continued, and when. Pure: the time is an
//! argument.
//!
//! - A limit that tells its end parks the session until then, if `on_limit` is `wait`.
//! - Another failure that passes parks it for a pause, if `on_failure` is `continue`, and at most
//!   [`MOST_FAILURES`] times in a row.
//!
//! Only a turn that Turnstream prompted is continued, and never one that somebody wanted to stop.

use crate::event::{Because, Continuation, ErrorClass, OnFailure, OnLimit, Outcome, TurnError, Unattended};
use crate::id::TurnId;
use crate::time::Time;

/// How many times in a row a failed turn is continued. A turn that completes, or that takes a prompt of a
/// client, begins a new row.
pub const MOST_FAILURES: u32 = 3;

/// The pauses before a failed turn is continued, in milliseconds.
const FAILURE_PAUSES: [u64; MOST_FAILURES as usize] = [2_000, 15_000, 60_000];

/// The shortest waits for a limit, in milliseconds, by the number of waits in which nothing was done. A
/// provider that tells a time in the past must not be asked again and again.
const SHORTEST_WAITS: [u64; 4] = [1_000, 10_000, 60_000, 300_000];

/// A turn that has ended.
#[derive(Clone, Copy, Debug)]
pub struct EndedTurn<'a> {
    /// Its id.
    pub id: &'a TurnId,
    /// How it ended.
    pub outcome: Outcome,
    /// What went wrong.
    pub error: Option<&'a TurnError>,
    /// It took a prompt that Turnstream sent.
    pub is_prompted: bool,
    /// Somebody wanted it to stop.
    pub is_cancelled: bool,
    /// A tool of it may or may not have run.
    pub has_unknown_tool: bool,
    /// Something was done in it: a tool ran, for example.
    pub has_worked: bool,
    /// The agent itself reported the end, so it answers.
    pub agent_answers: bool,
    /// The turn that it continued.
    pub continues: Option<&'a Continuation>,
}

/// A wait for the continuation of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Park {
    /// When the turn is continued.
    pub until: Time,
    /// Which turn, and why.
    pub continuation: Continuation,
}

/// Whether the turn is continued, and when. `None` if it stays as it is.
pub fn decide(turn: &EndedTurn<'_>, rules: &Unattended, now: Time) -> Option<Park> {
    if turn.outcome != Outcome::Failed || turn.is_cancelled || !turn.is_prompted {
        return None;
    }
    // It may have run, and a continuation may run it again (law L12). A person decides.
    if turn.has_unknown_tool {
        return None;
    }
    let error = turn.error?;
    after_limit(turn, error, rules, now).or_else(|| after_failure(turn, error, rules, now))
}

fn after_limit(turn: &EndedTurn<'_>, error: &TurnError, rules: &Unattended, now: Time) -> Option<Park> {
    let told = error.retry_at.filter(|_| rules.on_limit == OnLimit::Wait && is_limit(error.class))?;
    let before = turn.continues.filter(|before| before.limits > 0 && !turn.has_worked);
    let limits = before.map_or(0, |before| before.limits).saturating_add(1);
    let since = before.and_then(|before| before.since).unwrap_or(now);
    let shortest = SHORTEST_WAITS[(limits as usize - 1).min(SHORTEST_WAITS.len() - 1)];
    let until = told.max(now.plus_millis(shortest));
    if until > since.plus_millis(rules.limit_window) {
        return None;
    }
    let failures = turn.continues.map_or(0, |before| before.failures);
    let continuation = Continuation {
        of: turn.id.clone(),
        because: Because::Limit,
        reason: error.class,
        failures,
        limits,
        since: Some(since),
    };
    Some(Park { until, continuation })
}

fn after_failure(turn: &EndedTurn<'_>, error: &TurnError, rules: &Unattended, now: Time) -> Option<Park> {
    let passes = passes(error.class) || (error.class == ErrorClass::AgentError && turn.agent_answers);
    if rules.on_failure != OnFailure::Continue || !passes {
        return None;
    }
    let before = turn.continues.map_or(0, |before| before.failures);
    let pause = FAILURE_PAUSES.get(before as usize)?;
    let until = now.plus_millis(*pause).max(error.retry_at.unwrap_or_default());
    if until > now.plus_millis(rules.limit_window.max(*pause)) {
        return None;
    }
    let waits = turn.continues.filter(|_| !turn.has_worked);
    let continuation = Continuation {
        of: turn.id.clone(),
        because: Because::Failure,
        reason: error.class,
        failures: before + 1,
        limits: waits.map_or(0, |before| before.limits),
        since: waits.and_then(|before| before.since),
    };
    Some(Park { until, continuation })
}

/// Whether the rules still ask for the continuation.
pub fn still_wanted(continuation: &Continuation, rules: &Unattended) -> bool {
    match continuation.because {
        Because::Limit => rules.on_limit == OnLimit::Wait,
        Because::Failure => rules.on_failure == OnFailure::Continue,
    }
}

/// A limit of the provider. It is over at a time.
fn is_limit(class: ErrorClass) -> bool {
    matches!(class, ErrorClass::RateLimited | ErrorClass::QuotaExhausted | ErrorClass::Overloaded)
}

/// A failure that passes by itself. The match names every class, so that the compiler reports a new one.
fn passes(class: ErrorClass) -> bool {
    match class {
        ErrorClass::StreamCorrupt
        | ErrorClass::StreamSpliced
        | ErrorClass::Incomplete
        | ErrorClass::TransportLost
        | ErrorClass::Overloaded
        | ErrorClass::ProviderError => true,
        ErrorClass::Cancelled
        | ErrorClass::Unreachable
        | ErrorClass::Stalled
        | ErrorClass::EmptyOutput
        | ErrorClass::NotAStream
        | ErrorClass::RateLimited
        | ErrorClass::QuotaExhausted
        | ErrorClass::ContextOverflow
        | ErrorClass::OutputLimit
        | ErrorClass::Refused
        | ErrorClass::Auth
        | ErrorClass::ModelUnavailable
        | ErrorClass::InvalidRequest
        | ErrorClass::Budget
        | ErrorClass::NotStarted
        | ErrorClass::AgentExited
        | ErrorClass::AgentError
        | ErrorClass::Timeout
        | ErrorClass::Internal => false,
    }
}
