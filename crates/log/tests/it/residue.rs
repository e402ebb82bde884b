//! Copies of rows that SQLite leaves inside pages: they contain nothing that was removed.

use crate::crash::rounds;
use crate::removal::{assert_whole, planted, settled};
use crate::support::*;
use std::os::unix::fs::FileExt;
use turnstream_log::{Keep, Log, Opened, Options};
use turnstream_model::event::{Body, Draft};
use turnstream_model::id::PromptId;
use turnstream_testkit::leaks::leaks_below;

/// Sessions of very different sizes whose rows grow, move and disappear among each other, so that SQLite
/// leaves copies of them where it makes room.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_between_the_rows_of_others() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let sessions = 60;
    let mut appenders = Vec::new();
    for number in 0..sessions {
        let name = format!("s{number}");
        let mut appender = log.create(&id(&name)).await.unwrap();
        append(&mut appender, vec![created(&name)]).await;
        appenders.push(appender);
    }
    let mut random = fastrand::Rng::with_seed(7);
    let (mut gone, mut trimmed, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 1..=6_u64 {
        for (number, appender) in appenders.iter_mut().enumerate() {
            let text = planted(random.u64(..), random.usize(20..1_500));
            say(appender, turn, &text).await;
            match (number % 3, turn) {
                (0, _) => gone.push(text),
                (1, 1..=4) => trimmed.push(text),
                _ => kept.push(text),
            }
        }
    }
    drop(appenders);
    for number in 0..sessions {
        settled(&log, &format!("s{number}")).await;
    }
    for number in 0..sessions {
        let name = id(&format!("s{number}"));
        match number % 3 {
            0 => log.delete(&name).await.unwrap(),
            1 => {
                let keep = Keep { turns: Some(2), ..Keep::default() };
                assert_eq!(log.trim(&name, &keep).await.unwrap().turns, 4);
            }
            _ => {}
        }
    }
    log.erased().await.unwrap();
    assert_eq!(leaks_below(directory.path(), &gone), Vec::<String>::new());
    assert_eq!(leaks_below(directory.path(), &trimmed), Vec::<String>::new());
    let check = |log: &Log| {
        for number in (0..sessions).filter(|number| number % 3 != 0) {
            assert_whole(log, &format!("s{number}"), if number % 3 == 1 { 2 } else { 6 });
        }
        let shown: String = (0..sessions)
            .filter(|number| number % 3 != 0)
            .map(|number| format!("{:?}", log.snapshot(&id(&format!("s{number}"))).unwrap().state.items))
            .collect();
        assert!(kept.iter().all(|text| shown.contains(text)), "everything else is still there");
    };
    check(&log);
    log.close().await;
    let Opened { log, restored, .. } = open(directory.path());
    assert_eq!(restored, None);
    check(&log);
    let database = rusqlite::Connection::open(directory.path().join("log.db")).unwrap();
    let sound: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
}

/// Stored rows of busy sessions grow and shrink in place: SQLite moves them and leaves copies inside pages.
/// Only written pages are scrubbed, so every write has to be noticed.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_rows_that_grew() {
    let directory = tempfile::tempdir().unwrap();
    let options = Options { debounce: std::time::Duration::ZERO, ..options() };
    let mut random = fastrand::Rng::with_seed(21);
    let (mut gone, mut kept) = (Vec::new(), Vec::new());
    for run in 0..2_u64 {
        let log = Log::open(directory.path(), &options).unwrap().log;
        let mut appenders = Vec::new();
        for number in 0..200 {
            let name = format!("s{run}-{number}");
            let mut appender = log.create(&id(&name)).await.unwrap();
            append(&mut appender, vec![created(&name), turn_started("t1"), item_started("t1", "i1")]).await;
            appenders.push(appender);
        }
        for round in 1..=u64::from(rounds(8, 20)) {
            for (number, appender) in appenders.iter_mut().enumerate() {
                if random.u8(..) < 100 {
                    continue;
                }
                let texts = [0; 2].map(|_| planted(random.u64(..), random.usize(20..160)));
                let content = vec![serde_json::json!({"type": "text", "text": texts[0]})];
                let prompt = PromptId::from(format!("p{round}"));
                let waits = Body::PromptAccepted { prompt: prompt.clone(), key: None, content };
                let mut drafts = vec![Draft::new(waits), delta("t1", "i1", &texts[1])];
                if random.bool() {
                    drafts.push(Draft::new(Body::PromptWithdrawn { prompt }));
                }
                append(appender, drafts).await;
                if number % 2 == 0 {
                    gone.extend(texts)
                } else {
                    kept.extend(texts)
                };
            }
            log.flush().await;
        }
        drop(appenders);
        if run == 0 {
            log.close().await;
            continue;
        }
        for number in (0..200).step_by(2) {
            log.delete(&id(&format!("s0-{number}"))).await.unwrap();
            log.delete(&id(&format!("s1-{number}"))).await.unwrap();
        }
        log.erased().await.unwrap();
        assert_eq!(leaks_below(directory.path(), &gone), Vec::<String>::new());
        let texts: Vec<String> = kept.iter().take(3).cloned().collect();
        assert!(!leaks_below(directory.path(), &texts).is_empty(), "the others are there");
        log.close().await;
    }
}

