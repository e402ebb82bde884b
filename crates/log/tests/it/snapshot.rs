//! Snapshots: the fold at the head, at any moment, whatever is stored.

use crate::support::*;
use std::path::Path;
use std::time::Duration;
use turnstream_log::{Committed, ItemsQuery, Log, Options};
use turnstream_model::cursor::Seq;
use turnstream_model::event::ItemState;
use turnstream_model::fold::{Applied, Fold, ItemStage, State};

fn fold(events: &[Committed]) -> State {
    Fold::of(events.iter().map(|event| event.event().unwrap()).collect::<Vec<_>>().iter()).into_state()
}

/// The number of rows of stored folds, as an operator sees them.
fn stored(directory: &Path, table: &str) -> i64 {
    let connection = rusqlite::Connection::open(directory.join("log.db")).unwrap();
    connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

fn with_debounce(debounce: Duration) -> Options {
    Options { debounce, ..options() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_and_the_events_after_it_are_the_whole_at_any_moment() {
    for debounce in [Duration::ZERO, Duration::from_millis(150), Duration::from_secs(3600)] {
        let directory = tempfile::tempdir().unwrap();
        let log = Log::open(directory.path(), &with_debounce(debounce)).unwrap().log;
        let mut appender = talking(&log, "s").await;
        let reader = tokio::spawn({
            let log = log.clone();
            async move {
                let mut taken = Vec::new();
                for _ in 0..60 {
                    taken.push(log.snapshot(&id("s")).unwrap().state);
                    tokio::time::sleep(Duration::from_millis(7)).await;
                }
                taken
            }
        });
        for number in 0..600 {
            let (turn, item) = (format!("t{}", 2 + number / 100), format!("i{}", 2 + number / 10));
            let mut drafts = Vec::new();
            if number == 0 {
                drafts.extend([item_ended("t1", "i1", ItemState::Completed), turn_ended("t1")]);
            }
            if number % 100 == 0 {
                drafts.push(turn_started(&turn));
            }
            if number % 10 == 0 {
                drafts.push(item_started(&turn, &item));
            }
            drafts.push(delta(&turn, &item, &format!("{number} ")));
            if number % 10 == 9 {
                drafts.push(item_ended(&turn, &item, ItemState::Completed));
            }
            if number % 100 == 99 {
                drafts.push(turn_ended(&turn));
            }
            append(&mut appender, drafts).await;
        }
        let taken = reader.await.unwrap();
        let all = log.read(&id("s"), Seq(0), usize::MAX).unwrap();
        let whole = fold(&all);
        assert!(taken.iter().any(|state| state.seq < whole.seq), "no snapshot was taken on the way");
        for state in taken {
            let seq = state.seq.0 as usize;
            assert_eq!(state, fold(&all[..seq]), "at {seq}");
            let mut continued = Fold::from(state);
            for event in &all[seq..] {
                assert_eq!(continued.apply(&event.event().unwrap()), Applied::Yes);
            }
            assert_eq!(continued.into_state(), whole);
        }
        drop(appender);
        log.close().await;
        let log = open(directory.path()).log;
        assert_eq!(log.snapshot(&id("s")).unwrap().state, whole, "after a restart");
    }
}

#[tokio::test]
async fn the_stored_fold_waits_for_its_debounce_and_for_nothing_at_the_end_of_a_turn() {
    let directory = tempfile::tempdir().unwrap();
    let log = Log::open(directory.path(), &with_debounce(Duration::from_secs(3600))).unwrap().log;
    let mut appender = talking(&log, "s").await;
    for number in 0..20 {
        append(&mut appender, vec![delta("t1", "i1", &number.to_string())]).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(stored(directory.path(), "fold"), 0, "nothing was written within the window");
    let item = &log.snapshot(&id("s")).unwrap().state.items[0];
    assert_eq!((item.state, item.text.as_deref().map(str::len)), (ItemStage::Streaming, Some(30)));
    append(&mut appender, vec![item_ended("t1", "i1", ItemState::Completed), turn_ended("t1")]).await;
    for _ in 0..30_000 {
        if stored(directory.path(), "fold") == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!((stored(directory.path(), "fold"), stored(directory.path(), "piece")), (1, 2));
    assert_eq!(log.refused_writes(), 0);
}

fn sql(directory: &Path, statements: &str) {
    rusqlite::Connection::open(directory.join("log.db")).unwrap().execute_batch(statements).unwrap();
}

#[tokio::test]
async fn what_was_not_stored_when_the_owner_went_away_is_stored_later() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let mut appender = talking(&log, "s").await;
    append(&mut appender, vec![delta("t1", "i1", "the reply"), item_started("t1", "i2")]).await;
    drop(appender);
    log.close().await;
    // As a kill within the debounce leaves it: events without a fold.
    sql(directory.path(), "DELETE FROM fold; DELETE FROM piece;");
    let log = Log::open(directory.path(), &with_debounce(Duration::ZERO)).unwrap().log;
    let mut appender = log.claim(&id("s")).await.unwrap();
    append(&mut appender, vec![item_ended("t1", "i2", ItemState::Completed), turn_ended("t1")]).await;
    drop(appender);
    log.close().await;
    let log = open(directory.path()).log;
    let all = log.read(&id("s"), Seq(0), usize::MAX).unwrap();
    assert_eq!(log.snapshot(&id("s")).unwrap().state, fold(&all));
    assert_eq!(stored(directory.path(), "piece"), 3, "one row for the turn and one for each item");
}

#[tokio::test]
async fn a_damaged_row_of_a_fold_costs_nothing_but_time() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let mut appender = talking(&log, "s").await;
    append(&mut appender, vec![delta("t1", "i1", "hello"), item_ended("t1", "i1", ItemState::Completed)])
        .await;
    append(&mut appender, vec![turn_ended("t1")]).await;
    drop(appender);
    log.close().await;
    sql(directory.path(), "UPDATE piece SET body = '{';");
    let log = open(directory.path()).log;
    let all = log.read(&id("s"), Seq(0), usize::MAX).unwrap();
    assert_eq!(log.snapshot(&id("s")).unwrap().state, fold(&all));
    let page = log.items_page(&id("s"), &ItemsQuery { before: None, limit: 50 }).unwrap();
    assert_eq!((page.items, page.turns), (fold(&all).items, fold(&all).turns));
}
