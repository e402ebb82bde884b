//! The ledger of attempts: durable before the request leaves, correct after a crash, erased on request.

use std::path::Path;
use tempfile::TempDir;
use turnstream_log::{Attempts, AttemptsReader, OpenError};
use turnstream_model::attempts::{
    AgentAttempt, Attempt, AttemptName, Begun, Count, Ended, Evidence, Findings, Ledger, Parked, Retention,
    Spent, Tokens, Unkept, Verdict, Waits,
};
use turnstream_model::event::{ErrorClass, TurnError, Usage};
use turnstream_model::id::SessionId;
use turnstream_model::time::Time;
use turnstream_testkit::crash::{KillPoint, Program, Seen, role};
use turnstream_testkit::leaks::leaks_below;

const DIRECTORY: &str = "TURNSTREAM_TEST_DIRECTORY";

fn name(session: &str, number: u32) -> AttemptName {
    AttemptName { session: session.into(), turn: "t1".into(), number }
}

fn begun(session: &str, number: u32) -> Begun {
    Begun {
        name: name(session, number),
        step: 1,
        route: "main".to_owned(),
        format: "chat".to_owned(),
        model: "m".to_owned(),
        request: "00ff".to_owned(),
        started: Time(1000 + u64::from(number)),
    }
}

fn ended(at: u64, evidence: Option<Evidence>) -> Ended {
    Ended {
        verdict: Verdict::Failed,
        class: Some(ErrorClass::StreamSpliced),
        problem: Some("two completions".to_owned()),
        status: Some(200),
        request_id: Some("req_1".to_owned()),
        headers: vec![("retry-after".to_owned(), "7".to_owned())],
        finish: None,
        tokens: Tokens::Estimated(Usage { output: Some(3), ..Usage::default() }),
        findings: Findings {
            bytes: 10,
            events: 2,
            anomalies: vec![Count { what: "identity".to_owned(), times: 1, at: Some(7) }],
            ..Findings::default()
        },
        ended: Time(at),
        evidence,
    }
}

fn evidence(text: &str) -> Evidence {
    Evidence { head: text.into(), omitted: 5, tail: b"end".to_vec() }
}

fn parked(session: &str, until: u64) -> Parked {
    Parked {
        session: session.into(),
        turn: "t1".into(),
        step: 1,
        attempt: 1,
        shown: vec![0, 2],
        route: "main".to_owned(),
        since: Time(1000),
        until: Time(until),
        error: TurnError::new(ErrorClass::RateLimited, "later"),
        spent: Spent {
            waited_ms: 3,
            failing_since: Some(Time(1000)),
            failures: [(ErrorClass::RateLimited, (1, Time(1000)))].into(),
        },
    }
}

#[tokio::test]
async fn a_row_is_read_as_it_was_written_also_after_a_restart_and_beside_its_owner() {
    let directory = TempDir::new().unwrap();
    let attempts = Attempts::open(directory.path()).unwrap();
    attempts.begin(begun("ses_1", 1)).await.unwrap();
    let kept = evidence("data: {}");
    let end = ended(2000, Some(kept.clone()));
    attempts.end(name("ses_1", 1), end.clone()).await.unwrap();
    attempts.begin(begun("ses_1", 2)).await.unwrap();

    let without_evidence = Ended { evidence: None, ..end };
    let first = Attempt { begun: begun("ses_1", 1), end: Some(without_evidence), orphaned: false, of: None };
    let second = Attempt { begun: begun("ses_1", 2), end: None, orphaned: false, of: None };
    let beside = AttemptsReader::open(directory.path()).unwrap();
    assert_eq!(beside.attempts(&"ses_1".into()).unwrap(), [first.clone(), second.clone()]);
    assert_eq!(attempts.evidence(name("ses_1", 1)).await.unwrap(), Some(kept.clone()));
    attempts.close();
    assert_eq!(attempts.attempts("ses_1".into()).await, Err(Unkept::Closed));

    let attempts = Attempts::open(directory.path()).unwrap();
    let orphan = Attempt { orphaned: true, ..second };
    let read = attempts.attempts("ses_1".into()).await.unwrap();
    assert_eq!(read, [first, orphan]);
    assert_eq!(read[1].verdict(), Some(Verdict::Unknown));
    assert_eq!(attempts.evidence(name("ses_1", 1)).await.unwrap(), Some(kept));
}

