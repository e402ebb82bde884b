//! The retry table, the limits of each class, and the window.

use proptest::prelude::*;
use std::time::Duration;
use turnstream_llm::classify::{Failure, Source};
use turnstream_llm::retry::{Consumer, Decision, JITTER, Policy, Quota, Retries, Shown};
use turnstream_llm::{Delivered, ItemNo};
use turnstream_model::event::ErrorClass;
use turnstream_model::time::Time;

const START: Time = Time(1_794_809_255_000);
const DAY: u64 = 24 * 3600 * 1000;

fn failure(class: ErrorClass) -> Failure {
    Failure::new(class, Source::Body, "m")
}

fn waiting(class: ErrorClass, seconds: u64) -> Failure {
    Failure { wait: Some(Duration::from_secs(seconds)), ..failure(class) }
}

fn shown(reasoning: bool, text: bool, open_calls: u32, committed_calls: u32) -> Shown {
    let delivered = Delivered { reasoning, text, open_calls, committed_calls };
    let count = u32::from(reasoning) + u32::from(text) + open_calls + committed_calls;
    Shown { delivered, items: (0..count).map(ItemNo).collect() }
}

fn decide(class: ErrorClass, shown: &Shown, consumer: Consumer) -> Decision {
    let mut rng = fastrand::Rng::with_seed(1);
    Retries::new(Policy::default()).decide(&failure(class), shown, consumer, START, &mut rng)
}

/// Fails repeatedly, and returns all waits until no retry is left.
fn exhaust(failure: &Failure, policy: Policy) -> (Vec<Duration>, Decision) {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut retries = Retries::new(policy);
    let (mut now, mut waits) = (START, Vec::new());
    loop {
        let decision = retries.decide(failure, &Shown::default(), Consumer::AttemptAware, now, &mut rng);
        let after = match decision {
            Decision::Retry { after, .. } => after,
            Decision::Park { until, .. } => Duration::from_millis(until.0 - now.0),
            Decision::Truncate | Decision::Fail { .. } => return (waits, decision),
        };
        waits.push(after);
        now = now.plus_millis(after.as_millis() as u64);
        assert!(waits.len() < 100_000, "it never gives up");
    }
}

#[derive(Debug, PartialEq)]
enum Way {
    Retry(Vec<u32>),
    Truncate,
    Fail,
}

#[test]
fn the_matrix() {
    use Consumer::{AttemptAware, PlainWire};
    let rows = [
        (shown(false, false, 0, 0), Way::Retry(vec![]), Way::Retry(vec![])),
        (shown(true, false, 0, 0), Way::Retry(vec![0]), Way::Retry(vec![])),
        (shown(true, true, 0, 0), Way::Retry(vec![0, 1]), Way::Fail),
        (shown(false, true, 1, 0), Way::Retry(vec![0, 1]), Way::Fail),
        (shown(true, false, 2, 0), Way::Retry(vec![0, 1, 2]), Way::Retry(vec![])),
        (shown(true, true, 1, 1), Way::Truncate, Way::Truncate),
        (shown(false, false, 0, 2), Way::Truncate, Way::Truncate),
    ];
    for (shown, aware, plain) in rows {
        for (consumer, expected) in [(AttemptAware, aware), (PlainWire, plain)] {
            let way = match decide(ErrorClass::TransportLost, &shown, consumer) {
                Decision::Retry { supersede, .. } | Decision::Park { supersede, .. } => {
                    Way::Retry(supersede.iter().map(|item| item.0).collect())
                }
                Decision::Truncate => Way::Truncate,
                Decision::Fail { .. } => Way::Fail,
            };
            assert_eq!(way, expected, "{shown:?} for {consumer:?}");
        }
    }
}

#[test]
fn how_often_each_class_is_tried_again() {
    let tries = |class| exhaust(&failure(class), Policy::default()).0.len();
    let exact = [
        (ErrorClass::TransportLost, 5),
        (ErrorClass::Stalled, 2),
        (ErrorClass::StreamCorrupt, 3),
        (ErrorClass::StreamSpliced, 2),
        (ErrorClass::Incomplete, 3),
        (ErrorClass::EmptyOutput, 2),
        (ErrorClass::Unreachable, 5),
        (ErrorClass::Cancelled, 0),
        (ErrorClass::QuotaExhausted, 0),
        (ErrorClass::ContextOverflow, 0),
        (ErrorClass::OutputLimit, 0),
        (ErrorClass::Refused, 0),
        (ErrorClass::Auth, 0),
        (ErrorClass::ModelUnavailable, 0),
        (ErrorClass::InvalidRequest, 0),
        (ErrorClass::Internal, 0),
    ];
    for (class, expected) in exact {
        assert_eq!(tries(class), expected, "{class}");
    }
    // These have a minimum number of retries and a minimum time.
    for (class, least, seconds) in [
        (ErrorClass::ProviderError, 4, 60),
        (ErrorClass::NotAStream, 4, 60),
        (ErrorClass::Overloaded, 8, 300),
    ] {
        let (waits, _) = exhaust(&failure(class), Policy::default());
        let total: Duration = waits.iter().sum();
        assert!(waits.len() >= least && total >= Duration::from_secs(seconds), "{class}: {waits:?}");
        assert!(waits.len() < 60, "{class}: {} tries", waits.len());
    }
}

