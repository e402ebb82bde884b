//! Rows of messages: they exist from the first event on, are partial while they stream, become final once,
//! and are removed when void.

use crate::support::*;
use rusqlite::Connection;
use std::path::Path;
use std::time::{Duration, Instant};
use turnstream_log::{Appender, Health, Log, Options};
use turnstream_model::event::{Body, Draft, ItemKind, ItemState, Outcome, StopReason, Tool};
use turnstream_model::id::{AttemptId, ItemId, TurnId};

fn open_with(directory: &Path, debounce: Duration) -> Log {
    Log::open(directory, &Options { debounce, ..options() }).unwrap().log
}

fn database(directory: &Path) -> Connection {
    let connection = Connection::open(directory.join("log.db")).unwrap();
    connection.busy_timeout(Duration::from_secs(300)).unwrap();
    connection
}

/// Counts every write to a row from now on.
fn watch(directory: &Path) -> Connection {
    let connection = database(directory);
    connection
        .execute_batch(
            "DROP TABLE IF EXISTS written;
             CREATE TABLE written (what TEXT);
             CREATE TRIGGER IF NOT EXISTS piece_made AFTER INSERT ON piece BEGIN INSERT INTO written VALUES (NEW.id); END;
             CREATE TRIGGER IF NOT EXISTS piece_set AFTER UPDATE ON piece BEGIN INSERT INTO written VALUES (NEW.id); END;
             CREATE TRIGGER IF NOT EXISTS fold_made AFTER INSERT ON fold BEGIN INSERT INTO written VALUES ('fold'); END;
             CREATE TRIGGER IF NOT EXISTS fold_set AFTER UPDATE ON fold BEGIN INSERT INTO written VALUES ('fold'); END;",
        )
        .unwrap();
    connection
}

fn writes(connection: &Connection, what: &str) -> i64 {
    let count = "SELECT count(*) FROM written WHERE what LIKE ?1";
    connection.query_row(count, [what], |row| row.get(0)).unwrap()
}

async fn eventually(mut is_so: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never was");
}

/// Waits until the stored fold has every event.
async fn stored_up_to(directory: &Path, head: u64) {
    let connection = database(directory);
    let seq =
        || connection.query_row("SELECT max(seq) FROM fold", [], |row| row.get::<_, Option<i64>>(0)).unwrap();
    eventually(|| seq() == Some(head as i64)).await;
}

fn row(connection: &Connection, item: &str) -> Option<(bool, String)> {
    let query = "SELECT streaming, body FROM piece WHERE kind = 2 AND id = ?1";
    connection.query_row(query, [item], |row| Ok((row.get(0)?, row.get(1)?))).ok()
}

fn ended_with(outcome: Outcome) -> Draft {
    let stop_reason = (outcome == Outcome::Completed).then_some(StopReason::EndTurn);
    let body = Body::TurnEnded { outcome, stop_reason, usage: None, cost: None, summed: true, error: None };
    Draft { turn: Some(TurnId::from("t1")), ..Draft::new(body) }
}

/// Asserts that nothing is written in a period in which many writes would be due.
async fn assert_quiet(directory: &Path, after: &str) {
    let connection = watch(directory);
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(writes(&connection, "%"), 0, "after {after}");
}

