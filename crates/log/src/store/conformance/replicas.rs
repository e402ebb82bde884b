//! What holds for a store that several logs share.

use super::support::*;
use super::*;
use crate::{AppendError, ClaimError};
use turnstream_model::cursor::{Cursor, Seq};

fn from_start() -> Cursor {
    Cursor { generation: None, seq: Seq(0) }
}

pub(super) async fn a_session_has_one_owner_among_all_replicas(place: &dyn Place) {
    let (one, other) = (log_on(place), log_on(place));
    let appender = talking(&one, "s").await;
    assert!(matches!(other.claim(&id("s")).await, Err(ClaimError::Held(_))));
    assert!(matches!(other.create(&id("s")).await, Err(ClaimError::Exists(_))));
    drop(appender);
    let claimed = other.claim(&id("s")).await.unwrap();
    assert_eq!((claimed.epoch(), claimed.head()), (2, Seq(3)));
    assert!(matches!(one.claim(&id("s")).await, Err(ClaimError::Held(_))));
}

pub(super) async fn a_replica_that_was_taken_over_is_refused(place: &dyn Place) {
    let (one, other) = (log_on(place), log_on(place));
    let mut old = talking(&one, "s").await;
    let mut bystander = talking(&one, "b").await;
    let mut new = other.take_over(&id("s")).await.unwrap();
    let refused = old.append(vec![delta("t1", "i1", "old")], NOW).await.unwrap().await;
    assert_eq!(refused, Err(AppendError::Fenced { session: "s".into(), ours: 1, current: 2 }));
    assert_eq!(append(&mut bystander, vec![delta("t1", "i1", "b")]).await, 4);
    assert_eq!(append(&mut new, vec![delta("t1", "i1", "new")]).await, 4);
    until(|| one.head(&id("s")).unwrap().1 == Seq(4)).await;
    let kept = one.read(&id("s"), Seq(3), 10).unwrap();
    assert_eq!(kept, other.read(&id("s"), Seq(3), 10).unwrap());
    assert!(lines(&kept)[0].contains("\"new\""));
}

pub(super) async fn a_replica_goes_on_where_the_other_stopped(place: &dyn Place) {
    let (one, other) = (log_on(place), log_on(place));
    drop(talking(&one, "s").await);
    let mut follower = one.follow(&id("s"), &from_start()).unwrap();
    let (mut last, mut seen) = (3, Vec::new());
    for round in 0..10 {
        for log in [&other, &one] {
            let mut appender = log.claim(&id("s")).await.unwrap();
            assert_eq!(appender.head(), Seq(last));
            for _ in 0..=round {
                last = append(&mut appender, vec![delta("t1", "i1", "x")]).await;
            }
        }
        // While the event is in the memory of the log that wrote last.
        seen.extend(events(&mut follower, last).await);
        let snapshot = |log: &Log| log.snapshot(&id("s")).unwrap().state;
        until(|| other.head(&id("s")).unwrap().1 == Seq(last)).await;
        assert_eq!(snapshot(&one), snapshot(&other));
    }
    assert_eq!(seqs(&seen), (1..=last).collect::<Vec<u64>>());
}

pub(super) async fn a_follower_sees_what_another_replica_commits(place: &dyn Place) {
    let (one, other) = (log_on(place), log_on(place));
    let mut appender = talking(&one, "s").await;
    let mut follower = other.follow(&id("s"), &from_start()).unwrap();
    let writing = tokio::spawn(async move {
        for number in 0..500 {
            append(&mut appender, vec![delta("t1", "i1", &format!("{number} "))]).await;
        }
        appender
    });
    let seen = tokio::time::timeout(Duration::from_secs(30), events(&mut follower, 503)).await.unwrap();
    assert_eq!(seqs(&seen), (1..=503).collect::<Vec<u64>>());
    drop(writing.await.unwrap());
    assert_eq!(seen, one.read(&id("s"), Seq(0), usize::MAX).unwrap());
}

pub(super) async fn only_turns_of_a_replica_that_is_gone_are_abandoned(place: &dyn Place) {
    let (one, other) = (log_on(place), log_on(place));
    let _living = talking(&one, "living").await;
    let dying = talking(&other, "dying").await;
    assert!(abandoned(&log_on(place)).is_empty(), "both have an owner");
    let turn = Abandoned { session: id("dying"), turn: "t1".into(), epoch: 1 };
    other.close().await;
    assert_eq!(abandoned(&log_on(place)), [turn]);
    drop(dying);
}

/// L4: a client may come to another replica with its cursor, or with a snapshot that it has just read there.
/// It is not reset because that replica has not learned of the commit yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_of_one_replica_is_not_reset_by_another_that_has_not_heard_of_it() {
    let place = InMemory::default();
    let (one, other) = (log_on(&place), log_on(&place));
    let mut appender = talking(&one, "s").await;
    let start = turnstream_model::cursor::Cursor::default();
    let _used_there = other.follow(&id("s"), &start).unwrap();
    let (mut cursors, mut snapshots) = (0, 0);
    for _ in 0..30 {
        let seq = append(&mut appender, vec![delta("t1", "i1", "a")]).await;
        let cursor = turnstream_model::cursor::Cursor { generation: None, seq: Seq(seq) };
        let mut follower = other.follow(&id("s"), &cursor).unwrap();
        let outcome = follower.next().await.unwrap();
        cursors += u32::from(format!("{outcome:?}").contains("Reset"));
        let seq = other.snapshot(&id("s")).unwrap().state.seq;
        let cursor = turnstream_model::cursor::Cursor { generation: None, seq };
        let mut follower = other.follow(&id("s"), &cursor).unwrap();
        let outcome = follower.next().await.unwrap();
        snapshots += u32::from(format!("{outcome:?}").contains("Reset"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!((cursors, snapshots), (0, 0), "resets of cursors, and of snapshots of that replica itself");
}
