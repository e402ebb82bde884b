//! Stored waits while the wall clock is set and the machine is suspended.
//!
//! The next request is sent after the right elapsed time, and the stored times fit the wall clock.

use crate::support::*;
use std::sync::Arc;
use std::time::Duration;
use turnstream_fake_provider::{Refusal, RetryAfter, Step};
use turnstream_llm::Format;
use turnstream_llm::client::{
    CallEvent, CallOutcome, Client, Environment, RunningCall, Settings, Timeouts, Wait,
};
use turnstream_llm::retry::Consumer::AttemptAware;
use turnstream_llm::wait::{CHECK_INTERVAL, Clock};
use turnstream_log::Attempts;
use turnstream_model::attempts::{Answer, Parked, Waits};
use turnstream_model::id::{SessionId, TurnId};
use turnstream_model::time::Time;
use turnstream_redact::Rules;

const HOUR: u64 = 3_600_000;
const WAIT: u64 = 15 * HOUR;
/// The jitter, and one check of the clocks.
const SLACK: u64 = 5000 + CHECK_INTERVAL.as_millis() as u64;

fn limited() -> Step {
    Step::new(Refusal::new(429, "rate_limit_error", "m").retry_after(RetryAfter::Seconds(WAIT / 1000)))
}

fn forward(hours: u64) -> Happening {
    Happening::Jump((hours * HOUR) as i64)
}

fn back(hours: u64) -> Happening {
    Happening::Jump(-((hours * HOUR) as i64))
}

/// One wait of 15 hours with these events: its length, and the reported end times.
async fn waited(happenings: &[(u64, Happening)]) -> (u64, Vec<u64>) {
    let clock = Arc::new(HandClock::new(happenings.iter().copied()));
    let bench = bench_with([limited(), Step::text("At last.")], Timeouts::default(), clock.clone()).await;
    let told = bench.run(Format::Chat, AttemptAware).await;
    assert_eq!(text_of(&told), "At last.");
    assert_eq!((bench.rows().await.len(), bench.waits().await), (2, 0));
    let untils = told.iter().filter_map(|told| match told {
        CallEvent::Retrying { until, wait: Wait::Parked, .. } => Some(until.0),
        _ => None,
    });
    (clock.elapsed().as_millis() as u64, untils.collect())
}

fn is_due(waited: u64, due: u64) {
    assert!((due..=due + SLACK).contains(&waited), "{waited} ms instead of {due} ms");
}

#[tokio::test]
async fn a_jump_forward_beyond_the_end_does_not_end_a_wait() {
    let (waited, untils) = waited(&[(HOUR, forward(20))]).await;
    is_due(waited, WAIT);
    assert_eq!(untils.len(), 2);
    assert_eq!(untils[1] - untils[0], 20 * HOUR, "its end is told in the clock's new time");
}

#[tokio::test]
async fn a_jump_back_does_not_make_a_wait_longer() {
    let (waited, untils) = waited(&[(HOUR, back(100))]).await;
    is_due(waited, WAIT);
    assert_eq!(untils[0] - untils[1], 100 * HOUR);
}

#[tokio::test]
async fn a_jump_that_is_corrected_leaves_a_wait_as_it_was() {
    for (there, back_again) in [(forward(20), back(20)), (back(20), forward(20))] {
        let (waited, untils) = waited(&[(HOUR, there), (3 * HOUR, back_again)]).await;
        is_due(waited, WAIT);
        assert_eq!((untils.len(), untils[0]), (3, untils[2]));
    }
}

#[tokio::test]
async fn a_suspended_machine_wakes_up_to_a_wait_that_is_over() {
    is_due(waited(&[(HOUR, Happening::Suspended(5 * HOUR))]).await.0, WAIT);
    let (waited, untils) = waited(&[(HOUR, Happening::Suspended(30 * HOUR))]).await;
    is_due(waited, 31 * HOUR);
    assert_eq!(untils.len(), 1, "nobody has set the clock");
}