#[tokio::test]
async fn a_row_is_linked_to_the_attempt_of_an_agent_once() {
    let directory = TempDir::new().unwrap();
    let attempts = Attempts::open(directory.path()).unwrap();
    attempts.begin(begun("ses_1", 1)).await.unwrap();
    let of = |attempt: &str| AgentAttempt { turn: "t7".into(), attempt: attempt.into() };
    attempts.link(name("ses_1", 1), of("a3")).await.unwrap();
    attempts.link(name("ses_1", 1), of("a4")).await.unwrap();
    let unknown = attempts.link(name("ses_1", 2), of("a3")).await;
    assert_eq!(unknown, Err(Unkept::NeverBegan(name("ses_1", 2))));
    attempts.end(name("ses_1", 1), ended(9, None)).await.unwrap();
    let rows = attempts.attempts("ses_1".into()).await.unwrap();
    assert_eq!((rows.len(), &rows[0].of, &rows[0].begun), (1, &Some(of("a3")), &begun("ses_1", 1)));
}

#[tokio::test]
async fn an_attempt_begins_once_and_ends_once() {
    let directory = TempDir::new().unwrap();
    let attempts = Attempts::open(directory.path()).unwrap();
    attempts.begin(begun("ses_1", 1)).await.unwrap();
    assert_eq!(attempts.begin(begun("ses_1", 1)).await, Err(Unkept::Repeated(name("ses_1", 1))));
    assert_eq!(
        attempts.end(name("ses_1", 2), ended(9, None)).await,
        Err(Unkept::NeverBegan(name("ses_1", 2)))
    );
    attempts.end(name("ses_1", 1), ended(9, None)).await.unwrap();
    assert_eq!(attempts.end(name("ses_1", 1), ended(10, None)).await, Err(Unkept::Ended(name("ses_1", 1))));
    let read = attempts.attempts("ses_1".into()).await.unwrap();
    assert_eq!(read[0].end, Some(ended(9, None)));
}

#[tokio::test]
async fn a_second_owner_is_refused() {
    let directory = TempDir::new().unwrap();
    let first = Attempts::open(directory.path()).unwrap();
    assert!(matches!(Attempts::open(directory.path()), Err(OpenError::InUse(_))));
    drop(first);
    Attempts::open(directory.path()).unwrap();
}

#[tokio::test]
async fn waits_come_soonest_first_and_only_one_of_two_ends_one() {
    let directory = TempDir::new().unwrap();
    let attempts = Attempts::open(directory.path()).unwrap();
    attempts.park(parked("ses_1", 9000)).await.unwrap();
    attempts.park(parked("ses_2", 8000)).await.unwrap();
    attempts.park(parked("ses_1", 7000)).await.unwrap();
    attempts.close();
    let attempts = Attempts::open(directory.path()).unwrap();
    assert_eq!(attempts.parked().await.unwrap(), [parked("ses_1", 7000), parked("ses_2", 8000)]);
    assert_eq!(attempts.unpark("ses_1".into(), "t1".into()).await, Ok(true));
    assert_eq!(attempts.unpark("ses_1".into(), "t1".into()).await, Ok(false));
    assert_eq!(attempts.parked().await.unwrap(), [parked("ses_2", 8000)]);
}

#[tokio::test]
async fn a_wait_is_restated_only_while_it_is_there() {
    let directory = TempDir::new().unwrap();
    let attempts = Attempts::open(directory.path()).unwrap();
    assert_eq!(attempts.restate(parked("ses_1", 50)).await, Ok(false));
    assert_eq!(attempts.parked().await, Ok(Vec::new()));
    attempts.park(parked("ses_1", 50)).await.unwrap();
    attempts.park(parked("ses_2", 60)).await.unwrap();
    assert_eq!(attempts.restate(parked("ses_1", 70)).await, Ok(true));
    assert_eq!(attempts.parked().await, Ok(vec![parked("ses_2", 60), parked("ses_1", 70)]));
}

#[tokio::test]
async fn what_is_forgotten_is_in_no_file_any_more() {
    let directory = TempDir::new().unwrap();
    let attempts = Attempts::open(directory.path()).unwrap();
    for number in 1..40 {
        for session in ["ses_gone", "ses_kept"] {
            attempts.begin(begun(session, number)).await.unwrap();
            let kept = evidence(&format!("said in {session} ").repeat(200));
            attempts.end(name(session, number), ended(2000, Some(kept))).await.unwrap();
        }
    }
    attempts.park(parked("ses_gone", 9000)).await.unwrap();
    assert!(holds(directory.path(), "ses_gone"));
    assert_eq!(attempts.forget("ses_gone".into()).await, Ok(39));
    assert!(!holds(directory.path(), "ses_gone"), "a forgotten session is still in a file");
    assert!(holds(directory.path(), "ses_kept"));
    assert_eq!(attempts.attempts("ses_gone".into()).await, Ok(Vec::new()));
    assert_eq!(attempts.attempts("ses_kept".into()).await.unwrap().len(), 39);
    assert_eq!(attempts.parked().await, Ok(Vec::new()));
}

