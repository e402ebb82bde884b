//! Whether to ask again, when, and what becomes of what was shown: one owner of retries for a whole turn.
//!
//! Pure: the failure, what was delivered, the time and the chance come in, a decision comes out.
//!
//! | delivered so far | attempt-aware consumer | plain wire |
//! |---|---|---|
//! | nothing | retry | retry |
//! | reasoning | retry, superseding it | retry |
//! | text | retry, superseding it | fail: what was sent cannot be taken back |
//! | a call that is not whole | retry, dropping it | retry if no text was sent: calls are held back until they are whole |
//! | a whole call | truncate: it may have run, so never again | truncate |

mod policy;

pub use policy::{Limit, Policy, Quota};

use crate::attempt::{Delivered, ItemNo};
use crate::classify::Failure;
use std::time::Duration;
use turnstream_model::attempts::Spent;
use turnstream_model::event::ErrorClass;
use turnstream_model::time::Time;

/// What is added to a provider's own delay at most. Absolute: a percentage of 15 hours is an hour and a half.
pub const JITTER: Duration = Duration::from_secs(5);
/// A wait longer than this is parked instead of slept.
pub const PARK: Duration = Duration::from_secs(60);

/// What the one who reads the events can do with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Consumer {
    /// It knows attempts, and takes back what is superseded.
    AttemptAware,
    /// It reads a provider's wire format, in which nothing can be taken back.
    PlainWire,
}

/// What was shown of the attempt that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// How far it went.
    pub delivered: Delivered,
    /// The items of which something was shown.
    pub items: Vec<ItemNo>,
}

/// What to do about a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Ask again after so long; these items are void.
    Retry {
        /// How long.
        after: Duration,
        /// Items of the failed attempt that were shown.
        supersede: Vec<ItemNo>,
    },
    /// As [`Decision::Retry`], so much later that the wait has to be stored.
    Park {
        /// Until when.
        until: Time,
        /// Items of the failed attempt that were shown.
        supersede: Vec<ItemNo>,
    },
    /// Keep what is whole and finish: a call of it may have run.
    Truncate,
    /// Give up.
    Fail {
        /// When it makes sense to try again, where that is known.
        retry_at: Option<Time>,
    },
}

/// The retries of one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retries {
    policy: Policy,
    spent: Spent,
}

impl Retries {
    /// For a turn that has used up nothing.
    pub fn new(policy: Policy) -> Self {
        Self { policy, spent: Spent::default() }
    }

    /// For a turn that goes on after a restart.
    pub fn resume(policy: Policy, spent: Spent) -> Self {
        Self { policy, spent }
    }

    /// What was used up so far.
    pub fn spent(&self) -> &Spent {
        &self.spent
    }

    /// The wall clock was set by so many milliseconds: the window and the counts are as they were.
    pub fn clock_moved(&mut self, by: i64) {
        self.spent.clock_moved(by);
    }

    /// An answer came: counts begin anew. The time that was lost stays lost.
    pub fn answered(&mut self, now: Time) {
        if let Some(since) = self.spent.failing_since.take() {
            self.spent.waited_ms = self.spent.waited_ms.saturating_add(now.0.saturating_sub(since.0));
        }
        self.spent.failures.clear();
    }

    /// An attempt failed.
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
            // Somebody was there. Else the hours of a parked wait would count as hours of knocking at a closed door.
            self.spent.failures.remove(&ErrorClass::Unreachable);
        }
        let since = *self.spent.failing_since.get_or_insert(now);
        let (times, first) = self.spent.failures.entry(class).or_insert((0, now));
        *times = times.saturating_add(1);
        let (times, failing) = (*times, elapsed(*first, now));

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
            // What fails after the hours of a limit is not the same trouble as what failed before them. These two are bounded
            // by the window alone, so nothing goes on for longer by it.
            self.spent.failures.retain(|known, _| *known == class);
        }
        Decision::Park { until, supersede }
    }
}

fn elapsed(from: Time, to: Time) -> Duration {
    Duration::from_millis(to.0.saturating_sub(from.0))
}

/// Rounded up: a wait is never shorter than what was asked for.
fn plus(time: Time, wait: Duration) -> Time {
    let millis = u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    time.plus_millis(millis)
}
