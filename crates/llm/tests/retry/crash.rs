//! `kill -9` during a wait of hours, and between ledger row and request.

use crate::support::*;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use turnstream_fake_provider::{Fault, Provider, Refusal, RetryAfter, Script, Step};
use turnstream_llm::Format;
use turnstream_llm::client::{CallEvent, Timeouts};
use turnstream_llm::retry::Consumer::AttemptAware;
use turnstream_llm::wait::Clock;
use turnstream_log::{Attempts, AttemptsReader};
use turnstream_model::attempts::{Attempt, Verdict};
use turnstream_model::time::Time;
use turnstream_testkit::crash::{KillPoint, Program, role};

const CHILD: &str = "crash::a_child_that_asks";
const DIRECTORY: &str = "TURNSTREAM_TEST_DIRECTORY";
const PROVIDER: &str = "TURNSTREAM_TEST_PROVIDER";
const WALL: &str = "TURNSTREAM_TEST_WALL";
const HOURS_15: u64 = 55_852;

/// The child: resumes a stored wait or starts a call, and prints its events. Its clocks stand still unless
/// it should wake.
#[tokio::test]
async fn a_child_that_asks() {
    let Some(role) = role() else { return };
    let variable = |name| std::env::var(name).unwrap();
    let wall = Time(variable(WALL).parse().unwrap());
    let clock: Arc<dyn Clock> = Arc::new(StoppedClock(wall));
    let attempts = Attempts::open(Path::new(&variable(DIRECTORY))).unwrap();
    let client = client(attempts, Timeouts::default(), clock);
    let call = call(&variable(PROVIDER), Format::Chat, AttemptAware);
    let mut resumed = client.resume_all(|_| Some(call.clone())).await.unwrap();
    let mut running = match (role.as_str(), resumed.pop()) {
        ("ask", None) => client.start(call),
        ("resume", Some((_, running))) => running,
        (role, resumed) => panic!("{role} with {resumed:?}"),
    };
    while let Some(told) = running.next().await {
        match told {
            CallEvent::AttemptStarted { attempt } => println!("frame began {attempt}"),
            CallEvent::Retrying { until, .. } => println!("frame waits {}", until.0),
            CallEvent::Ended { outcome: ending, .. } => println!("frame ended {ending:?}"),
            CallEvent::Stream { .. } => println!("frame said"),
            CallEvent::Superseded { .. } | CallEvent::NotRecorded(_) => {}
        }
    }
}

fn child(role: &str, directory: &Path, provider: &Provider, wall: Time) -> Program {
    Program::this_test(CHILD, role)
        .unwrap()
        .env(DIRECTORY, directory)
        .env(PROVIDER, provider.base_url())
        .env(WALL, wall.0.to_string())
}

fn rows(directory: &Path) -> Vec<Attempt> {
    AttemptsReader::open(directory).unwrap().attempts(&"ses_1".into()).unwrap()
}

