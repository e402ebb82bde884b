//! The lines that a log writes: what was found on opening, what was removed, and errors with their causes.

use crate::crash::{child, newest_segment};
use crate::support::*;
use std::error::Error;
use std::time::Duration;
use turnstream_log::{Keep, RemoveError};
use turnstream_model::Chain;
use turnstream_testkit::crash::KillPoint;
use turnstream_testkit::diagnostics::{Capture, Level, Line, capture};

fn messages(lines: &[Line]) -> Vec<&str> {
    lines.iter().map(|line| line.message.as_str()).collect()
}

#[test]
fn a_torn_commit_is_logged_with_its_file_when_the_log_is_opened() {
    let directory = tempfile::tempdir().unwrap();
    child(directory.path()).run(&KillPoint::failpoint("log.after_sync", 6)).unwrap();
    let segment = newest_segment(directory.path());
    let mut bytes = std::fs::read(&segment).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[last] ^= 1;
    std::fs::write(&segment, &bytes).unwrap();
    let (opened, lines) = capture(|| open(directory.path()));
    let torn = lines.iter().find(|line| line.message.starts_with("dropped an incomplete")).unwrap();
    assert_eq!(torn.level, Level::WARN);
    assert_eq!(torn.field("path"), Some(segment.to_str().unwrap()));
    assert_eq!(torn.field("byte"), Some(opened.torn.clone().unwrap().1.to_string().as_str()));
    let line = lines.iter().find(|line| line.message == "log opened").unwrap();
    assert_eq!((line.level, line.field("path")), (Level::INFO, directory.path().to_str()));
    assert_eq!(line.field("recovered"), Some(opened.recovered.to_string().as_str()));
    assert!(opened.recovered > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_log_says_when_it_opens_and_closes_and_nothing_of_its_events() {
    let directory = tempfile::tempdir().unwrap();
    let capture = Capture::start();
    let log = open(directory.path()).log;
    let mut appender = talking(&log, "s").await;
    for _ in 0..200 {
        append(&mut appender, vec![delta("t1", "i1", "a word that no line may have")]).await;
    }
    append(&mut appender, vec![turn_ended("t1")]).await;
    log.flush().await;
    drop(appender);
    log.close().await;
    let lines = capture.at_least(Level::INFO);
    assert_eq!(messages(&lines), ["log opened", "log closed"]);
    assert!(!capture.text().contains("a word that no line may have"), "{}", capture.text());
    let lines = capture.at_least(Level::DEBUG);
    assert!(lines.len() < 50, "no line per event, not even at debug:\n{}", capture.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_is_logged_with_what_it_removed() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let mut appender = log.create(&id("s")).await.unwrap();
    append(&mut appender, vec![created("s")]).await;
    for number in 0..3 {
        say(&mut appender, number, "some words").await;
    }
    log.flush().await;
    let capture = Capture::start();
    let trimmed = log.trim(&id("s"), &Keep { turns: Some(1), ..Keep::default() }).await.unwrap();
    log.delete(&id("s")).await.unwrap();
    let lines = capture.at_least(Level::INFO);
    assert_eq!(messages(&lines), ["session trimmed"], "the caller logs what it deletes");
    assert!(capture.text().contains("the session is deleted from the log"), "{}", capture.text());
    assert_eq!((lines[0].field("session"), lines[0].field("turns")), (Some("s"), Some("2")));
    assert_eq!(lines[0].field("bytes"), Some(trimmed.bytes.to_string().as_str()));
    drop(appender);
    log.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trim_that_fails_keeps_the_error_of_the_database() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let mut appender = log.create(&id("s")).await.unwrap();
    append(&mut appender, vec![created("s")]).await;
    for number in 0..3 {
        say(&mut appender, number, "some words").await;
    }
    log.flush().await;
    let capture = Capture::start();
    let connection = rusqlite::Connection::open(directory.path().join("log.db")).unwrap();
    connection.busy_timeout(Duration::from_secs(300)).unwrap();
    connection.execute_batch("DROP TABLE entry;").unwrap();
    drop(connection);
    let error = log.trim(&id("s"), &Keep { turns: Some(1), ..Keep::default() }).await.unwrap_err();
    let RemoveError::Store(fault) = &error else { panic!("{error}") };
    assert!(fault.get_ref().downcast_ref::<rusqlite::Error>().is_some(), "{fault:?}");
    assert!(error.source().is_some());
    assert!(Chain(&error).to_string().contains("no such table"), "{}", Chain(&error));
    let line = capture.until(|line| line.level == Level::ERROR).await;
    assert!(line.message.starts_with("the store failed permanently"), "{line}");
    assert!(line.field("error").unwrap().contains("no such table"), "{line}");
    drop(appender);
    tokio::time::timeout(Duration::from_secs(300), log.close()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_fold_is_logged_once_and_the_session_is_still_read() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let mut appender = log.create(&id("s")).await.unwrap();
    append(&mut appender, vec![created("s")]).await;
    say(&mut appender, 1, "some words").await;
    drop(appender);
    log.flush().await;
    let whole = log.snapshot(&id("s")).unwrap().state;
    log.close().await;
    let connection = rusqlite::Connection::open(directory.path().join("log.db")).unwrap();
    connection.execute_batch("UPDATE piece SET body = '\"some words\"';").unwrap();
    drop(connection);
    let log = open(directory.path()).log;
    let capture = Capture::start();
    for _ in 0..3 {
        assert_eq!(log.snapshot(&id("s")).unwrap().state, whole);
    }
    let lines = capture.at_least(Level::WARN);
    assert_eq!(lines.len(), 1, "{}", capture.text());
    assert!(lines[0].message.starts_with("a stored fold is damaged"), "{}", lines[0]);
    assert_eq!((lines[0].level, lines[0].field("session")), (Level::WARN, Some("s")));
    assert!(!capture.text().contains("some words"), "a line quotes the conversation: {}", lines[0]);
    log.close().await;
}
