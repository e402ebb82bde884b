//! How often and for how long each error class is retried.

use std::time::Duration;
use turnstream_model::event::ErrorClass;

const MILLIS_200: Duration = Duration::from_millis(200);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The retry policy of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The longest time that a turn may be without an answer, all waits together.
    ///
    /// Another error class does not reset it: alternating 429 and 524 would never end.
    pub window: Duration,
    /// What to do about an exhausted quota whose reset time is known.
    pub quota: Quota,
    /// Limits that replace the defaults. `None` means that the class is not retried.
    pub limits: Vec<(ErrorClass, Option<Limit>)>,
}

/// What to do about an exhausted quota whose reset time is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// Wait for the reset, if it is within the window.
    Park,
    /// Fail, and report the reset time.
    Fail,
}

/// How one error class is retried. Waits grow exponentially, with full jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The number of retries.
    pub tries: u32,
    /// Retries continue for at least this long, whatever `tries` says: a provider needs time to restart.
    pub at_least: Duration,
    /// Retries stop after this time, whatever `tries` says.
    pub at_most: Duration,
    /// The shortest wait.
    pub floor: Duration,
    /// The longest first wait, doubled each time. The wait is drawn between `floor` and this.
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
    /// The limit for this class; `None` if it is not retried.
    pub fn limit(&self, class: ErrorClass) -> Option<Limit> {
        let own = self.limits.iter().find(|(known, _)| *known == class);
        own.map_or_else(|| default_limit(class), |(_, limit)| *limit)
    }
}

impl Limit {
    const fn new(tries: u32, floor: Duration, base: Duration, cap: Duration) -> Self {
        Self { tries, at_least: Duration::ZERO, at_most: Duration::MAX, floor, base, cap }
    }

    /// Whether no retry is left after this many failures in this time.
    pub(super) fn is_used_up(&self, failures: u32, failing: Duration) -> bool {
        (failures > self.tries && failing >= self.at_least) || failing > self.at_most
    }

    /// The wait after the nth failure, counted from 0.
    pub(super) fn backoff(&self, nth: u32, rng: &mut fastrand::Rng) -> Duration {
        let longest = self.base.saturating_mul(1_u32.checked_shl(nth).unwrap_or(u32::MAX)).min(self.cap);
        let room = longest.saturating_sub(self.floor);
        self.floor + room.mul_f64(rng.f64())
    }
}

/// The default limit of each class.
fn default_limit(class: ErrorClass) -> Option<Limit> {
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
        // The provider says when. Otherwise the waits grow until the window ends.
        ErrorClass::RateLimited | ErrorClass::QuotaExhausted => {
            Some(Limit::new(u32::MAX, seconds(1), seconds(2), seconds(600)))
        }
        ErrorClass::Overloaded => {
            Some(Limit { at_least: seconds(300), ..Limit::new(8, seconds(1), seconds(2), seconds(60)) })
        }
        // Three retries in 18 s were not enough for a provider that returned 500 (link-assistant #102).
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
