//! Decides whether and when to ask again, and what happens to the items that were shown.
//!
//! One [`Retries`] owns all retries of a turn (law L11). It is pure: failure, shown items, time and random
//! numbers go in, a [`Decision`] comes out.
//!
//! ```
//! use turnstream_llm::classify::{Failure, Source};
//! use turnstream_llm::retry::{Consumer, Decision, Policy, Retries, Shown};
//! use turnstream_model::event::ErrorClass;
//! use turnstream_model::time::Time;
//!
//! let mut retries = Retries::new(Policy::default());
//! let mut rng = fastrand::Rng::with_seed(1);
//! let reset = Failure::new(ErrorClass::TransportLost, Source::Transport, "connection reset");
//! let decision =
//!     retries.decide(&reset, &Shown::default(), Consumer::AttemptAware, Time(0), &mut rng);
//! assert!(matches!(decision, Decision::Retry { .. }));
//! ```
//!
//! | delivered so far | attempt-aware consumer | plain wire |
//! |---|---|---|
//! | nothing | retry | retry |
//! | reasoning | retry, superseding it | retry |
//! | text | retry, superseding it | fail: what was sent cannot be taken back |
//! | an incomplete call | retry, dropping it | retry if no text was sent: calls are sent only when complete |
//! | a complete call | truncate: it may have run, so the attempt is never repeated | truncate |

mod policy;

pub use policy::{Limit, Policy, Quota};

use crate::attempt::{Delivered, ItemNo};
use crate::classify::Failure;
use std::time::Duration;
use turnstream_model::attempts::Spent;
use turnstream_model::event::ErrorClass;
use turnstream_model::time::Time;

/// The largest jitter on a provider's own delay. Not a percentage: 10 % of 15 hours are an hour and a half.
pub const JITTER: Duration = Duration::from_secs(5);
/// A wait longer than this is stored (parked) instead of slept.
pub const PARK: Duration = Duration::from_secs(60);

/// What the consumer of the events can do with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Consumer {
    /// The consumer knows attempts, and takes back what is superseded.
    AttemptAware,
    /// The consumer reads a provider's wire format, in which nothing can be taken back.
    PlainWire,
}

/// What was shown of a failed attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The kinds of content that were delivered.
    pub delivered: Delivered,
    /// The items that were shown, in whole or in part.
    pub items: Vec<ItemNo>,
}

/// What to do about a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Ask again after a short wait.
    Retry {
        /// The length of the wait.
        after: Duration,
        /// Shown items of the failed attempt, which are void now.
        supersede: Vec<ItemNo>,
    },
    /// Ask again after a wait so long that it must be stored.
    Park {
        /// The end of the wait.
        until: Time,
        /// Shown items of the failed attempt, which are void now.
        supersede: Vec<ItemNo>,
    },
    /// Keep the complete calls and end the step: a call may have run.
    Truncate,
    /// Give up.
    Fail {
        /// When another request makes sense, where that is known.
        retry_at: Option<Time>,
    },
}

/// The retries of one turn: the policy, and the budget that is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retries {
    policy: Policy,
    spent: Spent,
}

impl Retries {
    /// For a new turn.
    pub fn new(policy: Policy) -> Self {
        Self { policy, spent: Spent::default() }
    }

    /// For a turn that continues, in the same process or after a restart.
    pub fn resume(policy: Policy, spent: Spent) -> Self {
        Self { policy, spent }
    }

    /// The budget that is used so far.
    pub fn spent(&self) -> &Spent {
        &self.spent
    }

    /// Adjusts the stored times after the wall clock was set by this many milliseconds.
    pub fn clock_moved(&mut self, by: i64) {
        self.spent.clock_moved(by);
    }

    /// Resets the counts after an answer. Time spent failing still counts against the window.
    pub fn answered(&mut self, now: Time) {
        if let Some(since) = self.spent.failing_since.take() {
            self.spent.waited_ms = self.spent.waited_ms.saturating_add(now.0.saturating_sub(since.0));
        }
        self.spent.failures.clear();
    }

    /// Counts a failed attempt, and decides what to do.
    pub fn decide(
        &mut self,
        failure: &Failure,
        shown: &Shown,
        consumer: Consumer,
        now: Time,
        rng: &mut fastrand::Rng,
    ) -> Decision {
        let class = failure.class;
        if class != ErrorClass::Unreachable {
            // The provider was reachable. Otherwise hours of a stored wait would count as hours without a
            // connection.
            self.spent.failures.remove(&ErrorClass::Unreachable);
        }
        let since = *self.spent.failing_since.get_or_insert(now);
        let (times, failing) = self.count(class, now);

        let asked = failure.wait.map(|wait| plus(now, wait));
        if class == ErrorClass::Cancelled {
            return Decision::Fail { retry_at: None };
        }
        if shown.delivered.committed_calls > 0 {
            return Decision::Truncate;
        }
        let cannot_take_back = consumer == Consumer::PlainWire && shown.delivered.text;
        let is_hopeless = cannot_take_back || failure.is_final;
        let Some(limit) = self.policy.limit(class).filter(|_| !is_hopeless) else {
            return Decision::Fail { retry_at: asked };
        };
        let is_quota = class == ErrorClass::QuotaExhausted;
        if is_quota && (asked.is_none() || self.policy.quota == Quota::Fail) {
            return Decision::Fail { retry_at: asked };
        }
        if limit.is_used_up(times, failing) {
            return Decision::Fail { retry_at: asked };
        }

        let jitter = Duration::from_millis(rng.u64(0..=JITTER.as_millis() as u64));
        let backoff = limit.backoff(times - 1, rng);
        let after = failure.wait.map_or(backoff, |wait| backoff.max(wait + jitter));
        let until = plus(now, after);
        let used = Duration::from_millis(self.spent.waited_ms).saturating_add(elapsed(since, until));
        if used > self.policy.window {
            return Decision::Fail { retry_at: Some(until) };
        }
        let supersede = match consumer {
            Consumer::AttemptAware => shown.items.clone(),
            Consumer::PlainWire => Vec::new(),
        };
        if after <= PARK {
            return Decision::Retry { after, supersede };
        }
        if matches!(class, ErrorClass::RateLimited | ErrorClass::QuotaExhausted) {
            // A failure after hours of waiting for a limit is unrelated to failures before it. These two
            // classes are bounded by the window alone, so this prolongs nothing.
            self.spent.failures.retain(|known, _| *known == class);
        }
        Decision::Park { until, supersede }
    }

    /// Counts a failure of this class. Returns the number of them, and the time since the first one.
    fn count(&mut self, class: ErrorClass, now: Time) -> (u32, Duration) {
        let (times, first) = self.spent.failures.entry(class).or_insert((0, now));
        *times = times.saturating_add(1);
        (*times, elapsed(*first, now))
    }
}

fn elapsed(from: Time, to: Time) -> Duration {
    Duration::from_millis(to.0.saturating_sub(from.0))
}

/// Rounded up, so that a wait is never shorter than the provider asked for.
fn plus(time: Time, wait: Duration) -> Time {
    let millis = u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    time.plus_millis(millis)
}