/// Reads events until a wait is reported for the `nth` time.
async fn until_told(running: &mut RunningCall, nth: usize) -> Time {
    let telling = async {
        let mut seen = 0;
        loop {
            match running.next().await.expect("it ended without a wait") {
                CallEvent::Retrying { until, .. } => {
                    seen += 1;
                    if seen == nth {
                        return until;
                    }
                }
                CallEvent::Ended { outcome: ending, .. } => panic!("it ended: {ending:?}"),
                CallEvent::AttemptStarted { .. }
                | CallEvent::Stream { .. }
                | CallEvent::Superseded { .. }
                | CallEvent::NotRecorded(_) => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(300), telling).await.unwrap()
}

async fn stored(bench: &Bench) -> Parked {
    bench.client.parked().await.unwrap().remove(0)
}

#[tokio::test]
async fn a_restart_after_a_jump_wakes_up_when_it_would_have_without_it() {
    for jump in [20 * HOUR as i64, -(20 * HOUR as i64)] {
        let happenings = [(HOUR, Happening::Jump(jump)), (2 * HOUR, Happening::Halt)];
        let clock = Arc::new(HandClock::new(happenings));
        let bench = bench_with([limited(), Step::text("At last.")], Timeouts::default(), clock.clone()).await;
        let asked = call(&bench.provider.base_url(), Format::Chat, AttemptAware);
        let mut running = bench.client.start(asked.clone());
        let until = until_told(&mut running, 2).await;
        let parked = stored(&bench).await;
        assert_eq!((parked.until, parked.error.retry_at), (until, Some(until)));
        assert_eq!(parked.spent.failing_since, Some(parked.since), "the window has moved with it");
        drop(running);

        // The process restarts after two hours. Its elapsed time starts at zero.
        let wall = Time((START.0 + 2 * HOUR).saturating_add_signed(jump));
        let later = Arc::new(HandClock::at(wall, []));
        let resumed =
            client(bench.attempts.clone(), Timeouts::default(), later.clone()).resume(asked, parked);
        assert_eq!(text_of(&all(resumed).await), "At last.");
        is_due(later.elapsed().as_millis() as u64, 13 * HOUR);
    }
}

#[tokio::test]
async fn a_clock_that_was_set_back_between_two_processes_does_not_begin_the_wait_anew_each_time() {
    let clock = Arc::new(HandClock::new([(HOUR, Happening::Halt)]));
    let bench = bench_with([limited(), Step::text("At last.")], Timeouts::default(), clock).await;
    let asked = call(&bench.provider.base_url(), Format::Chat, AttemptAware);
    let mut running = bench.client.start(asked.clone());
    until_told(&mut running, 1).await;
    drop(running);

    // The clock is set back by a hundred hours, and the process restarts every five hours.
    let mut wall = START.0 - 100 * HOUR;
    let mut total = 0;
    for _ in 0..3 {
        let clock = Arc::new(HandClock::at(Time(wall), [(5 * HOUR, Happening::Halt)]));
        let client = client(bench.attempts.clone(), Timeouts::default(), clock.clone());
        let mut running = client.resume(asked.clone(), stored(&bench).await);
        let until = until_told(&mut running, 1).await;
        assert!(until.0 <= START.0 - 100 * HOUR + WAIT + 5000, "{until:?}");
        let halted = async {
            while clock.elapsed() < Duration::from_millis(5 * HOUR) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(300), halted).await.unwrap();
        drop(running);
        wall += 5 * HOUR;
        total += 5 * HOUR;
    }
    let clock = Arc::new(HandClock::at(Time(wall), []));
    let client = client(bench.attempts.clone(), Timeouts::default(), clock.clone());
    let told = all(client.resume(asked, stored(&bench).await)).await;
    assert_eq!(text_of(&told), "At last.");
    is_due(total + clock.elapsed().as_millis() as u64, WAIT);
}

#[tokio::test]
async fn a_jump_uses_up_nothing_of_the_window() {
    // A jump of ten days in the first of two waits: the window of seven days has used 15 hours.
    let clock = Arc::new(HandClock::new([(HOUR, forward(240))]));
    let steps = [limited(), limited(), Step::text("At last.")];
    let bench = bench_with(steps, Timeouts::default(), clock.clone()).await;
    let told = bench.run(Format::Chat, AttemptAware).await;
    assert_eq!(text_of(&told), "At last.");
    let Some(CallEvent::Ended { spent, .. }) = told.last() else { panic!("it did not end") };
    is_due(spent.waited_ms, 2 * WAIT);
}

#[tokio::test]
async fn a_wait_that_was_removed_does_not_come_back_with_a_jump() {
    let clock = Arc::new(HandClock::new([(HOUR, Happening::Halt)]));
    let bench = bench_with([limited(), Step::text("Never.")], Timeouts::default(), clock.clone()).await;
    let asked = call(&bench.provider.base_url(), Format::Chat, AttemptAware);
    let mut running = bench.client.start(asked.clone());
    until_told(&mut running, 1).await;
    let parked = stored(&bench).await;
    drop(running);
    assert!(bench.attempts.unpark("ses_1".into(), "t1".into()).await.unwrap());

    let jumping = Arc::new(HandClock::new([(HOUR, forward(1))]));
    let resumed = client(bench.attempts.clone(), Timeouts::default(), jumping.clone()).resume(asked, parked);
    assert_eq!(*ending(&all(resumed).await), CallOutcome::Cancelled);
    assert!(jumping.elapsed() < Duration::from_millis(2 * HOUR), "noticed with the jump");
    assert_eq!((bench.waits().await, bench.provider.calls().len()), (0, 1));
}

/// Waits on a slow disk: the clock is set while a wait is stored.
struct Slow {
    attempts: Attempts,
    clock: Arc<HandClock>,
}

impl Waits for Slow {
    fn park(&self, parked: Parked) -> Answer<()> {
        let parking = self.attempts.park(parked);
        self.clock.jump(20 * HOUR as i64);
        parking
    }

    fn restate(&self, parked: Parked) -> Answer<bool> {
        self.attempts.restate(parked)
    }

    fn unpark(&self, session: SessionId, turn: TurnId) -> Answer<bool> {
        self.attempts.unpark(session, turn)
    }

    fn parked(&self) -> Answer<Vec<Parked>> {
        self.attempts.parked()
    }
}

#[tokio::test]
async fn a_jump_while_a_wait_is_stored_is_restated_too() {
    let clock = Arc::new(HandClock::new([(HOUR, Happening::Halt)]));
    let bench = bench_with([limited()], Timeouts::default(), clock.clone()).await;
    let environment = Environment {
        ledger: Arc::new(bench.attempts.clone()),
        waits: Arc::new(Slow { attempts: bench.attempts.clone(), clock: clock.clone() }),
        clock,
        redact: Arc::new(Rules::standard()),
    };
    let client = Client::new(Settings::default(), environment).unwrap();
    let mut running = client.start(call(&bench.provider.base_url(), Format::Chat, AttemptAware));
    let until = until_told(&mut running, 2).await;
    is_due(until.0 - START.0, 20 * HOUR + WAIT);
    assert_eq!(stored(&bench).await.until, until);
}
