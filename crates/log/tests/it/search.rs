//! Search on a real directory: after kills, after an upgrade, and while the index is filled. The general
//! rules are tested in `store/conformance`.

use crate::support::*;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::time::Duration;
use turnstream_log::{Log, Options, Query, SearchError, Subject, Waiting};
use turnstream_model::event::{Body, Draft, ItemState};
use turnstream_model::id::{ItemId, PromptId};
use turnstream_testkit::crash::{KillPoint, Program, Seen, role};

const DIRECTORY: &str = "TURNSTREAM_LOG_TEST_SEARCHED";

/// The child of the test below. It prints every word once it is durable.
#[test]
fn saying_child() {
    if role().as_deref() != Some("say") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let log = open(&PathBuf::from(std::env::var(DIRECTORY).unwrap())).log;
        let mut appender = if log.sessions().unwrap().is_empty() {
            let mut appender = log.create(&id("s")).await.unwrap();
            append(&mut appender, vec![created("s")]).await;
            appender
        } else {
            log.claim(&id("s")).await.unwrap()
        };
        let (epoch, turn) = (appender.epoch(), format!("t{}", appender.epoch()));
        append(&mut appender, vec![turn_started(&turn)]).await;
        for number in 0..100_000 {
            let name = |what: &str| format!("{what}{epoch}x{number}");
            let whole = item_ended(&turn, &name("whole"), ItemState::Completed);
            append(&mut appender, vec![item_started(&turn, &name("whole"))]).await;
            // An item may begin in one transaction and end in another, or in a segment that was never
            // flushed.
            append(&mut appender, vec![delta(&turn, &name("whole"), &name("whole")), whole]).await;
            println!("WHOLE {}", name("whole"));
            let partial = delta(&turn, &name("partial"), &name("partial"));
            append(&mut appender, vec![item_started(&turn, &name("partial")), partial]).await;
            if number % 3 == 0 {
                let ended = item_ended(&turn, &name("gone"), ItemState::Completed);
                let text = delta(&turn, &name("gone"), &name("gone"));
                append(&mut appender, vec![item_started(&turn, &name("gone")), text, ended]).await;
                let item = Some(ItemId::from(name("gone").as_str()));
                append(&mut appender, vec![Draft { item, ..Draft::new(Body::ItemRemoved) }]).await;
                println!("GONE {}", name("gone"));
            }
        }
    });
}

fn child(directory: &Path) -> Program {
    Program::this_test("search::saying_child", "say").unwrap().env(DIRECTORY, directory)
}

fn said(seen: &Seen, what: &str) -> Vec<String> {
    // A line that the kill cut off has no complete word.
    seen.lines(what).into_iter().filter(|word| word.contains('x') && !word.ends_with('x')).collect()
}

fn query(words: &str) -> Query {
    Query { words: words.to_owned(), ..Query::default() }
}

/// Every item that these words find, page after page.
fn all(log: &Log, words: &str) -> Vec<String> {
    let mut asked = Query { limit: Some(100), ..query(words) };
    let mut all = Vec::new();
    loop {
        let page = log.search(&asked).unwrap();
        assert!(!page.is_indexing, "it was settled");
        all.extend(page.hits.into_iter().map(|hit| match hit.subject {
            Subject::Item(item) => item.to_string(),
            Subject::Prompt(prompt) => prompt.to_string(),
        }));
        let Some(next) = page.next else { return all };
        asked.cursor = Some(next);
    }
}

fn sound_index(directory: &Path) {
    let database = Connection::open(directory.join("log.db")).unwrap();
    database.execute_batch("INSERT INTO entry_word (entry_word) VALUES ('integrity-check')").unwrap();
    let (entries, lines): (i64, i64) = database
        .query_row(
            "SELECT (SELECT count(*) FROM entry), (SELECT count(*) FROM entry_word WHERE entry_word MATCH '_kmessage')",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    assert_eq!(entries, lines, "a row for each line");
}

#[test]
fn after_a_kill_at_any_step_everything_whole_is_found_and_nothing_else() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (point, nth) in [
        ("log.after_sync", 300),
        ("log.published", 300),
        ("log.settle", 2),
        ("log.settle.chunks", 3),
        ("log.settle.index", 2),
        ("log.before_settle", 3),
        ("log.transacted", 4),
        ("log.settled", 2),
        ("log.open.recovered", 1),
        ("log.backfill", 1),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let mut whole = Vec::new();
        for kill in
            [KillPoint::line("WHOLE ", 40), KillPoint::failpoint(point, nth), KillPoint::line("GONE ", 5)]
        {
            if point == "log.backfill" {
                make_old(directory.path());
            }
            let seen = child(directory.path()).run(&kill).unwrap();
            whole.extend(said(&seen, "WHOLE "));
            let log = open(directory.path()).log;
            runtime.block_on(log.flush());
            let mut found = all(&log, "whole*");
            for word in &whole {
                assert!(found.contains(word), "{point}: {word} is not found");
            }
            let count = found.len();
            found.sort();
            found.dedup();
            assert_eq!(found.len(), count, "{point}: once each");
            assert_eq!(all(&log, "partial*"), [""; 0], "{point}");
            let gone = said(&seen, "GONE ");
            assert!(!all(&log, "gone*").iter().any(|word| gone.contains(word)), "{point}");
            runtime.block_on(log.close());
            sound_index(directory.path());
        }
        assert!(whole.len() > 40, "{point}: {} were said", whole.len());
    }
}

