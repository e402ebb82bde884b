//! Opening: one owner, and damage that is reported and left alone.

use crate::support::*;
use std::path::Path;
use turnstream_log::{Log, OpenError};
use turnstream_model::cursor::Seq;

fn refused(path: &Path) -> OpenError {
    match Log::open(path, &options()) {
        Ok(_) => panic!("it was opened"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_directory_has_one_owner() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let error = refused(directory.path());
    assert!(matches!(error, OpenError::InUse(_)));
    assert!(error.to_string().contains("in use by another turnstream"), "{error}");
    log.close().await;
    drop(open(directory.path()));
}

#[tokio::test]
async fn a_damaged_database_is_named_and_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    talking(&log, "s").await;
    log.close().await;
    let database = directory.path().join("log.db");
    let rubbish = b"this is not a database, whatever its name says".repeat(100);
    std::fs::write(&database, &rubbish).unwrap();
    let error = refused(directory.path());
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error:?}");
    assert!(error.to_string().contains("log.db is not a valid turnstream log"), "{error}");
    assert_eq!(std::fs::read(&database).unwrap(), rubbish);
}

#[tokio::test]
async fn another_programs_or_a_newer_database_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("log.db");
    let connection = rusqlite::Connection::open(&database).unwrap();
    connection.execute_batch("CREATE TABLE other (x); PRAGMA application_id = 7;").unwrap();
    assert!(refused(directory.path()).to_string().contains("of another program"));
    drop(connection);
    std::fs::remove_file(&database).unwrap();
    open(directory.path()).log.close().await;
    let connection = rusqlite::Connection::open(&database).unwrap();
    connection.execute_batch("PRAGMA user_version = 99;").unwrap();
    assert!(refused(directory.path()).to_string().contains("has format 99"));
}

#[tokio::test]
async fn turns_that_nobody_owns_are_found_until_they_end() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    talking(&log, "open").await;
    let mut done = talking(&log, "done").await;
    append(&mut done, vec![turn_ended("t1")]).await;
    drop(done);
    log.close().await;
    for _ in 0..2 {
        let opened = open(directory.path());
        let found: Vec<_> =
            opened.abandoned.iter().map(|turn| (turn.session.as_str(), turn.turn.as_str())).collect();
        assert_eq!(found, [("open", "t1")]);
        opened.log.close().await;
    }
    let opened = open(directory.path());
    let mut appender = opened.log.claim(&id("open")).await.unwrap();
    append(&mut appender, vec![turn_ended("t1")]).await;
    drop(appender);
    opened.log.close().await;
    assert!(open(directory.path()).abandoned.is_empty());
}

#[tokio::test]
async fn an_operator_can_read_it_with_plain_sql() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let mut appender = talking(&log, "s").await;
    append(&mut appender, vec![delta("t1", "i1", "hello")]).await;
    drop(appender);
    log.close().await;
    let connection = rusqlite::Connection::open(directory.path().join("log.db")).unwrap();
    let text: String = connection
        .query_row(
            "SELECT group_concat(data, char(10)) FROM chunk JOIN session ON session.key = chunk.session WHERE id = 's'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert!(text.lines().last().unwrap().contains("\"text\":\"hello\""), "{text}");
}

#[tokio::test]
async fn a_database_that_breaks_while_it_is_used_leaves_nobody_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let mut appender = talking(&log, "s").await;
    // Somebody drops a table.
    let connection = rusqlite::Connection::open(directory.path().join("log.db")).unwrap();
    connection.busy_timeout(std::time::Duration::from_secs(300)).unwrap();
    connection.execute_batch("DROP TABLE chunk;").unwrap();
    drop(connection);
    let waits = std::time::Duration::from_secs(300);
    let ended = tokio::time::timeout(waits, async {
        let mut last = 3;
        loop {
            let done = match appender.append(vec![delta("t1", "i1", "x")], NOW).await {
                Ok(receipt) => receipt.await.map(|seq| last = seq.0).is_err(),
                Err(_) => true,
            };
            if done && log.create(&id("other")).await.is_err() {
                return last;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    });
    let last = ended.await.expect("appends and claims are answered");
    drop(appender);
    let kept = log.read(&id("s"), Seq(0), usize::MAX).unwrap();
    assert_eq!(seqs(&kept), (1..=last).collect::<Vec<u64>>(), "what was acknowledged is still read");
    tokio::time::timeout(waits, log.close()).await.expect("it closes");
}
