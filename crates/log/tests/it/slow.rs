//! Readers far behind: they get everything, and need almost no memory.

use crate::support::*;
use std::time::Duration;
use turnstream_log::{Appender, Follower};
use turnstream_model::cursor::{Cursor, Seq};

const BACKLOG: u64 = 100_000;
const READERS: usize = 40;

/// Resident memory of this process in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn talk(appender: &mut Appender) {
    for _ in 0..200 {
        append(appender, (0..10).map(|_| delta("t1", "i1", "live")).collect()).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Reads one batch now and then, until the others have stopped. At this pace the backlog alone takes minutes.
async fn dawdle(mut follower: Follower, done: tokio::sync::watch::Receiver<bool>) -> (Follower, u64) {
    let mut seen = 0;
    while !*done.borrow() {
        let batch = events(&mut follower, seen + 1).await;
        assert_eq!(batch[0].seq().0, seen + 1);
        seen = batch.last().unwrap().seq().0;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    (follower, seen)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_behind_a_large_backlog_get_all_of_it_in_bounded_memory() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let mut appender = talking(&log, "s").await;
    let text = "x".repeat(200);
    let mut next = 4;
    while next <= BACKLOG {
        next = append(&mut appender, (0..500).map(|_| delta("t1", "i1", &text)).collect()).await + 1;
    }
    drop(appender);
    log.close().await;

    let log = open(directory.path()).log;
    let mut appender = log.claim(&id("s")).await.unwrap();
    // The memory of the writer itself, mostly the session's fold, is not counted. The flusher loads the fold
    // with its first flush, which may come late on a busy machine.
    talk(&mut appender).await;
    while log.figures().under_way > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let before = resident();
    let (stop, done) = tokio::sync::watch::channel(false);
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let follower = log.follow(&id("s"), &Cursor { generation: None, seq: Seq(0) }).unwrap();
        readers.push(tokio::spawn(dawdle(follower, done.clone())));
    }
    talk(&mut appender).await;
    let grown = resident().saturating_sub(before);
    stop.send(true).unwrap();
    let head = appender.head().0;
    let mut slowest = (u64::MAX, None);
    for reader in readers {
        let (follower, seen) = reader.await.unwrap();
        assert!(seen < BACKLOG, "it was not slow");
        if seen < slowest.0 {
            slowest = (seen, Some(follower));
        }
    }
    let (seen, mut follower) = (slowest.0, slowest.1.unwrap());
    assert_eq!(seqs(&events(&mut follower, head).await), (seen + 1..=head).collect::<Vec<u64>>());
    // One batch of 64 KiB per reader, plus overhead of the allocator. The backlog is 30 MB.
    assert!(grown < READERS as u64 * 512, "memory grew by {grown} KiB for {READERS} slow readers");
}
