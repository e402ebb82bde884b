//! Deleted and trimmed bytes are in no file of the data directory, even if the process was killed meanwhile.

use crate::support::*;
use std::path::{Path, PathBuf};
use turnstream_log::{Keep, Log, Opened, ReadError, Removal, Restored, Trimmed};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Body, Draft, ItemState};
use turnstream_model::fold::Fold;
use turnstream_testkit::crash::{KillPoint, Program, Seen, role};
use turnstream_testkit::lawful::{Tail, assert_lawful};
use turnstream_testkit::leaks::leaks_below;

const DIRECTORY: &str = "TURNSTREAM_LOG_TEST_DIRECTORY";

/// A text that occurs nowhere else.
pub(crate) fn planted(seed: u64, length: usize) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..length).map(|_| random.alphanumeric()).collect()
}

/// Waits until all events of a session are flushed.
pub(crate) async fn settled(log: &Log, name: &str) {
    for _ in 0..30_000 {
        let kept = log.kept(&id(name)).unwrap();
        let events = log.read(&id(name), Seq(kept.oldest.0 - 1), usize::MAX).unwrap();
        if kept.bytes >= events.iter().map(|event| event.json().len() as u64).sum() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("session {name} was not settled within 300 s");
}

/// Checks L4 on what is kept, and the laws.
pub(crate) fn assert_whole(log: &Log, name: &str, turns: usize) {
    let kept = log.kept(&id(name)).unwrap();
    let events = log.read(&id(name), Seq(kept.oldest.0 - 1), usize::MAX).unwrap();
    let lines = lines(&events);
    assert_lawful(lines.iter().map(String::as_str), Tail::Settled);
    let state = log.snapshot(&id(name)).unwrap().state;
    assert_eq!(state.turns.len(), turns, "{name}");
    if kept.oldest == Seq(1) {
        let parsed: Vec<_> = events.iter().map(|event| event.event().unwrap()).collect();
        assert_eq!(state, Fold::of(&parsed).into_state());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_session_is_in_no_file_when_that_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let text = planted(1, 4_000);
    let mut appender = log.create(&id("s")).await.unwrap();
    append(&mut appender, vec![created("s")]).await;
    say(&mut appender, 1, &text).await;
    // Half of it may not be in the database yet.
    settled(&log, "s").await;
    say(&mut appender, 2, &text).await;
    assert!(!leaks_below(directory.path(), std::slice::from_ref(&text)).is_empty());
    log.delete(&id("s")).await.unwrap();
    log.erased().await.unwrap();
    assert_eq!(leaks_below(directory.path(), &[text]), Vec::<String>::new());
    assert_eq!(log.removal(&id("s")).unwrap(), Some(Removal::Done));
    assert_eq!((log.removed().sessions, log.removed().erasures), (1, 1));
}

/// The words leave the index after the trim is answered.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_trimmed_is_not_found_from_the_answer_on_and_in_no_file_in_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let texts: Vec<String> = (1..=8).map(|turn| words(turn, 600)).collect();
    let mut appender = log.create(&id("s")).await.unwrap();
    append(&mut appender, vec![created("s")]).await;
    for (turn, text) in (1..).zip(&texts) {
        say(&mut appender, turn, text).await;
    }
    log.flush().await;
    assert_eq!(findable(&log, &texts), texts);
    for turns in [6, 3, 2] {
        let keep = Keep { turns: Some(turns), ..Keep::default() };
        log.trim(&id("s"), &keep).await.unwrap();
        assert_eq!(findable(&log, &texts), texts[8 - turns as usize..]);
    }
    // An item under a reused id is another item.
    append(&mut appender, vec![turn_started("t9"), item_started("t9", "i1")]).await;
    let again = [words(9, 600)];
    append(
        &mut appender,
        vec![delta("t9", "i1", &again[0]), item_ended("t9", "i1", ItemState::Completed), turn_ended("t9")],
    )
    .await;
    log.flush().await;
    assert_eq!(findable(&log, &again), again);
    log.erased().await.unwrap();
    let gone: Vec<String> = texts[..6].iter().flat_map(|text| text.split(' ')).map(str::to_owned).collect();
    assert_eq!(leaks_below(directory.path(), &gone), Vec::<String>::new());
    assert_eq!(findable(&log, &texts), texts[6..]);
    assert_eq!(findable(&log, &again), again);
    // The same if the whole session is deleted while words of its beginning are still in the index.
    log.trim(&id("s"), &Keep { turns: Some(1), ..Keep::default() }).await.unwrap();
    drop(appender);
    log.delete(&id("s")).await.unwrap();
    log.erased().await.unwrap();
    let all: Vec<String> = texts.iter().flat_map(|text| text.split(' ')).map(str::to_owned).collect();
    assert_eq!(leaks_below(directory.path(), &all), Vec::<String>::new());
}

/// The child of the test below: creates sessions, removes data, and prints what it did.
#[test]
fn removing_child() {
    if role().as_deref() != Some("remove") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let log = open(&PathBuf::from(std::env::var(DIRECTORY).unwrap())).log;
        for (number, name) in ["gone", "trimmed", "kept"].into_iter().enumerate() {
            let mut appender = log.create(&id(name)).await.unwrap();
            append(&mut appender, vec![created(name)]).await;
            for turn in 1..=3_u64 {
                say(&mut appender, turn, &text_of(number as u64, turn)).await;
            }
            if name == "trimmed" {
                // What is removed has rows in every table, so the removal has the same steps every time.
                log.flush().await;
            }
        }
        log.delete(&id("gone")).await.unwrap();
        println!("DELETED");
        let keep = Keep { turns: Some(1), ..Keep::default() };
        assert_eq!(log.trim(&id("trimmed"), &keep).await.unwrap().turns, 2);
        println!("TRIMMED");
        log.erased().await.unwrap();
        println!("ERASED");
        log.close().await;
    });
}