fn other_connection(directory: &Path, sql: &str) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(directory.join("attempts.db")).unwrap();
    connection.execute_batch(sql).unwrap();
    connection
}

#[tokio::test]
async fn a_database_that_somebody_else_holds_is_named_as_that_and_not_as_closed() {
    let directory = TempDir::new().unwrap();
    let attempts = Attempts::open(directory.path()).unwrap();
    let holder = other_connection(directory.path(), "BEGIN IMMEDIATE");
    let answer = attempts.begin(begun("ses_1", 1)).await;
    let Err(Unkept::Store(problem)) = &answer else { panic!("{answer:?}") };
    assert!(problem.to_string().contains("locked"), "{problem}");
    assert!(problem.get_ref().is::<rusqlite::Error>(), "{problem:?}");
    drop(holder);
    assert_eq!(attempts.begin(begun("ses_1", 1)).await, Ok(()));
}

#[tokio::test]
async fn a_row_does_not_fail_because_another_session_cannot_be_scrubbed_yet() {
    let directory = TempDir::new().unwrap();
    let attempts = Attempts::open(directory.path()).unwrap();
    attempts.begin(begun("ses_old", 1)).await.unwrap();
    let reader = other_connection(directory.path(), "BEGIN");
    let count = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
    assert_eq!(reader.query_row("SELECT count(*) FROM attempt", [], count), Ok(1));
    // Requests that arrive while the first one waits for the lock share one commit.
    let holder = other_connection(directory.path(), "BEGIN IMMEDIATE");
    let first = attempts.begin(begun("ses_1", 1));
    let forgotten = attempts.forget("ses_old".into());
    let begun = attempts.begin(begun("ses_1", 2));
    drop(holder);
    assert_eq!(first.await, Ok(()));
    assert_eq!(begun.await, Ok(()));
    let forgotten = forgotten.await;
    assert!(
        matches!(&forgotten, Err(Unkept::Store(problem)) if problem.to_string().contains("wal")),
        "{forgotten:?}"
    );
}

/// Rows of very different sizes grow among each other, so that SQLite leaves copies where it makes room.
#[tokio::test]
async fn nothing_of_what_is_forgotten_is_left_between_the_rows_of_others() {
    let directory = TempDir::new().unwrap();
    let attempts = Attempts::open(directory.path()).unwrap();
    let mut random = fastrand::Rng::with_seed(11);
    let mut planted = Vec::new();
    // Many attempts are open at once, and end in any order.
    let mut names: Vec<(String, u32)> =
        (1..60).flat_map(|number| (0..8).map(move |session| (format!("ses_{session}"), number))).collect();
    for (session, number) in &names {
        attempts.begin(begun(session, *number)).await.unwrap();
    }
    random.shuffle(&mut names);
    for (session, number) in &names {
        let length = random.usize(20..900);
        let text: String = (0..length).map(|_| random.alphanumeric()).collect();
        let end = Ended { problem: Some(text.clone()), ..ended(2000, Some(evidence(&text))) };
        attempts.end(name(session, *number), end).await.unwrap();
        if session.as_str() < "ses_4" {
            planted.push(text);
        }
    }
    for session in ["ses_0", "ses_1", "ses_2", "ses_3"] {
        attempts.forget(session.into()).await.unwrap();
    }
    assert_eq!(leaks_below(directory.path(), &planted), [""; 0]);
    assert_eq!(attempts.attempts("ses_7".into()).await.unwrap().len(), 59);
    attempts.close();
    let database = rusqlite::Connection::open(directory.path().join("attempts.db")).unwrap();
    let sound: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
}

#[tokio::test]
async fn retention_takes_what_ended_before_and_what_will_never_end_and_leaves_what_runs() {
    let directory = TempDir::new().unwrap();
    let attempts = Attempts::open(directory.path()).unwrap();
    attempts.begin(begun("ses_1", 1)).await.unwrap();
    attempts.close();
    let attempts = Attempts::open(directory.path()).unwrap();
    for number in 2..5 {
        attempts.begin(begun("ses_1", number)).await.unwrap();
    }
    attempts.end(name("ses_1", 2), ended(2000, Some(evidence("old")))).await.unwrap();
    attempts.end(name("ses_1", 3), ended(3000, Some(evidence("new")))).await.unwrap();
    attempts.park(parked("ses_1", 1)).await.unwrap();
    assert_eq!(attempts.trim(Time(2500)).await, Ok(2));
    let left: Vec<u32> =
        attempts.attempts("ses_1".into()).await.unwrap().iter().map(|row| row.begun.name.number).collect();
    assert_eq!(left, [3, 4]);
    assert_eq!(attempts.evidence(name("ses_1", 2)).await, Ok(None));
    assert_eq!(attempts.evidence(name("ses_1", 3)).await, Ok(Some(evidence("new"))));
    assert_eq!(attempts.parked().await.unwrap().len(), 1);
}

