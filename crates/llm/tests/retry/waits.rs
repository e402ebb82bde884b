//! Waits on two clocks, of which one may jump.

use proptest::prelude::*;
use std::pin::Pin;
use std::sync::Mutex;
use std::time::Duration;
use turnstream_llm::wait::{Alarm, Clock};
use turnstream_model::attempts::{Parked, Spent};
use turnstream_model::event::{ErrorClass, TurnError};
use turnstream_model::time::Time;

const START: u64 = 1_794_809_255_000;
const HOUR: u64 = 3_600_000;

/// Clocks that move when somebody sleeps; the wall clock jumps once, at a given moment of the other.
struct JumpingClock {
    at: Mutex<(u64, u64)>,
    jump: Mutex<Option<(u64, i64)>>,
}

impl JumpingClock {
    fn new(jump: Option<(u64, i64)>) -> Self {
        Self { at: Mutex::new((START, 0)), jump: Mutex::new(jump) }
    }

    fn elapsed(&self) -> u64 {
        self.at.lock().unwrap().1
    }
}

impl Clock for JumpingClock {
    fn wall(&self) -> Time {
        Time(self.at.lock().unwrap().0)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.at.lock().unwrap().1)
    }

    fn sleep(&self, how_long: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let millis = how_long.as_millis() as u64;
        let mut at = self.at.lock().unwrap();
        at.0 += millis;
        at.1 += millis;
        let mut jump = self.jump.lock().unwrap();
        if let Some((when, by)) = *jump
            && at.1 >= when
        {
            at.0 = at.0.saturating_add_signed(by);
            *jump = None;
        }
        Box::pin(std::future::ready(()))
    }
}

fn wait(alarm: &Alarm, clock: &JumpingClock) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(alarm.wait(clock));
    clock.elapsed()
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
    let clock = JumpingClock::new(None);
    assert_eq!(wait(&Alarm::new(Time(START + 15 * HOUR), &clock), &clock), 15 * HOUR);
    let clock = JumpingClock::new(None);
    assert_eq!(wait(&Alarm::new(Time(START - 1), &clock), &clock), 0);
}

#[test]
fn a_jump_past_the_end_ends_it_soon() {
    let clock = JumpingClock::new(Some((HOUR, 20 * HOUR as i64)));
    let waited = wait(&Alarm::new(Time(START + 15 * HOUR), &clock), &clock);
    assert!((HOUR..HOUR + 60_000).contains(&waited), "{waited} ms");
}

#[test]
fn a_jump_back_does_not_make_it_longer() {
    let clock = JumpingClock::new(Some((HOUR, -(100 * HOUR as i64))));
    assert_eq!(wait(&Alarm::new(Time(START + 15 * HOUR), &clock), &clock), 15 * HOUR);
}

#[test]
fn after_a_restart_the_wall_clock_decides_and_nothing_becomes_longer() {
    let left = |since, until| {
        let clock = JumpingClock::new(None);
        wait(&Alarm::resumed(&parked(since, until), &clock), &clock)
    };
    // Two of fifteen hours have passed.
    assert_eq!(left(START - 2 * HOUR, START + 13 * HOUR), 13 * HOUR);
    // All of it has.
    assert_eq!(left(START - 20 * HOUR, START - 5 * HOUR), 0);
    // The clock was set back by a hundred hours: as long as the whole wait, and not a hundred hours more.
    assert_eq!(left(START + 100 * HOUR, START + 115 * HOUR), 15 * HOUR);
}

proptest! {
    #[test]
    fn no_jump_makes_a_wait_endless_or_ends_it_before_either_clock_says_so(
        hours in 1_u64..24, when in 0_u64..24, by in -200_i64..200,
    ) {
        let clock = JumpingClock::new(Some((when * HOUR, by * HOUR as i64)));
        let waited = wait(&Alarm::new(Time(START + hours * HOUR), &clock), &clock);
        prop_assert!(waited <= hours * HOUR);
        let by_wall = clock.wall() >= Time(START + hours * HOUR);
        prop_assert!(by_wall || waited == hours * HOUR);
    }
}