pub(crate) fn text_of(session: u64, turn: u64) -> String {
    // More than a segment, so that several are used.
    format!("{} {}", planted(100 * session + turn, 30_000), words_of(session, turn))
}

/// The searchable words of a turn.
fn words_of(session: u64, turn: u64) -> String {
    words(100 * session + turn, 60)
}

/// The failpoints of a removal, and the counts.
pub(crate) const REMOVAL_POINTS: &[(&str, &[u64])] = &[
    ("log.delete", &[1]),
    ("log.deleted", &[1]),
    ("log.trim", &[1]),
    ("log.trimmed", &[1]),
    ("log.remove", &[1, 2, 4, 6, 8, 10]),
    ("log.erase.separators", &[1]),
    ("log.erase.segment", &[1, 2]),
    ("log.erase.pages", &[1]),
    ("log.removed", &[1]),
];

pub(crate) fn removing(directory: &Path) -> Program {
    Program::this_test("removal::removing_child", "remove").unwrap().env(DIRECTORY, directory)
}

#[test]
fn a_kill_at_every_step_of_a_removal_leaves_nothing_half_removed() {
    for (point, times) in REMOVAL_POINTS {
        for nth in *times {
            let directory = tempfile::tempdir().unwrap();
            let seen = removing(directory.path()).run(&KillPoint::failpoint(*point, *nth)).unwrap();
            let expected = Expected::new(&seen, None, format!("{point}:{nth}"));
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            runtime.block_on(expected.judge(directory.path()));
        }
    }
}

/// What a killed child must have left.
pub(crate) struct Expected {
    deleted: bool,
    trimmed: bool,
    /// How the directory that it left is recognised.
    restored: Option<Restored>,
    when: String,
}

impl Expected {
    /// According to what this child has printed.
    pub(crate) fn new(seen: &Seen, restored: Option<Restored>, when: String) -> Self {
        let said = |line: &str| !seen.lines(line).is_empty();
        Self { deleted: said("DELETED"), trimmed: said("TRIMMED"), restored, when }
    }