#[tokio::test]
async fn one_projection_write_per_debounce_window() {
    let directory = tempfile::tempdir().unwrap();
    let debounce = Duration::from_millis(300);
    let log = open_with(directory.path(), debounce);
    let mut appender = talking(&log, "s").await;
    let connection = watch(directory.path());
    let begin = Instant::now();
    while writes(&connection, "fold") < 2 || begin.elapsed() < Duration::from_millis(1_500) {
        append(&mut appender, vec![delta("t1", "i1", "word ")]).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let written = writes(&connection, "fold");
    let windows = begin.elapsed().as_millis() / debounce.as_millis() + 1;
    assert!(written as u128 <= windows, "{written} writes in {windows} windows");
}

#[tokio::test]
async fn after_the_end_of_a_turn_nothing_more_is_written_on_every_exit() {
    for outcome in [Outcome::Completed, Outcome::Cancelled, Outcome::Failed, Outcome::Lost] {
        let directory = tempfile::tempdir().unwrap();
        let log = open_with(directory.path(), Duration::from_millis(20));
        let mut appender = talking(&log, "s").await;
        append(&mut appender, vec![delta("t1", "i1", "partial")]).await;
        let state = if outcome == Outcome::Completed { ItemState::Completed } else { ItemState::Abandoned };
        let head = append(&mut appender, vec![item_ended("t1", "i1", state), ended_with(outcome)]).await;
        stored_up_to(directory.path(), head).await;
        assert_quiet(directory.path(), &format!("{outcome:?}")).await;
        assert!(!row(&database(directory.path()), "i1").unwrap().0, "{outcome:?}: the row is final");
    }
}

#[tokio::test]
async fn after_an_owner_is_gone_nothing_more_is_written_also_when_it_panicked() {
    async fn talk_and_go(mut appender: Appender, panics: bool) {
        append(&mut appender, vec![delta("t1", "i1", "partial")]).await;
        assert!(!panics, "as an owner may");
    }
    for panics in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let log = open_with(directory.path(), Duration::from_millis(20));
        let appender = talking(&log, "s").await;
        assert_eq!(tokio::spawn(talk_and_go(appender, panics)).await.is_err(), panics);
        stored_up_to(directory.path(), 4).await;
        assert_quiet(directory.path(), if panics { "a panic" } else { "a drop" }).await;
        // The next owner finds the session free and writes last.
        let mut next = log.claim(&id("s")).await.unwrap();
        let ends = vec![item_ended("t1", "i1", ItemState::Abandoned), ended_with(Outcome::Lost)];
        let head = append(&mut next, ends).await;
        stored_up_to(directory.path(), head).await;
        assert_quiet(directory.path(), "the end by the next owner").await;
        assert!(!row(&database(directory.path()), "i1").unwrap().0);
    }
}

#[tokio::test]
async fn a_tool_event_after_finalise_writes_nothing_to_the_row() {
    let directory = tempfile::tempdir().unwrap();
    let log = open_with(directory.path(), Duration::ZERO);
    let mut appender = talking(&log, "s").await;
    let head = append(
        &mut appender,
        vec![delta("t1", "i1", "the answer"), item_ended("t1", "i1", ItemState::Completed)],
    )
    .await;
    stored_up_to(directory.path(), head).await;
    let connection = watch(directory.path());
    let of_tool = |body| Draft {
        turn: Some(TurnId::from("t1")),
        item: Some(ItemId::from("i2")),
        parent: Some(ItemId::from("i1")),
        ..Draft::new(body)
    };
    let tool = || Some(Box::new(Tool { name: Some("edit".into()), ..Tool::default() }));
    let (kind, role, synthetic, text, native_id) = (ItemKind::Tool, None, false, None, None);
    let started = Body::ItemStarted { kind, role, synthetic, text, tool: tool(), native_id };
    append(&mut appender, vec![of_tool(started)]).await;
    let head = append(&mut appender, vec![of_tool(Body::ItemUpdated { tool: tool() })]).await;
    stored_up_to(directory.path(), head).await;
    assert!(writes(&connection, "i2") > 0);
    assert_eq!(writes(&connection, "i1"), 0);
}

#[tokio::test]
async fn a_failed_flush_is_recovered_by_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let log = open_with(directory.path(), Duration::from_millis(20));
    let mut appender = talking(&log, "s").await;
    stored_up_to(directory.path(), 3).await;
    let connection = database(directory.path());
    connection
        .execute_batch(
            "CREATE TRIGGER refuse BEFORE UPDATE ON piece BEGIN SELECT RAISE(ABORT, 'not now'); END;",
        )
        .unwrap();
    append(&mut appender, vec![delta("t1", "i1", "the answer")]).await;
    eventually(|| matches!(log.health(), Health::Degraded { .. })).await;
    let (_, partial) = row(&connection, "i1").unwrap();
    assert!(!partial.contains("the answer"));
    connection.execute_batch("DROP TRIGGER refuse;").unwrap();
    stored_up_to(directory.path(), 4).await;
    assert!(row(&connection, "i1").unwrap().1.contains("the answer"));
    eventually(|| log.health() == Health::Sound).await;
}