#[test]
fn an_unreachable_provider_is_not_tried_for_longer_than_two_minutes() {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut retries = Retries::new(Policy::default());
    let refused = failure(ErrorClass::Unreachable);
    let first = retries.decide(&refused, &Shown::default(), Consumer::PlainWire, START, &mut rng);
    assert!(matches!(first, Decision::Retry { .. }));
    let later = START.plus_millis(121_000);
    let second = retries.decide(&refused, &Shown::default(), Consumer::PlainWire, later, &mut rng);
    assert_eq!(second, Decision::Fail { retry_at: None });
}

/// Alternating 429 and exhausted quota. Neither has a limit of its own, so only the window ends it.
#[test]
fn a_parked_wait_is_no_time_for_which_a_provider_was_unreachable() {
    let mut retries = Retries::new(Policy::default());
    let mut rng = fastrand::Rng::with_seed(7);
    let mut at = |failure: &Failure, now: u64| {
        retries.decide(failure, &Shown::default(), Consumer::AttemptAware, Time(now), &mut rng)
    };
    // A day of limits. After each one the network is not up yet when the machine wakes.
    for hour in 0..24 {
        let now = hour * 3_600_000;
        let unreachable = at(&failure(ErrorClass::Unreachable), now);
        assert!(matches!(unreachable, Decision::Retry { .. }), "hour {hour}: {unreachable:?}");
        let limited = at(&waiting(ErrorClass::RateLimited, 3500), now + 30_000);
        assert!(matches!(limited, Decision::Park { .. }), "hour {hour}: {limited:?}");
    }
}

#[test]
fn trouble_after_a_parked_limit_is_tried_for_as_long_as_any_other() {
    for (class, seconds) in [(ErrorClass::ProviderError, 60), (ErrorClass::Overloaded, 300)] {
        let mut retries = Retries::new(Policy::default());
        let mut rng = fastrand::Rng::with_seed(7);
        let mut at = |failure: &Failure, now: u64| {
            retries.decide(failure, &Shown::default(), Consumer::AttemptAware, Time(now), &mut rng)
        };
        at(&failure(class), 0);
        let Decision::Park { until, .. } = at(&waiting(ErrorClass::RateLimited, 18_000), 1000) else {
            panic!("five hours are parked")
        };
        let mut now = until.0;
        while let Decision::Retry { after, .. } = at(&failure(class), now) {
            now += after.as_millis() as u64;
        }
        assert!(now - until.0 >= seconds * 1000, "{class}: given up after {} ms", now - until.0);
    }
}

#[test]
fn a_change_of_the_kind_of_error_does_not_begin_the_window_anew() {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut retries = Retries::new(Policy::default());
    let kinds = [waiting(ErrorClass::RateLimited, 3600), waiting(ErrorClass::QuotaExhausted, 3600)];
    let (mut now, mut times) = (START, 0);
    let last = loop {
        let kind = &kinds[times % 2];
        match retries.decide(kind, &Shown::default(), Consumer::PlainWire, now, &mut rng) {
            Decision::Park { until, .. } => now = until,
            other => break other,
        }
        times += 1;
        assert!(now.0 <= START.0 + 7 * DAY, "the window was left");
    };
    assert!(matches!(last, Decision::Fail { retry_at: Some(_) }), "{last:?}");
    assert_eq!(times, 167, "an hour and a little, in 7 days");
    assert_eq!(retries.spent().failing_since, Some(START));
}

#[test]
fn a_limited_rate_is_waited_for_within_the_window_and_no_longer() {
    let (waits, end) = exhaust(&waiting(ErrorClass::RateLimited, 55_852), Policy::default());
    assert_eq!(waits.len(), 10, "10 times 15.5 hours are in 7 days");
    assert!(matches!(end, Decision::Fail { retry_at: Some(_) }));
    for wait in waits {
        let extra = wait - Duration::from_secs(55_852);
        assert!(extra <= JITTER, "the jitter is absolute: {extra:?}");
    }
    // Without a delay from the provider the waits grow.
    let (waits, _) = exhaust(&failure(ErrorClass::RateLimited), Policy::default());
    assert!(waits.len() < 7 * 24 * 60, "{} requests in 7 days", waits.len());
}