    /// Asserts that every session is whole, trimmed or gone, that acknowledged removals hold, and that
    /// pending ones are completed in every file.
    pub(crate) async fn judge(&self, directory: &Path) {
        let Self { deleted, trimmed, restored, when } = self;
        let Opened { log, restored: found_restored, .. } = open(directory);
        assert_eq!(found_restored, *restored, "{when}");
        if log.kept(&id("trimmed")).unwrap().oldest > Seq(1) {
            let findable = findable(&log, &[words_of(1, 1), words_of(1, 2)]);
            assert_eq!(findable, Vec::<String>::new(), "{when}: before it is out of all files");
        }
        let gone: Vec<String> = (1..=3).map(|turn| text_of(0, turn)).collect();
        match log.head(&id("gone")) {
            // The deletion was not acknowledged.
            Ok(_) => {
                assert!(!deleted, "{when}: what was said to be deleted is back");
                assert_whole(&log, "gone", 3);
                log.delete(&id("gone")).await.unwrap();
            }
            Err(ReadError::Unknown(_)) => assert!(log.removal(&id("gone")).unwrap().is_some(), "{when}"),
            Err(error) => panic!("{when}: {error}"),
        }
        // This run completes what the last one began.
        log.erased().await.unwrap();
        assert_eq!(leaks_below(directory, &gone), Vec::<String>::new(), "{when}");
        assert_eq!(log.removal(&id("gone")).unwrap(), Some(Removal::Done), "{when}");
        let is_trimmed = log.kept(&id("trimmed")).unwrap().oldest > Seq(1);
        assert!(is_trimmed || !trimmed, "{when}: what was trimmed is back");
        if !is_trimmed {
            assert_whole(&log, "trimmed", 3);
            settled(&log, "trimmed").await;
            let keep = Keep { turns: Some(1), ..Keep::default() };
            assert_eq!(log.trim(&id("trimmed"), &keep).await.unwrap().turns, 2, "{when}");
            log.erased().await.unwrap();
        }
        assert_whole(&log, "trimmed", 1);
        assert_eq!(leaks_below(directory, &[text_of(1, 1), text_of(1, 2)]), Vec::<String>::new(), "{when}");
        assert_whole(&log, "kept", 3);
        log.flush().await;
        let findable = findable(&log, &[words_of(1, 1), words_of(1, 2), words_of(1, 3), words_of(2, 1)]);
        assert_eq!(findable, [words_of(1, 3), words_of(2, 1)], "{when}");
        let keep = Keep { turns: Some(9), ..Keep::default() };
        assert_eq!(log.trim(&id("kept"), &keep).await.unwrap(), Trimmed::default());
        // The id is free, and a new session under it is another one.
        let mut again = log.create(&id("gone")).await.unwrap();
        append(&mut again, vec![created("gone")]).await;
        say(&mut again, 1, "new").await;
        drop(again);
        log.close().await;
        let Opened { log, restored, .. } = open(directory);
        assert_eq!(restored, None, "{when}");
        assert_whole(&log, "gone", 1);
        assert_whole(&log, "trimmed", 1);
        assert_whole(&log, "kept", 3);
        log.close().await;
    }
}

/// An imported session with this text.
fn told_elsewhere(text: &str) -> Vec<turnstream_model::event::Event> {
    let drafts = vec![
        created("s"),
        turn_started("t1"),
        item_started("t1", "i1"),
        delta("t1", "i1", text),
        item_ended("t1", "i1", turnstream_model::event::ItemState::Completed),
        turn_ended("t1"),
    ];
    let placed = |(index, draft): (usize, turnstream_model::event::Draft)| {
        draft.at(Seq(index as u64 + 1), turnstream_model::time::Time(1))
    };
    drafts.into_iter().enumerate().map(placed).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_was_given_up_is_in_no_file_either() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let text = half_imported();
    let events = told_elsewhere(&text);
    let mut importer = log.import(&id("s")).await.unwrap();
    importer.append(events[..5].to_vec()).await.unwrap();
    drop(importer);
    // The second import is complete, and is deleted again.
    let mut importer = loop {
        match log.import(&id("s")).await {
            Ok(importer) => break importer,
            Err(turnstream_log::ClaimError::Exists(_)) => {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await
            }
            Err(error) => panic!("{error}"),
        }
    };
    importer.append(events).await.unwrap();
    importer.finish(None).await.unwrap();
    settled(&log, "s").await;
    log.delete(&id("s")).await.unwrap();
    log.erased().await.unwrap();
    assert_eq!(leaks_below(directory.path(), &[text]), Vec::<String>::new());
    assert_eq!(log.removal(&id("s")).unwrap(), Some(Removal::Done));
}

pub(crate) fn half_imported() -> String {
    planted(9, 4_000)
}

/// The child of the test below: imports half of a session, and prints it.
#[test]
fn half_importing_child() {
    if role().as_deref() != Some("half-import") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let log = open(&PathBuf::from(std::env::var(DIRECTORY).unwrap())).log;
        let mut importer = log.import(&id("s")).await.unwrap();
        importer.append(told_elsewhere(&half_imported())[..5].to_vec()).await.unwrap();
        // Flushed events are in the database too.
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        println!("APPENDED");
        std::future::pending::<()>().await;
    });
}