#[tokio::test]
async fn a_delayed_partial_after_finalise_is_rejected_by_the_store_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let log = open_with(directory.path(), Duration::from_millis(20));
    let mut appender = talking(&log, "s").await;
    stored_up_to(directory.path(), 3).await;
    assert_eq!(log.refused_writes(), 0);
    // Somebody else has finalised the row meanwhile.
    let connection = database(directory.path());
    connection.execute("UPDATE piece SET streaming = 0, body = '\"final\"' WHERE id = 'i1'", []).unwrap();
    let head = append(&mut appender, vec![delta("t1", "i1", "late")]).await;
    stored_up_to(directory.path(), head).await;
    assert_eq!(row(&connection, "i1").unwrap(), (false, "\"final\"".to_owned()));
    // The refusal is counted after the transaction.
    eventually(|| log.refused_writes() == 1).await;
}

/// One read of the database: whether it has this event, and whether the item has a row.
fn look(connection: &mut Connection, event: &str, item: &str) -> (bool, bool) {
    let transaction = connection.transaction().unwrap();
    let found = "SELECT count(*) > 0 FROM chunk WHERE instr(data, ?1) > 0";
    let has_event = transaction.query_row(found, [event], |row| row.get(0)).unwrap();
    (has_event, row(&transaction, item).is_some())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_items_row_and_the_event_that_began_it_appear_together() {
    let directory = tempfile::tempdir().unwrap();
    // The stored fold is never due, and the rows do not wait for it.
    let log = open_with(directory.path(), Duration::from_secs(3600));
    let mut appender = talking(&log, "s").await;
    let mut connection = database(directory.path());
    for number in 2..5 {
        let item = format!("i{number}");
        append(&mut appender, vec![item_started("t1", &item), delta("t1", &item, "word")]).await;
        let event = format!("\"type\":\"item.started\",\"turn\":\"t1\",\"item\":\"{item}\"");
        eventually(|| {
            let (has_event, has_row) = look(&mut connection, &event, &item);
            assert_eq!(has_event, has_row, "of {item}");
            has_row
        })
        .await;
        let (streaming, body) = row(&connection, &item).unwrap();
        assert!(streaming && body.contains("word"), "{body}");
    }
    assert_eq!(log.snapshot(&id("s")).unwrap().state.items.len(), 4);
    drop(appender);
    log.close().await;
    let log = open_with(directory.path(), Duration::from_secs(3600));
    let names: Vec<_> = log.snapshot(&id("s")).unwrap().state.items.into_iter().map(|item| item.id).collect();
    assert_eq!(names, ["i1", "i2", "i3", "i4"].map(ItemId::from));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_superseded_attempts_rows_disappear_from_messages_with_its_event() {
    let directory = tempfile::tempdir().unwrap();
    let log = open_with(directory.path(), Duration::from_secs(3600));
    let mut appender = talking(&log, "s").await;
    append(&mut appender, vec![delta("t1", "i1", "never mind")]).await;
    let mut connection = database(directory.path());
    eventually(|| row(&connection, "i1").is_some()).await;
    let body = Body::AttemptSuperseded { by: AttemptId::from("a2"), items: vec![ItemId::from("i1")] };
    let turn = Some(TurnId::from("t1"));
    append(&mut appender, vec![Draft { turn, attempt: Some(AttemptId::from("a1")), ..Draft::new(body) }])
        .await;
    assert!(log.snapshot(&id("s")).unwrap().state.items.is_empty());
    eventually(|| {
        let (has_event, has_row) = look(&mut connection, "attempt.superseded", "i1");
        assert_ne!(has_event, has_row);
        has_event
    })
    .await;
    drop(appender);
    log.close().await;
    let log = open_with(directory.path(), Duration::ZERO);
    assert!(log.snapshot(&id("s")).unwrap().state.items.is_empty());
    let rows: i64 = connection.query_row("SELECT count(*) FROM piece", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 1, "only the turn's row is left");
}
