//! Following: the outcome first, then every event once, in order, without a gap.

use crate::support::*;
use std::time::Duration;
use turnstream_log::Follow;
use turnstream_model::cursor::{Cursor, CursorOutcome, Seq};

fn after(seq: u64) -> Cursor {
    Cursor { generation: None, seq: Seq(seq) }
}

#[tokio::test]
async fn the_first_step_says_what_became_of_the_cursor() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let appender = talking(&log, "s").await;
    let generation = appender.generation().clone();
    for (cursor, outcome, next) in [
        ("0".to_owned(), "replayed", 1),
        ("2".to_owned(), "replayed", 3),
        (format!("{}:1", generation.as_str()), "replayed", 2),
        ("9".to_owned(), "reset", 1),
        ("gother:2".to_owned(), "reset", 1),
    ] {
        let mut follower = log.follow(&id("s"), &cursor.parse().unwrap()).unwrap();
        let Follow::Outcome(first) = follower.next().await.unwrap() else {
            panic!("events before the outcome")
        };
        assert!(first.to_json().contains(outcome), "{cursor}: {}", first.to_json());
        assert_eq!(seqs(&events(&mut follower, 3).await), (next..=3).collect::<Vec<u64>>(), "{cursor}");
    }
    let mut caught_up = log.follow(&id("s"), &after(3)).unwrap();
    let outcome = caught_up.next().await.unwrap();
    assert_eq!(outcome, Follow::Outcome(CursorOutcome::CaughtUp { generation, head: Seq(3) }));
    let waits = tokio::time::timeout(Duration::from_millis(50), caught_up.next()).await;
    assert!(waits.is_err(), "nothing came, so nothing is handed out");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replay_joins_live_without_gap_or_repeat_from_every_start() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let mut appender = talking(&log, "s").await;
    let total = 3_000;
    let mut followers = Vec::new();
    for start in 0..12 {
        let log = log.clone();
        followers.push(tokio::spawn(async move {
            // Followers start at all times: before, during and after the flush of events.
            tokio::time::sleep(Duration::from_millis(start * 20)).await;
            let (_, head) = log.head(&id("s")).unwrap();
            let from = head.0 * start / 12;
            let mut follower = log.follow(&id("s"), &after(from)).unwrap();
            let got = events(&mut follower, total).await;
            assert_eq!(seqs(&got), (from + 1..=total).collect::<Vec<u64>>(), "from {from}");
        }));
    }
    for number in 4..=total {
        drop(appender.append(vec![delta("t1", "i1", &format!("{number} "))], NOW).await.unwrap());
        if number % 50 == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    for follower in followers {
        tokio::time::timeout(Duration::from_secs(300), follower).await.expect("everyone arrives").unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_follower_misses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let mut appender = talking(&log, "s").await;
    let mut slow = log.follow(&id("s"), &after(0)).unwrap();
    let text = "x".repeat(1_000);
    for _ in 0..5 {
        // Far more than is kept in memory between two reads.
        for _ in 0..400 {
            drop(appender.append(vec![delta("t1", "i1", &text)], NOW).await.unwrap());
        }
        append(&mut appender, vec![delta("t1", "i1", "end")]).await;
        slow.next().await.unwrap();
    }
    let (_, head) = log.head(&id("s")).unwrap();
    let mut fresh = log.follow(&id("s"), &after(0)).unwrap();
    let mut from_start = events(&mut fresh, head.0).await;
    let rest = events(&mut slow, head.0).await;
    assert_eq!(from_start.split_off(from_start.len() - rest.len()), rest);
    assert_eq!(rest.last().unwrap().seq(), head);
}

#[tokio::test]
async fn reading_takes_a_place_and_a_limit() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let mut appender = talking(&log, "s").await;
    for number in 0..50 {
        append(&mut appender, vec![delta("t1", "i1", &number.to_string())]).await;
    }
    assert_eq!(seqs(&log.read(&id("s"), Seq(10), 5).unwrap()), [11, 12, 13, 14, 15]);
    assert_eq!(seqs(&log.read(&id("s"), Seq(51), 10).unwrap()), [52, 53]);
    assert!(log.read(&id("s"), Seq(53), 10).unwrap().is_empty());
    assert!(log.read(&id("s"), Seq(99), 10).unwrap().is_empty());
    assert!(log.read(&id("s"), Seq(0), 0).unwrap().is_empty());
}

#[tokio::test]
async fn a_follower_ends_with_all_there_is_when_the_log_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let mut appender = talking(&log, "s").await;
    let mut waiting = log.follow(&id("s"), &after(3)).unwrap();
    waiting.next().await.unwrap();
    let mut behind = log.follow(&id("s"), &after(0)).unwrap();
    let ended = tokio::spawn(async move {
        let mut steps = vec![waiting.next().await.unwrap()];
        while steps.last() != Some(&Follow::Closed) {
            steps.push(waiting.next().await.unwrap());
        }
        steps
    });
    drop(appender.append(vec![delta("t1", "i1", "the last")], NOW).await.unwrap());
    log.clone().close().await;
    let steps = tokio::time::timeout(Duration::from_secs(300), ended).await.expect("it ends").unwrap();
    let [Follow::Events(last), Follow::Closed] = steps.as_slice() else { panic!("{steps:?}") };
    assert_eq!(seqs(last), [4]);
    assert_eq!(seqs(&events(&mut behind, 4).await), [1, 2, 3, 4]);
    assert_eq!(behind.next().await.unwrap(), Follow::Closed);
    assert_eq!(behind.next().await.unwrap(), Follow::Closed, "and stays so");
    let mut late = log.follow(&id("s"), &after(4)).unwrap();
    late.next().await.unwrap();
    assert_eq!(late.next().await.unwrap(), Follow::Closed, "also for one that comes later");
}