/// Turns the database into one of the format without an index.
fn make_old(directory: &Path) {
    let path = directory.join("log.db");
    if path.exists() {
        let database = Connection::open(path).unwrap();
        database
            .execute_batch(
                "DROP TABLE entry_word; DROP TABLE entry; DROP TABLE entry_hour;
                 DROP TABLE base; DROP TABLE tombstone;
                 DELETE FROM meta WHERE name IN ('words', 'index', 'unindexed'); PRAGMA user_version = 1;",
            )
            .unwrap();
    }
}

/// Appends this many numbered messages to one session.
async fn talk(log: &Log, name: &str, count: u64) {
    let mut appender = log.create(&id(name)).await.unwrap();
    append(&mut appender, vec![created(name), turn_started("t1")]).await;
    for number in 0..count {
        let item = format!("{name}{number}");
        let ended = item_ended("t1", &item, ItemState::Completed);
        let text = delta("t1", &item, &format!("word {}", "filler ".repeat(20)));
        append(&mut appender, vec![item_started("t1", &item), text, ended]).await;
    }
    append(&mut appender, vec![item_started("t1", "open"), delta("t1", "open", "word")]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_of_the_earlier_format_opens_and_becomes_searchable_in_the_old_order() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    talk(&log, "old", 3_000).await;
    let mut waiting = log.create(&id("waiting")).await.unwrap();
    let content = vec![serde_json::json!({"type": "text", "text": "a question that waits"})];
    let prompt = Body::PromptAccepted { prompt: PromptId::from("p1"), key: None, content };
    append(&mut waiting, vec![created("waiting"), Draft::new(prompt)]).await;
    drop(waiting);
    log.close().await;
    make_old(directory.path());
    let log = open(directory.path()).log;
    assert!(log.search(&query("word")).unwrap().is_indexing, "it says that there may be more");
    talk(&log, "new", 5).await;
    log.flush().await;
    let expected = (0..5).rev().map(|number| format!("new{number}"));
    let expected: Vec<String> =
        expected.chain((0..3_000).rev().map(|number| format!("old{number}"))).collect();
    assert_eq!(all(&log, "word"), expected);
    assert_eq!(all(&log, "\"that waits\""), ["p1"]);
    let scripted = Query { agent: Some("scripted".into()), session: Some(id("old")), ..query("word") };
    assert_eq!(log.search(&scripted).unwrap().hits.len(), 20);
    log.close().await;
    sound_index(directory.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_whose_words_were_cut_differently_is_made_anew_and_its_cursors_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    talk(&log, "s", 40).await;
    log.flush().await;
    let page = log.search(&query("word")).unwrap();
    let cursor = page.next.clone();
    log.close().await;
    // The same index accepts the old cursors.
    let log = open(directory.path()).log;
    let rest = log.search(&Query { cursor: cursor.clone(), ..query("word") }).unwrap();
    assert_eq!((page.hits.len(), rest.hits.len(), rest.next), (20, 20, None));
    log.close().await;
    let database = Connection::open(directory.path().join("log.db")).unwrap();
    database.execute("UPDATE meta SET value = '0' WHERE name = 'words'", []).unwrap();
    drop(database);
    let log = open(directory.path()).log;
    log.flush().await;
    assert_eq!(all(&log, "word").len(), 40);
    let refused = log.search(&Query { cursor, ..query("word") }).unwrap_err();
    assert!(matches!(refused, SearchError::Cursor(_)), "{refused}");
    assert!(refused.to_string().contains("search again without one"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_finished_is_found_beside_a_long_item_whose_fold_is_not_due() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { debounce: Duration::from_secs(3600), ..options() };
    let log = Log::open(directory.path(), &options).unwrap().log;
    let mut appender = talking(&log, "s").await;
    append(&mut appender, vec![delta("t1", "i1", &"long ".repeat(50_000)), item_started("t1", "i2")]).await;
    log.flush().await;
    let ended = item_ended("t1", "i2", ItemState::Completed);
    append(&mut appender, vec![delta("t1", "i2", "short"), ended]).await;
    log.flush().await;
    assert_eq!((all(&log, "short"), all(&log, "long")), (vec!["i2".to_owned()], vec![]));
    // The stored fold lags, and can still be continued.
    let snapshot = log.snapshot(&id("s")).unwrap().state;
    assert_eq!(snapshot.items[1].text.as_deref(), Some("short"));
    drop(appender);
    log.close().await;
    let log = open(directory.path()).log;
    log.flush().await;
    assert_eq!(log.snapshot(&id("s")).unwrap().state.items, snapshot.items);
    assert_eq!(all(&log, "short"), ["i2"]);
}

#[tokio::test]
async fn waiting_for_a_log_that_is_closed_ends() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let other = log.clone();
    talk(&log, "s", 5).await;
    log.close().await;
    other.flush().await;
    assert_eq!(all(&other, "word").len(), 5, "a closed log can still be read");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_waits_for_any_more_is_not_looked_for_to_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let mut appender = log.create(&id("s")).await.unwrap();
    append(&mut appender, vec![created("s"), turn_started("t1")]).await;
    for number in 0..12 {
        let item = format!("i{number}");
        let ended = item_ended("t1", &item, ItemState::Completed);
        append(&mut appender, vec![item_started("t1", &item), delta("t1", &item, "a word"), ended]).await;
    }
    log.flush().await;
    let patient = Query { patience: Some(Duration::from_secs(3_600)), ..query("word") };
    let waiting = Waiting::new();
    let page = log.search_while(&patient, waiting.interest()).unwrap();
    assert_eq!((page.hits.len(), page.next, page.is_incomplete), (12, None, false));
    let interest = waiting.interest();
    drop(waiting);
    let page = log.search_while(&patient, interest).unwrap();
    assert_eq!((page.hits.len(), page.next.is_some(), page.is_incomplete), (1, true, true));
    assert_eq!(all(&log, "word").len(), 12, "and nobody else is stopped");
}