#[test]
fn waits_of_more_than_a_minute_are_parked_and_shorter_ones_slept() {
    let mut rng = fastrand::Rng::with_seed(3);
    let mut one = |seconds| {
        let limited = waiting(ErrorClass::RateLimited, seconds);
        Retries::new(Policy::default()).decide(
            &limited,
            &Shown::default(),
            Consumer::PlainWire,
            START,
            &mut rng,
        )
    };
    assert!(matches!(one(50), Decision::Retry { .. }));
    match one(61) {
        Decision::Park { until, .. } => assert!((61_000..=66_000).contains(&(until.0 - START.0))),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_used_up_quota_waits_only_for_a_known_reset_and_only_if_it_may() {
    let mut rng = fastrand::Rng::with_seed(3);
    let mut one = |failure: &Failure, quota| {
        let policy = Policy { quota, ..Policy::default() };
        Retries::new(policy).decide(failure, &Shown::default(), Consumer::PlainWire, START, &mut rng)
    };
    let known = waiting(ErrorClass::QuotaExhausted, 7200);
    let reset = Some(START.plus_millis(7_200_000));
    assert!(matches!(one(&known, Quota::Park), Decision::Park { .. }));
    assert_eq!(one(&known, Quota::Fail), Decision::Fail { retry_at: reset });
    assert_eq!(one(&failure(ErrorClass::QuotaExhausted), Quota::Park), Decision::Fail { retry_at: None });
}

#[test]
fn an_answer_begins_the_counts_anew_and_not_the_window() {
    let mut rng = fastrand::Rng::with_seed(3);
    let mut retries = Retries::new(Policy::default());
    let stalled = failure(ErrorClass::Stalled);
    let mut decide = |retries: &mut Retries, failure: &Failure, now| {
        retries.decide(failure, &Shown::default(), Consumer::PlainWire, now, &mut rng)
    };
    let mut now = START;
    for _ in 0..3 {
        for _ in 0..2 {
            assert!(matches!(decide(&mut retries, &stalled, now), Decision::Retry { .. }));
        }
        now = now.plus_millis(2 * DAY);
        retries.answered(now);
        // Successful time in between does not count.
        now = now.plus_millis(30 * DAY);
    }
    assert_eq!(retries.spent().waited_ms, 6 * DAY);
    let limited = waiting(ErrorClass::RateLimited, 23 * 3600);
    assert!(matches!(decide(&mut retries, &limited, now), Decision::Park { .. }));
    let resumed = &mut Retries::resume(Policy::default(), retries.spent().clone());
    let later = now.plus_millis(23 * 3600 * 1000);
    assert!(matches!(decide(resumed, &limited, later), Decision::Fail { retry_at: Some(_) }));
}

fn any_class() -> impl Strategy<Value = ErrorClass> {
    prop::sample::select(ErrorClass::ALL.to_vec())
}

proptest! {
    /// For any sequence: a committed call is never repeated, text that plain clients got is never repeated,
    /// and no retry is beyond the window.
    #[test]
    fn the_laws_of_retrying(
        failures in prop::collection::vec((any_class(), prop::option::of(0_u64..100_000)), 1..200),
        delivered in (any::<bool>(), any::<bool>(), 0_u32..3, 0_u32..3),
        aware in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let consumer = if aware { Consumer::AttemptAware } else { Consumer::PlainWire };
        let shown = shown(delivered.0, delivered.1, delivered.2, delivered.3);
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut retries = Retries::new(Policy::default());
        let mut now = START;
        for (class, wait) in failures {
            let failure = Failure { wait: wait.map(Duration::from_secs), ..failure(class) };
            let decision = retries.decide(&failure, &shown, consumer, now, &mut rng);
            match decision {
                Decision::Retry { after, supersede } => {
                    prop_assert_eq!(delivered.3, 0);
                    prop_assert!(after <= Duration::from_secs(60));
                    prop_assert!(aware || (!delivered.1 && supersede.is_empty()));
                    prop_assert!(!aware || supersede == shown.items);
                    prop_assert!(wait.is_none_or(|wait| after >= Duration::from_secs(wait)));
                    now = now.plus_millis(after.as_millis() as u64);
                }
                Decision::Park { until, .. } => {
                    prop_assert_eq!(delivered.3, 0);
                    prop_assert!(aware || !delivered.1);
                    now = until;
                }
                Decision::Truncate => prop_assert!(delivered.3 > 0),
                Decision::Fail { .. } => {}
            }
            prop_assert!(now.0 <= START.0 + 7 * DAY);
        }
    }
}