pub(crate) fn half_importing(directory: &Path) -> Program {
    Program::this_test("removal::half_importing_child", "half-import").unwrap().env(DIRECTORY, directory)
}

#[test]
fn an_import_that_was_killed_is_in_no_file_when_the_next_start_has_erased() {
    let directory = tempfile::tempdir().unwrap();
    half_importing(directory.path()).run(&KillPoint::line("APPENDED", 1)).unwrap();
    assert!(!leaks_below(directory.path(), &[half_imported()]).is_empty());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let log = open(directory.path()).log;
        log.erased().await.unwrap();
        assert_eq!(leaks_below(directory.path(), &[half_imported()]), Vec::<String>::new());
        assert_eq!(log.removal(&id("s")).unwrap(), None, "it was never there");
        log.close().await;
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_fold_that_is_damaged_is_made_from_the_base() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let mut appender = log.create(&id("s")).await.unwrap();
    append(&mut appender, vec![created("s")]).await;
    for turn in 1..=3 {
        say(&mut appender, turn, "text").await;
    }
    drop(appender);
    settled(&log, "s").await;
    assert_eq!(log.trim(&id("s"), &Keep { turns: Some(1), ..Keep::default() }).await.unwrap().turns, 2);
    let before = log.snapshot(&id("s")).unwrap();
    log.close().await;
    let database = rusqlite::Connection::open(directory.path().join("log.db")).unwrap();
    database.execute("UPDATE fold SET body = 'none'", []).unwrap();
    drop(database);
    let log = open(directory.path()).log;
    assert_eq!(log.snapshot(&id("s")).unwrap(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_the_first_format_is_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let mut appender = log.create(&id("s")).await.unwrap();
    append(&mut appender, vec![created("s")]).await;
    say(&mut appender, 1, "text").await;
    drop(appender);
    log.close().await;
    let database = rusqlite::Connection::open(directory.path().join("log.db")).unwrap();
    database
        .execute_batch(
            "DROP TABLE base; DROP TABLE tombstone; DROP TABLE imported;
             DROP TABLE entry; DROP TABLE entry_hour; DROP TABLE entry_word;
             DELETE FROM meta WHERE name IN ('words', 'index', 'unindexed'); PRAGMA user_version = 1;",
        )
        .unwrap();
    drop(database);
    for point in
        ["log.upgrade", "log.up_to_date", "log.open.database", "log.begin", "log.open.ready", "log.backfill"]
    {
        removing(directory.path()).run(&KillPoint::failpoint(point, 1)).unwrap();
    }
    let Opened { log, restored, .. } = open(directory.path());
    assert_eq!(restored, None);
    log.flush().await;
    let text = turnstream_log::Query { words: "text".to_owned(), ..Default::default() };
    assert_eq!(log.search(&text).unwrap().hits.len(), 1);
    assert_whole(&log, "s", 1);
    assert_eq!(log.trim(&id("s"), &Keep { turns: Some(0), ..Keep::default() }).await.unwrap().turns, 1);
    log.erased().await.unwrap();
    assert_eq!(log.search(&text).unwrap().hits.len(), 0);
}

/// The texts that search finds.
fn findable(log: &Log, texts: &[String]) -> Vec<String> {
    let found = |text: &&String| {
        let query = turnstream_log::Query { words: format!("\"{}\"", &text[..27]), ..Default::default() };
        !log.search(&query).unwrap().hits.is_empty()
    };
    texts.iter().filter(found).cloned().collect()
}

/// Words of one text that occur nowhere else.
fn words(seed: u64, count: usize) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut word = || (0..13).map(|_| random.lowercase()).collect::<String>();
    (0..count).map(|_| word()).collect::<Vec<_>>().join(" ")
}

/// A new index is filled from stored rows, also from rows that are being removed.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_removed_while_the_index_is_filled_is_neither_found_nor_in_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let mut texts = [Vec::new(), Vec::new(), Vec::new()];
    for number in 0..18_u64 {
        let name = format!("s{number}");
        let mut appender = log.create(&id(&name)).await.unwrap();
        append(&mut appender, vec![created(&name)]).await;
        for turn in 1..=3 {
            let text = words(100 * number + turn, if turn == 1 { 2_000 } else { 100 });
            say(&mut appender, turn, &text).await;
            texts[if number % 3 == 1 && turn == 3 { 2 } else { (number % 3) as usize }].push(text);
        }
    }
    log.flush().await;
    log.close().await;
    let database = rusqlite::Connection::open(directory.path().join("log.db")).unwrap();
    database.execute("UPDATE meta SET value = 'other' WHERE name = 'words'", []).unwrap();
    drop(database);
    let log = open(directory.path()).log;
    for number in 0..18_u64 {
        let name = id(&format!("s{number}"));
        match number % 3 {
            0 => log.delete(&name).await.unwrap(),
            1 => {
                let keep = Keep { turns: Some(1), ..Keep::default() };
                assert_eq!(log.trim(&name, &keep).await.unwrap().turns, 2);
            }
            _ => {}
        }
    }
    log.erased().await.unwrap();
    let pieces = |texts: &[String]| -> Vec<String> {
        leaks_below(
            directory.path(),
            &texts.iter().flat_map(|text| text.split(' ')).map(str::to_owned).collect::<Vec<_>>(),
        )
    };
    assert_eq!(pieces(&texts[0]), Vec::<String>::new());
    assert_eq!(pieces(&texts[1]), Vec::<String>::new());
    log.flush().await;
    let check = |log: &Log| {
        assert_eq!(findable(log, &texts[0]), Vec::<String>::new());
        assert_eq!(findable(log, &texts[1]), Vec::<String>::new());
        assert_eq!(findable(log, &texts[2]).len(), texts[2].len());
    };
    check(&log);
    assert_eq!(pieces(&texts[0]), Vec::<String>::new());
    log.close().await;
    let log = open(directory.path()).log;
    log.flush().await;
    check(&log);
    let database = rusqlite::Connection::open(directory.path().join("log.db")).unwrap();
    database.execute_batch("INSERT INTO entry_word (entry_word) VALUES ('integrity-check')").unwrap();
}