/// The child of the next test. It is killed after its trim has removed the rows, and before their bytes are
/// erased from the files.
#[tokio::test]
async fn a_child_that_trims() {
    if role().as_deref() != Some("trims") {
        return;
    }
    let directory = std::env::var(DIRECTORY).unwrap();
    let attempts = Attempts::open(Path::new(&directory)).unwrap();
    attempts.begin(begun("ses_1", 1)).await.unwrap();
    attempts.end(name("ses_1", 1), ended(2000, Some(evidence("planted by the child")))).await.unwrap();
    attempts.trim(Time(2500)).await.unwrap();
}

#[tokio::test]
async fn what_a_killed_run_has_trimmed_leaves_the_files_with_the_next_round() {
    let directory = TempDir::new().unwrap();
    let child = Program::this_test("attempts::a_child_that_trims", "trims").unwrap();
    let mut child = child.env(DIRECTORY, directory.path());
    child.run(&KillPoint::failpoint("attempts.committed", 3)).unwrap();
    let attempts = Attempts::open(directory.path()).unwrap();
    assert_eq!(attempts.attempts("ses_1".into()).await, Ok(Vec::new()));
    assert_eq!(attempts.trim(Time(2500)).await, Ok(0));
    assert!(!holds(directory.path(), "planted by the child"));
}

/// The child of the next test. It prints the rows that were acknowledged as durable.
#[tokio::test]
async fn a_child_that_writes_rows() {
    if role().as_deref() != Some("rows") {
        return;
    }
    let directory = std::env::var(DIRECTORY).unwrap();
    let attempts = Attempts::open(Path::new(&directory)).unwrap();
    for number in 1.. {
        attempts.begin(begun("ses_1", number)).await.unwrap();
        println!("row {number}");
    }
}

fn child(directory: &Path) -> Program {
    let program = Program::this_test("attempts::a_child_that_writes_rows", "rows").unwrap();
    program.env(DIRECTORY, directory)
}

/// The number of rows, after asserting that every acknowledged row exists and is `unknown`.
async fn rows_after(seen: &Seen, directory: &Path) -> usize {
    let told = seen.lines("row ").len();
    let attempts = Attempts::open(directory).unwrap();
    let rows = attempts.attempts(SessionId::from("ses_1")).await.unwrap();
    assert!(rows.len() >= told, "{told} rows were told to be durable, {} are there", rows.len());
    assert!(rows.iter().all(|row| row.verdict() == Some(Verdict::Unknown)));
    rows.len()
}

#[tokio::test]
async fn every_row_that_was_answered_outlives_a_kill_and_is_unknown_after_it() {
    let directory = TempDir::new().unwrap();
    let seen = child(directory.path()).run(&KillPoint::line("row ", 25)).unwrap();
    assert!(rows_after(&seen, directory.path()).await >= 25);
    // Before a commit none of its rows exists; after it all of them do, acknowledged or not.
    for (point, rows) in [("attempts.commit", 9), ("attempts.committed", 10)] {
        let directory = TempDir::new().unwrap();
        let seen = child(directory.path()).run(&KillPoint::failpoint(point, 10)).unwrap();
        assert_eq!(rows_after(&seen, directory.path()).await, rows, "{point}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn every_row_that_was_answered_outlives_a_power_cut() {
    use turnstream_testkit::disk::{FaultDisk, PowerCut};
    for cut in [PowerCut::Nothing, PowerCut::Torn(1), PowerCut::Subset(2), PowerCut::Everything] {
        let home = TempDir::new().unwrap();
        let mut disk = FaultDisk::new(home.path()).unwrap();
        let directory = disk.directory().join("data");
        let mut program = child(&directory);
        disk.arm(program.command_mut()).unwrap();
        let seen = program.run(&KillPoint::line("row ", 40)).unwrap();
        disk.power_cut(cut).unwrap();
        assert!(rows_after(&seen, &directory).await >= 40, "{cut:?}");
    }
}

fn holds(directory: &Path, text: &str) -> bool {
    std::fs::read_dir(directory).unwrap().any(|entry| {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}
