//! How often and how long each class of failure is retried.

use std::time::Duration;
use turnstream_model::event::ErrorClass;

const MILLIS_200: Duration = Duration::from_millis(200);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// What is done about failures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How long a turn may be without an answer, all its waits together. A change of the kind of error does not begin it
    /// anew: 429 and 524 in turns would never end.
    pub window: Duration,
    /// What to do when a quota is used up and the provider says until when.
    pub quota: Quota,
    /// Limits that differ from the usual ones.
    pub limits: Vec<(ErrorClass, Option<Limit>)>,
}

/// What to do about a used up quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// Wait until it is there again, if that is within the window.
    Park,
    /// Fail, and say when.
    Fail,
}

/// How a class of failures is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// So often, and
    pub tries: u32,
    /// for at least so long: a count alone is over in seconds while a provider restarts.
    pub at_least: Duration,
    /// Never longer than this.
    pub at_most: Duration,
    /// The shortest wait.
    pub floor: Duration,
    /// The longest first wait; doubled each time. The wait is drawn from all that is between (full jitter).
    pub base: Duration,
    /// The longest wait.
    pub cap: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self { window: 7 * DAY, quota: Quota::Park, limits: Vec::new() }
    }
}

impl Policy {
    /// How this class is retried; none if it is not.
    pub fn limit(&self, class: ErrorClass) -> Option<Limit> {
        let own = self.limits.iter().find(|(known, _)| *known == class);
        own.map_or_else(|| usual(class), |(_, limit)| *limit)
    }
}

impl Limit {
    const fn new(tries: u32, floor: Duration, base: Duration, cap: Duration) -> Self {
        Self { tries, at_least: Duration::ZERO, at_most: Duration::MAX, floor, base, cap }
    }

    /// Whether so many failures in so long are enough.
    pub(super) fn is_used_up(&self, failures: u32, failing: Duration) -> bool {
        (failures > self.tries && failing >= self.at_least) || failing > self.at_most
    }

    /// The wait after this failure, counted from 0.
    pub(super) fn backoff(&self, nth: u32, rng: &mut fastrand::Rng) -> Duration {
        let longest = self.base.saturating_mul(1_u32.checked_shl(nth).unwrap_or(u32::MAX)).min(self.cap);
        let room = longest.saturating_sub(self.floor);
        self.floor + room.mul_f64(rng.f64())
    }
}

/// The usual limits, class by class.
fn usual(class: ErrorClass) -> Option<Limit> {
    let seconds = Duration::from_secs;
    let quick = |tries| Some(Limit::new(tries, Duration::ZERO, MILLIS_200, seconds(10)));
    match class {
        ErrorClass::Unreachable => {
            Some(Limit { at_most: seconds(120), ..Limit::new(5, seconds(1), seconds(2), seconds(30)) })
        }
        ErrorClass::TransportLost => quick(5),
        ErrorClass::Stalled => quick(2),
        ErrorClass::StreamCorrupt | ErrorClass::Incomplete => quick(3),
        ErrorClass::StreamSpliced => Some(Limit::new(2, Duration::ZERO, Duration::ZERO, Duration::ZERO)),
        ErrorClass::EmptyOutput => Some(Limit::new(2, seconds(1), seconds(2), seconds(2))),
        // The provider says when; without that, less and less often until the window ends.
        ErrorClass::RateLimited | ErrorClass::QuotaExhausted => {
            Some(Limit::new(u32::MAX, seconds(1), seconds(2), seconds(600)))
        }
        ErrorClass::Overloaded => {
            Some(Limit { at_least: seconds(300), ..Limit::new(8, seconds(1), seconds(2), seconds(60)) })
        }
        // 500 retried 3 times in 18 s killed a session (link-assistant #102).
        ErrorClass::ProviderError | ErrorClass::NotAStream => Some(Limit {
            at_least: seconds(60),
            ..Limit::new(4, Duration::ZERO, Duration::from_millis(500), seconds(30))
        }),
        ErrorClass::Cancelled
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
        | ErrorClass::Internal => None,
    }
}