/// JSON parsers limit the depth, and a value of an event is nested deeper in a base.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_not_cut_where_what_waits_is_too_deep_for_a_base() {
    let directory = tempfile::tempdir().unwrap();
    let log = open(directory.path()).log;
    let mut appender = log.create(&id("s")).await.unwrap();
    append(&mut appender, vec![created("s")]).await;
    say(&mut appender, 1, "one").await;
    // As deep as an event can be.
    let deep = (0..124).fold(serde_json::json!("x"), |inner, _| serde_json::json!([inner]));
    let prompt = turnstream_model::id::PromptId::from("p1");
    let content = vec![serde_json::json!({"type": "text", "text": "x", "_meta": deep})];
    let waits = Body::PromptAccepted { prompt: prompt.clone(), key: None, content };
    append(&mut appender, vec![Draft::new(waits)]).await;
    say(&mut appender, 2, "two").await;
    let of_turn = |body| Draft { turn: Some("t3".into()), ..Draft::new(body) };
    let taken = of_turn(Body::PromptTaken { prompt });
    append(&mut appender, vec![turn_started("t3"), taken, turn_ended("t3")]).await;
    say(&mut appender, 4, "four").await;
    log.flush().await;
    let turns = |log: &Log| {
        let state = log.snapshot(&id("s")).unwrap().state;
        state.turns.iter().map(|turn| turn.turn.to_string()).collect::<Vec<_>>()
    };
    // Two of four turns should be removed, but a prompt waits after the second.
    assert_eq!(log.trim(&id("s"), &Keep { turns: Some(2), ..Keep::default() }).await.unwrap().turns, 1);
    assert_eq!(log.base(&id("s")).unwrap().queue.len(), 0);
    assert_eq!(turns(&log), ["t2", "t3", "t4"]);
    assert_eq!(log.snapshot(&id("s")).unwrap().state.items.len(), 2);
    log.close().await;
    let log = open(directory.path()).log;
    assert_eq!(turns(&log), ["t2", "t3", "t4"]);
    assert_eq!(log.trim(&id("s"), &Keep { turns: Some(1), ..Keep::default() }).await.unwrap().turns, 2);
    assert_eq!(turns(&log), ["t4"]);
    log.erased().await.unwrap();
}
