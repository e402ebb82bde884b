//! Waits while the wall clock jumps and the machine is suspended.

use crate::support::{HandClock, Happening, START};
use proptest::prelude::*;
use std::time::Duration;
use turnstream_llm::wait::{Alarm, CHECK_INTERVAL, Clock, JUMP, SystemClock, WallWatch};
use turnstream_model::attempts::{Parked, Spent};
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::time::Time;

const HOUR: u64 = 3_600_000;

/// Waits, and returns the elapsed milliseconds.
fn wait(alarm: &Alarm, clock: &HandClock) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        while let Some(left) = alarm.left(clock) {
            clock.sleep(left).await;
        }
    });
    clock.elapsed().as_millis() as u64
}

fn hours(hours: u64) -> Duration {
    Duration::from_millis(hours * HOUR)
}

fn parked(since: u64, until: u64) -> Parked {
    Parked {
        session: "s".into(),
        turn: "t".into(),
        step: 1,
        attempt: 1,
        shown: vec![0, 2],
        route: "r".to_owned(),
        since: Time(since),
        until: Time(until),
        error: TurnError::new(ErrorClass::RateLimited, "m"),
        spent: Spent::default(),
    }
}

#[test]
fn a_wait_takes_as_long_as_it_should() {
    let clock = HandClock::new([]);
    assert_eq!(wait(&Alarm::after(hours(15), &clock), &clock), 15 * HOUR);
    let clock = HandClock::new([]);
    assert_eq!(wait(&Alarm::after(Duration::ZERO, &clock), &clock), 0);
}

#[test]
fn a_suspended_machine_is_late_by_one_look_at_most() {
    // Suspended beyond the end, and up to shortly before it.
    for slept in [20, 13] {
        let clock = HandClock::new([(HOUR, Happening::Suspended(slept * HOUR))]);
        let waited = wait(&Alarm::after(hours(15), &clock), &clock);
        let due = (slept + 1).max(15) * HOUR;
        assert!((due..=due + CHECK_INTERVAL.as_millis() as u64).contains(&waited), "{waited} ms");
    }
}

#[test]
fn after_a_restart_the_wall_clock_decides_and_nothing_becomes_longer() {
    let left = |since, until| {
        let clock = HandClock::new([]);
        wait(&Alarm::resumed(&parked(since, until), &clock), &clock)
    };
    // Two of fifteen hours have elapsed.
    assert_eq!(left(START.0 - 2 * HOUR, START.0 + 13 * HOUR), 13 * HOUR);
    // All fifteen have.
    assert_eq!(left(START.0 - 20 * HOUR, START.0 - 5 * HOUR), 0);
    // The clock was set back by a hundred hours. The rest is the full length of the wait, and not more.
    assert_eq!(left(START.0 + 100 * HOUR, START.0 + 115 * HOUR), 15 * HOUR);
}

#[test]
fn a_watch_sees_jumps_of_the_wall_clock_and_not_time_that_passes() {
    let clock = HandClock::new([]);
    let mut watch = WallWatch::new(&clock);
    clock.pass(10 * HOUR);
    assert_eq!(watch.moved(&clock), None);
    clock.jump(20 * HOUR as i64);
    assert_eq!(watch.moved(&clock), Some(20 * HOUR as i64));
    assert_eq!(watch.moved(&clock), None, "it is told once");
    clock.pass(HOUR);
    clock.jump(-(20 * HOUR as i64));
    assert_eq!(watch.moved(&clock), Some(-(20 * HOUR as i64)));
    // Small corrections add up.
    let step = JUMP.as_millis() as i64 / 4;
    let seen: Vec<_> = (0..4).map(|_| clock.jump(step)).map(|()| watch.moved(&clock)).collect();
    assert_eq!(seen, [None, None, None, Some(4 * step)]);
}

#[test]
fn times_that_were_noted_move_with_the_clock() {
    let mut parked = parked(START.0, START.0 + 15 * HOUR);
    parked.error.retry_at = Some(parked.until);
    parked.spent.failing_since = Some(Time(START.0 - HOUR));
    parked.spent.failures.insert(ErrorClass::RateLimited, (2, Time(START.0 - HOUR)));
    let before = parked.clone();
    parked.clock_moved(5000);
    assert_eq!((parked.since.0, parked.until.0), (before.since.0 + 5000, before.until.0 + 5000));
    assert_eq!(parked.error.retry_at, Some(parked.until));
    assert_eq!(parked.spent.failing_since, Some(Time(START.0 - HOUR + 5000)));
    assert_eq!(parked.spent.failures[&ErrorClass::RateLimited], (2, Time(START.0 - HOUR + 5000)));
    parked.clock_moved(-5000);
    assert_eq!(parked, before);
}

#[test]
fn the_clock_of_the_system_goes_on() {
    let clock = SystemClock;
    let before = (clock.wall(), clock.elapsed());
    std::thread::sleep(Duration::from_millis(20));
    let after = (clock.wall(), clock.elapsed());
    assert!(after.1 >= before.1 + Duration::from_millis(20), "{before:?} {after:?}");
}

proptest! {
    /// For any changes of the wall clock and any suspension.
    #[test]
    fn no_jump_ends_a_wait_early_or_late(
        long in 1_u64..24,
        happens in prop::collection::vec((0_u64..24, -200_i64..200, any::<bool>()), 0..6),
    ) {
        let happenings = happens.into_iter().map(|(when, by, is_jump)| {
            let by = by * HOUR as i64;
            let suspended = Happening::Suspended(by.unsigned_abs() / 20);
            (when * HOUR, if is_jump { Happening::Jump(by) } else { suspended })
        });
        let clock = HandClock::new(happenings);
        let waited = wait(&Alarm::after(hours(long), &clock), &clock);
        prop_assert!(waited >= long * HOUR, "early: {} ms", waited);
        let late = waited - long * HOUR;
        prop_assert!(late <= clock.suspended() + CHECK_INTERVAL.as_millis() as u64, "late by {} ms", late);
    }
}