fn limited() -> Step {
    Step::new(Refusal::new(429, "rate_limit_error", "m").retry_after(RetryAfter::Seconds(HOURS_15)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_of_15_hours_outlives_kills_and_ends_at_its_time() {
    let provider = Provider::start(Script::new([limited(), Step::text("At last.")])).await.unwrap();
    let directory = TempDir::new().unwrap();
    let at = directory.path();

    let seen = child("ask", at, &provider, START).run(&KillPoint::line("frame waits ", 1)).unwrap();
    let until: u64 = seen.lines("frame waits ")[0].parse().unwrap();
    assert!((HOURS_15 * 1000..=HOURS_15 * 1000 + 5000).contains(&(until - START.0)));
    assert_eq!((provider.calls().len(), rows(at).len()), (1, 1));

    // Killed twice more, once a second before the end: the same end, and no request.
    for wall in [Time(START.0 + 7_200_000), Time(until - 1000)] {
        let seen = child("resume", at, &provider, wall).run(&KillPoint::line("frame waits ", 1)).unwrap();
        assert_eq!(seen.lines("frame waits "), [until.to_string()]);
        assert_eq!(seen.lines("frame began "), Vec::<String>::new());
        assert_eq!((provider.calls().len(), rows(at).len()), (1, 1));
    }

    let seen = child("resume", at, &provider, Time(until)).run(&KillPoint::Exit).unwrap();
    assert_eq!(seen.lines("frame began "), ["2"]);
    assert!(seen.lines("frame ended ")[0].starts_with("Complete"), "{seen}");
    let rows = rows(at);
    assert_eq!((provider.calls().len(), rows.len()), (2, 2));
    assert_eq!(rows[1].begun.started, Time(until));
    assert_eq!(rows[1].verdict(), Some(Verdict::Complete));
    assert!(AttemptsReader::open(at).unwrap().parked().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_between_the_row_and_the_request_leaves_a_row_that_is_unknown_and_no_request() {
    let provider = Provider::start(Script::new([limited(), Step::text("At last.")])).await.unwrap();
    let directory = TempDir::new().unwrap();
    let at = directory.path();
    child("ask", at, &provider, START).run(&KillPoint::failpoint("llm.begun", 1)).unwrap();
    assert_eq!((provider.calls().len(), rows(at).len()), (0, 1));

    // The turn is started again. The number of the lost attempt is not reused.
    let seen = child("ask", at, &provider, START).run(&KillPoint::line("frame waits ", 1)).unwrap();
    let until: u64 = seen.lines("frame waits ")[0].parse().unwrap();
    assert_eq!(seen.lines("frame began "), ["2"]);
    let seen = child("resume", at, &provider, Time(until)).run(&KillPoint::Exit).unwrap();
    assert!(seen.lines("frame ended ")[0].starts_with("Complete"), "{seen}");
    let verdicts: Vec<_> = rows(at).iter().map(Attempt::verdict).collect();
    assert_eq!(verdicts, [Verdict::Unknown, Verdict::Failed, Verdict::Complete].map(Some));
    assert_eq!(provider.calls().len(), 2, "the unknown one never left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_in_the_middle_of_an_answer_leaves_a_row_that_is_unknown() {
    let stall = Fault::Stall { after: 600, lasts_ms: None, comment_every_ms: None };
    let steps = [Step::text("An answer that nobody hears to its end.").fault(stall), Step::text("At last.")];
    let provider = Provider::start(Script::new(steps)).await.unwrap();
    let directory = TempDir::new().unwrap();
    let at = directory.path();
    child("ask", at, &provider, START).run(&KillPoint::line("frame said", 2)).unwrap();
    assert_eq!((provider.calls().len(), rows(at).len()), (1, 1));
    let seen = child("ask", at, &provider, START).run(&KillPoint::Exit).unwrap();
    assert!(seen.lines("frame ended ")[0].starts_with("Complete"), "{seen}");
    let verdicts: Vec<_> = rows(at).iter().map(Attempt::verdict).collect();
    assert_eq!(verdicts, [Verdict::Unknown, Verdict::Complete].map(Some));
    assert_eq!(provider.calls().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_the_end_of_a_wait_repeats_the_wake_up_and_loses_nothing() {
    let provider = Provider::start(Script::new([limited(), Step::text("At last.")])).await.unwrap();
    let directory = TempDir::new().unwrap();
    let at = directory.path();
    let seen = child("ask", at, &provider, START).run(&KillPoint::line("frame waits ", 1)).unwrap();
    let until = Time(seen.lines("frame waits ")[0].parse().unwrap());
    // The row of attempt 2 is durable, and the wait still exists.
    let point = KillPoint::failpoint("attempts.committed", 2);
    child("resume", at, &provider, until).run(&point).unwrap();
    assert_eq!(rows(at).len(), 2);
    let seen = child("resume", at, &provider, until).run(&KillPoint::Exit).unwrap();
    assert_eq!(seen.lines("frame began "), ["3"]);
    let verdicts: Vec<_> = rows(at).iter().map(Attempt::verdict).collect();
    assert_eq!(verdicts, [Verdict::Failed, Verdict::Unknown, Verdict::Complete].map(Some));
    assert_eq!(provider.calls().len(), 2, "the unknown one never left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_right_after_a_wait_was_stored_loses_the_end_of_a_row_and_no_wait() {
    let provider = Provider::start(Script::new([limited(), Step::text("At last.")])).await.unwrap();
    let directory = TempDir::new().unwrap();
    let at = directory.path();
    child("ask", at, &provider, START).run(&KillPoint::failpoint("llm.parked", 1)).unwrap();
    let until = AttemptsReader::open(at).unwrap().parked().unwrap()[0].until;
    let seen = child("resume", at, &provider, until).run(&KillPoint::Exit).unwrap();
    assert!(seen.lines("frame ended ")[0].starts_with("Complete"), "{seen}");
    let verdicts: Vec<_> = rows(at).iter().map(Attempt::verdict).collect();
    assert_eq!(verdicts, [Verdict::Unknown, Verdict::Complete].map(Some));
    assert_eq!(provider.calls().len(), 2);
}