/// The pages to scrub are known from run to run: only the written ones, and all pages after a crash.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_before_a_restart_is_in_no_file_either_when_it_is_deleted_after_it() {
    let directory = tempfile::tempdir().unwrap();
    let note = || {
        let database = rusqlite::Connection::open(directory.path().join("log.db")).unwrap();
        let note = "SELECT count(*) FROM meta WHERE name = 'unscrubbed'";
        database.query_row(note, [], |row| row.get::<_, bool>(0)).unwrap()
    };
    let mut random = fastrand::Rng::with_seed(5);
    let mut gone = Vec::new();
    for round in 0..4_u64 {
        let log = open(directory.path()).log;
        assert!(!note(), "it holds until the first transaction");
        for number in 0..20 {
            let name = format!("s{number}");
            let mut appender = match round {
                0 => log.create(&id(&name)).await.unwrap(),
                _ if number % 4 == round - 1 => continue,
                _ if log.head(&id(&name)).is_err() => continue,
                _ => log.claim(&id(&name)).await.unwrap(),
            };
            if round == 0 {
                append(&mut appender, vec![created(&name)]).await;
            }
            let text = planted(random.u64(..), random.usize(20..1_500));
            say(&mut appender, round + 1, &text).await;
            gone.push((number, text));
        }
        for number in (0..20).filter(|number| round > 0 && number % 4 == round - 1) {
            log.delete(&id(&format!("s{number}"))).await.unwrap();
        }
        log.erased().await.unwrap();
        let deleted = |number: u64| log.head(&id(&format!("s{number}"))).is_err();
        let texts: Vec<String> =
            gone.iter().filter(|(number, _)| deleted(*number)).map(|(_, text)| text.clone()).collect();
        assert_eq!(texts.is_empty(), round == 0);
        assert_eq!(leaks_below(directory.path(), &texts), Vec::<String>::new(), "round {round}");
        log.close().await;
        assert!(note());
    }
}

/// After a `VACUUM` every row is on another page than was recorded, and SQLite leaves copies on those pages
/// too.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_in_a_database_that_was_vacuumed_while_the_log_was_closed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log.db");
    let mut random = fastrand::Rng::with_seed(9);
    let log = open(directory.path()).log;
    let mut gone = Vec::new();
    for number in 0..40 {
        let name = format!("s{number}");
        let mut appender = log.create(&id(&name)).await.unwrap();
        append(&mut appender, vec![created(&name)]).await;
        let text = planted(random.u64(..), random.usize(20..2_000));
        say(&mut appender, 1, &text).await;
        gone.push(text);
    }
    log.flush().await;
    // From here on few pages are unscrubbed.
    log.delete(&id("s39")).await.unwrap();
    log.erased().await.unwrap();
    log.close().await;
    // A copy of a row in the gap of a page that nothing will be written to, as SQLite leaves it.
    let database = rusqlite::Connection::open(&path).unwrap();
    database.execute_batch("VACUUM").unwrap();
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'imported'";
    let place: u32 = database.query_row(root, [], |row| row.get(0)).unwrap();
    drop(database);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&gone[0].as_bytes()[..20], (u64::from(place) - 1) * 4_096 + 1_000).unwrap();
    assert!(!leaks_below(directory.path(), &gone[..1]).is_empty());
    let log = open(directory.path()).log;
    for number in 0..39 {
        log.delete(&id(&format!("s{number}"))).await.unwrap();
    }
    log.erased().await.unwrap();
    assert_eq!(leaks_below(directory.path(), &gone), Vec::<String>::new());
    log.close().await;
}
