//! Stored waits: reported, cancelled and resumed.

use crate::support::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use turnstream_fake_provider::{Refusal, RetryAfter, Step};
use turnstream_llm::Format;
use turnstream_llm::client::{
    CallEvent, CallOutcome, Client, Environment, RunningCall, Settings, Timeouts, Wait,
};
use turnstream_llm::retry::Consumer::AttemptAware;
use turnstream_log::Attempts;
use turnstream_model::SharedError;
use turnstream_model::attempts::{
    Answer, Attempt, AttemptName, Begun, Ended, Evidence, Ledger, Parked, Unkept, Verdict, Waits,
};
use turnstream_model::event::ErrorClass;
use turnstream_model::id::{SessionId, TurnId};
use turnstream_model::time::Time;
use turnstream_redact::Rules;

const HOURS_15: u64 = 55_852;

fn limited() -> Step {
    Step::new(Refusal::new(429, "rate_limit_error", "m").retry_after(RetryAfter::Seconds(HOURS_15)))
}

/// Reads events until the wait is stored, and returns its end.
async fn until_parked(running: &mut RunningCall) -> Time {
    let waiting = async {
        loop {
            match running.next().await.expect("it ended without a wait") {
                CallEvent::Retrying {
                    until,
                    wait: Wait::Parked,
                    attempt: 2,
                    reason: ErrorClass::RateLimited,
                    ..
                } => {
                    return until;
                }
                CallEvent::Retrying { .. }
                | CallEvent::AttemptStarted { .. }
                | CallEvent::Stream { .. }
                | CallEvent::Superseded { .. }
                | CallEvent::NotRecorded(_) => {}
                CallEvent::Ended { outcome: ending, .. } => panic!("it ended: {ending:?}"),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(300), waiting).await.unwrap()
}

#[tokio::test]
async fn a_wait_of_hours_is_parked_with_its_time_and_then_over() {
    let bench = bench([limited(), Step::text("At last.")]).await;
    let told = bench.run(Format::Messages, AttemptAware).await;
    assert_eq!(text_of(&told), "At last.");
    let expected = [(Verdict::Failed, Some(ErrorClass::RateLimited)), (Verdict::Complete, None)];
    assert_eq!(bench.verdicts().await, expected);
    assert_eq!(bench.waits().await, 0);
    let rows = bench.rows().await;
    let waited = rows[1].begun.started.0 - rows[0].end.as_ref().unwrap().ended.0;
    assert!(
        (HOURS_15 * 1000..=HOURS_15 * 1000 + 5000).contains(&waited),
        "{waited} ms: the jitter is absolute"
    );
}

#[tokio::test]
async fn a_parked_wait_is_cancelled_once_and_for_all() {
    let bench = bench_with([limited().always()], Timeouts::default(), Arc::new(StoppedClock(START))).await;
    let mut running = bench.client.start(call(&bench.provider.base_url(), Format::Chat, AttemptAware));
    until_parked(&mut running).await;
    assert_eq!(bench.waits().await, 1);
    running.cancel();
    assert_eq!(*ending(&all(running).await), CallOutcome::Cancelled);
    assert_eq!(bench.waits().await, 0);
    assert_eq!(bench.rows().await.len(), 1);
}

#[tokio::test]
async fn a_wait_that_somebody_took_away_is_not_asked_for_again() {
    let bench = bench_with([limited().always()], Timeouts::default(), Arc::new(StoppedClock(START))).await;
    let mut running = bench.client.start(call(&bench.provider.base_url(), Format::Chat, AttemptAware));
    until_parked(&mut running).await;
    let parked = bench.client.parked().await.unwrap().remove(0);
    drop(running);
    bench.attempts.unpark("ses_1".into(), "t1".into()).await.unwrap();
    let later = client(bench.attempts.clone(), Timeouts::default(), Arc::new(StoppedClock(parked.until)));
    let told = all(later.resume(call(&bench.provider.base_url(), Format::Chat, AttemptAware), parked)).await;
    assert_eq!(*ending(&told), CallOutcome::Cancelled);
    assert_eq!(bench.provider.calls().len(), 1);
}

#[tokio::test]
async fn a_wait_outlives_its_reader_and_goes_on_with_what_was_used_up() {
    let steps = [limited(), limited(), Step::text("At last.")];
    let bench = bench_with(steps, Timeouts::default(), Arc::new(StoppedClock(START))).await;
    let mut running = bench.client.start(call(&bench.provider.base_url(), Format::Chat, AttemptAware));
    let until = until_parked(&mut running).await;
    drop(running);
    let parked = bench.client.parked().await.unwrap();
    assert_eq!(parked.len(), 1);
    assert_eq!(
        (parked[0].until, parked[0].attempt, parked[0].error.class),
        (until, 1, ErrorClass::RateLimited)
    );

    let again = call(&bench.provider.base_url(), Format::Chat, AttemptAware);
    let early =
        client(bench.attempts.clone(), Timeouts::default(), Arc::new(StoppedClock(Time(until.0 - 1))));
    let mut waiting = early.resume(again.clone(), parked[0].clone());
    assert_eq!(
        waiting.next().await,
        Some(CallEvent::Retrying {
            attempt: 2,
            reason: ErrorClass::RateLimited,
            until,
            wait: Wait::Parked,
            message: "m".to_owned()
        })
    );
    let nothing = tokio::time::timeout(Duration::from_millis(200), waiting.next()).await;
    assert!(nothing.is_err(), "a millisecond early: {nothing:?}");
    drop(waiting);

    let due = client(bench.attempts.clone(), Timeouts::default(), Arc::new(StoppedClock(until)));
    let mut second = due.resume(again.clone(), parked[0].clone());
    let mut told = Vec::new();
    loop {
        let next = tokio::time::timeout(Duration::from_secs(300), second.next()).await.unwrap().unwrap();
        let is_parked_again = matches!(next, CallEvent::Retrying { attempt: 3, .. });
        told.push(next);
        if is_parked_again {
            break;
        }
    }
    assert!(told.contains(&CallEvent::AttemptStarted { attempt: 2 }));
    let again_parked = due.parked().await.unwrap().remove(0);
    assert_eq!(again_parked.spent.failing_since, Some(START), "the window began with the first failure");
    assert_eq!(again_parked.spent.failures[&ErrorClass::RateLimited], (2, START));
    drop(second);

    let last =
        client(bench.attempts.clone(), Timeouts::default(), Arc::new(StoppedClock(again_parked.until)));
    let told = all(last.resume(again, again_parked)).await;
    assert_eq!(text_of(&told), "At last.");
    assert_eq!(bench.rows().await.len(), 3);
}

/// A ledger that causes something while the row of the second attempt is written.
struct Struck {
    attempts: Attempts,
    blow: Blow,
}

enum Blow {
    /// The consumer goes away.
    ReaderLeaves(Arc<Mutex<Option<RunningCall>>>),
    /// The disk is full.
    DiskFull,
}

fn disk_full() -> Unkept {
    Unkept::Store(SharedError::new("disk full"))
}

impl Ledger for Struck {
    fn begin(&self, begun: Begun) -> Answer<()> {
        match &self.blow {
            Blow::ReaderLeaves(running) if begun.name.number == 2 => drop(running.lock().unwrap().take()),
            Blow::DiskFull if begun.name.number == 2 => return Box::pin(async { Err(disk_full()) }),
            Blow::ReaderLeaves(_) | Blow::DiskFull => {}
        }
        self.attempts.begin(begun)
    }

    fn end(&self, name: AttemptName, ended: Ended) -> Answer<()> {
        self.attempts.end(name, ended)
    }

    fn attempts(&self, session: SessionId) -> Answer<Vec<Attempt>> {
        self.attempts.attempts(session)
    }

    fn evidence(&self, name: AttemptName) -> Answer<Option<Evidence>> {
        self.attempts.evidence(name)
    }
}

#[tokio::test]
async fn a_wait_whose_reader_goes_away_as_it_ends_stays_parked() {
    let bench = bench([limited(), Step::text("At last.")]).await;
    let running = Arc::new(Mutex::new(None));
    let environment = Environment {
        ledger: Arc::new(Struck {
            attempts: bench.attempts.clone(),
            blow: Blow::ReaderLeaves(running.clone()),
        }),
        waits: Arc::new(bench.attempts.clone()),
        clock: Arc::new(QuickClock::new()),
        redact: Arc::new(Rules::standard()),
    };
    let client = Client::new(Settings::default(), environment).unwrap();
    let started = client.start(call(&bench.provider.base_url(), Format::Chat, AttemptAware));
    *running.lock().unwrap() = Some(started);
    let ended = async {
        loop {
            let rows = bench.attempts.attempts("ses_1".into()).await.unwrap();
            if rows.get(1).is_some_and(|row| row.verdict() == Some(Verdict::Cancelled)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(300), ended).await.unwrap();
    assert_eq!((bench.waits().await, bench.provider.calls().len()), (1, 1));
}

/// Waits that can be stored but not removed, as on a full disk.
struct Stuck(Attempts);

impl Waits for Stuck {
    fn park(&self, parked: Parked) -> Answer<()> {
        self.0.park(parked)
    }

    fn restate(&self, parked: Parked) -> Answer<bool> {
        self.0.restate(parked)
    }

    fn unpark(&self, _: SessionId, _: TurnId) -> Answer<bool> {
        Box::pin(async { Err(disk_full()) })
    }

    fn parked(&self) -> Answer<Vec<Parked>> {
        self.0.parked()
    }
}

#[tokio::test]
async fn who_cancels_a_wait_that_cannot_be_removed_is_told_so() {
    let bench = bench([limited()]).await;
    let environment = Environment {
        ledger: Arc::new(bench.attempts.clone()),
        waits: Arc::new(Stuck(bench.attempts.clone())),
        clock: Arc::new(StoppedClock(START)),
        redact: Arc::new(Rules::standard()),
    };
    let client = Client::new(Settings::default(), environment).unwrap();
    let mut running = client.start(call(&bench.provider.base_url(), Format::Chat, AttemptAware));
    until_parked(&mut running).await;
    running.cancel();
    let told = all(running).await;
    assert_eq!(told[0], CallEvent::NotRecorded(disk_full()));
    assert_eq!((told.len(), ending(&told)), (2, &CallOutcome::Cancelled));
    assert_eq!(bench.waits().await, 1);
}

#[tokio::test]
async fn a_wait_whose_next_row_cannot_be_written_ends_with_its_turn() {
    let bench = bench([limited(), Step::text("Never.")]).await;
    let environment = Environment {
        ledger: Arc::new(Struck { attempts: bench.attempts.clone(), blow: Blow::DiskFull }),
        waits: Arc::new(bench.attempts.clone()),
        clock: Arc::new(QuickClock::new()),
        redact: Arc::new(Rules::standard()),
    };
    let client = Client::new(Settings::default(), environment).unwrap();
    let told = all(client.start(call(&bench.provider.base_url(), Format::Chat, AttemptAware))).await;
    assert_eq!(*ending(&told), CallOutcome::NotRecorded(disk_full()));
    assert_eq!((bench.waits().await, bench.provider.calls().len()), (0, 1));
}
