//! How many bytes the log reads from disk to answer, as counted by the kernel. Each test has its own process.

use crate::crash::rounds;
use crate::support::*;
use std::path::Path;
use turnstream_log::Log;
use turnstream_model::cursor::{Cursor, Seq};

const EVENTS: u64 = 40_000;
const TEXT: usize = 500;

/// Bytes that this process has read so far, from any file.
fn bytes_read() -> u64 {
    let counters = std::fs::read_to_string("/proc/self/io").unwrap();
    counters.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

/// A log that was just opened, with one long session.
async fn long(directory: &Path) -> Log {
    let log = open(directory).log;
    let mut appender = talking(&log, "s").await;
    let text = "x".repeat(TEXT);
    let mut last = 3;
    while last < EVENTS {
        last = append(&mut appender, (0..500).map(|_| delta("t1", "i1", &text)).collect()).await;
    }
    drop(appender);
    log.close().await;
    open(directory).log
}

#[tokio::test]
async fn a_short_read_of_a_long_session_reads_only_a_piece_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let log = long(directory.path()).await;
    for after in [0, EVENTS / 2, EVENTS - 100] {
        let before = bytes_read();
        let events = log.read(&id("s"), Seq(after), 50).unwrap();
        let read = bytes_read() - before;
        assert_eq!(seqs(&events), (after + 1..=after + 50).collect::<Vec<u64>>());
        assert!(read < 1 << 20, "{read} bytes were read for 50 events after {after}");
    }
    let before = bytes_read();
    log.read(&id("s"), Seq(0), usize::MAX).unwrap();
    let read = bytes_read() - before;
    assert!(read > EVENTS * TEXT as u64, "the whole is {read} bytes, so pieces were seen");
}

#[tokio::test]
async fn a_follower_far_behind_reads_a_batch_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let log = long(directory.path()).await;
    let cursor = Cursor { generation: None, seq: Seq(EVENTS / 2) };
    let mut follower = log.follow(&id("s"), &cursor).unwrap();
    let mut next = EVENTS / 2 + 1;
    for _ in 0..5 {
        let before = bytes_read();
        let batch = events(&mut follower, next).await;
        let read = bytes_read() - before;
        assert_eq!(batch[0].seq(), Seq(next));
        assert!(read < 1 << 20, "{read} bytes were read for {} events", batch.len());
        next = batch.last().unwrap().seq().0 + 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_event_that_was_read_is_never_beyond_the_head_for_whoever_follows_it() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let mut appender = talking(&log, "s").await;
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut readers = Vec::new();
    for _ in 0..4 {
        let (log, stop) = (log.clone(), stop.clone());
        readers.push(std::thread::spawn(move || {
            let (mut resets, mut looks) = (0, 0);
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let (_, head) = log.head(&id("s")).unwrap();
                // The newest event, one before the head that was just read.
                let after = turnstream_model::cursor::Seq(head.0.saturating_sub(1));
                let Some(newest) = log.read(&id("s"), after, 10).unwrap().last().map(|event| event.seq())
                else {
                    continue;
                };
                let cursor = turnstream_model::cursor::Cursor { generation: None, seq: newest };
                let follower = log.follow(&id("s"), &cursor).unwrap();
                let outcome = tokio::runtime::Builder::new_current_thread()
                    .build()
                    .unwrap()
                    .block_on(async move { { follower }.next().await });
                resets += u32::from(format!("{outcome:?}").contains("Reset"));
                looks += 1;
            }
            (resets, looks)
        }));
    }
    let began = std::time::Instant::now();
    while began.elapsed() < std::time::Duration::from_secs(rounds(3, 10).into()) {
        append(&mut appender, vec![delta("t1", "i1", "a")]).await;
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let (mut resets, mut looks) = (0, 0);
    for reader in readers {
        let (more, seen) = reader.join().unwrap();
        resets += more;
        looks += seen;
    }
    assert_eq!(resets, 0, "of {looks}");
}
