//! Killed imports: the session exists completely or not at all.

use crate::support::*;
use std::path::{Path, PathBuf};
use turnstream_log::{ClaimError, Imported, Log};
use turnstream_model::cursor::Seq;
use turnstream_model::event::{Event, ItemState};
use turnstream_model::fold::{Applied, Fold, State};
use turnstream_model::time::Time;
use turnstream_testkit::crash::{KillPoint, Program, Rounds, role};

const DIRECTORY: &str = "TURNSTREAM_LOG_TEST_DIRECTORY";
const EVENTS: u64 = 3_000;
/// Events before the position at which the log may be cut.
const BEGINNING: usize = 3;

/// What to import.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Whole,
    /// The same session without its beginning.
    Trimmed,
}

impl What {
    fn base(self) -> State {
        match self {
            Self::Whole => State::default(),
            Self::Trimmed => {
                let events = events();
                let last = events[BEGINNING - 1].time;
                Fold::of(&events[..BEGINNING]).into_state().trimmed(last).0
            }
        }
    }

    fn events(self) -> Vec<Event> {
        events().split_off(match self {
            Self::Whole => 0,
            Self::Trimmed => BEGINNING,
        })
    }

    /// The name of the child that imports it.
    fn role(self) -> &'static str {
        match self {
            Self::Whole => "import",
            Self::Trimmed => "import-trimmed",
        }
    }
}

fn events() -> Vec<Event> {
    let mut drafts = vec![created("imported"), turn_started("t0"), turn_ended("t0")];
    drafts.extend([turn_started("t1"), item_started("t1", "i1")]);
    drafts.extend((0..EVENTS - 7).map(|number| delta("t1", "i1", &format!("{number} ").repeat(20))));
    drafts.extend([item_ended("t1", "i1", ItemState::Completed), turn_ended("t1")]);
    let placed = |(index, draft): (usize, turnstream_model::event::Draft)| {
        draft.at(Seq(index as u64 + 1), Time(index as u64))
    };
    drafts.into_iter().enumerate().map(placed).collect()
}

async fn import(log: &Log, what: What) -> Result<(), ClaimError> {
    let mut importer = log.import_after(&id("imported"), what.base()).await?;
    for some in what.events().chunks(200) {
        importer.append(some.to_vec()).await.unwrap();
    }
    importer.finish(Some("native".to_owned())).await.map(drop)
}

/// The child of the tests below. It imports while another session is busy.
#[test]
fn importing_child() {
    let all = [What::Whole, What::Trimmed];
    let Some(what) = all.into_iter().find(|what| role().as_deref() == Some(what.role())) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let log = open(&PathBuf::from(std::env::var(DIRECTORY).unwrap())).log;
        let name = format!("s{}", log.sessions().unwrap().len());
        let mut appender = talking(&log, &name).await;
        let talk = tokio::spawn(async move {
            for number in 0.. {
                append(&mut appender, vec![delta("t1", "i1", &format!("{number}"))]).await;
            }
        });
        match import(&log, what).await {
            Ok(()) => println!("IMPORTED"),
            Err(ClaimError::Exists(_)) => println!("EXISTS"),
            Err(error) => panic!("{error}"),
        }
        talk.await.unwrap();
    });
}

pub(crate) fn child(directory: &Path, what: What) -> Program {
    Program::this_test("import::importing_child", what.role()).unwrap().env(DIRECTORY, directory)
}

/// Whether the session exists, and then completely. If not, the database knows nothing of it.
pub(crate) fn is_there(directory: &Path, what: What) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let log = open(directory).log;
    let there = log.sessions().unwrap().contains(&id("imported"));
    if there {
        let base = what.base();
        let kept = log.read(&id("imported"), base.seq, usize::MAX).unwrap();
        let kept: Vec<Event> = kept.iter().map(|event| event.event().unwrap()).collect();
        assert_eq!(kept, what.events());
        assert_eq!(log.base(&id("imported")).unwrap(), base);
        let mut fold = Fold::from(base);
        kept.iter().for_each(|event| assert_eq!(fold.apply(event), Applied::Yes));
        assert_eq!(log.snapshot(&id("imported")).unwrap().state, fold.into_state());
        let imported = Imported { native_id: Some("native".to_owned()) };
        assert_eq!(log.imported(&id("imported")).unwrap(), Some(imported));
    }
    runtime.block_on(async {
        log.erased().await.unwrap();
        log.close().await;
    });
    let database = rusqlite::Connection::open(directory.join("log.db")).unwrap();
    let count = |query: &str| database.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap();
    for table in ["chunk", "piece", "fold", "base", "open_turn", "imported"] {
        let orphans = format!("SELECT count(*) FROM {table} WHERE session NOT IN (SELECT key FROM session)");
        assert_eq!(count(&orphans), 0, "{table} has rows of a session that is not there");
    }
    assert_eq!(count("SELECT count(*) FROM imported WHERE NOT finished"), 0);
    there
}

/// The failpoints of an import, the counts, and whether the session exists from that failpoint on.
pub(crate) const IMPORT_POINTS: &[(&str, &[u64], bool)] = &[
    ("log.import", &[1], false),
    ("log.import.appended", &[1, 2, 15], false),
    ("log.import.finish", &[1], false),
    ("log.import.reveal", &[1], false),
    ("log.import.revealed", &[1], true),
];

#[test]
fn an_import_that_is_killed_at_any_step_leaves_nothing_or_all() {
    for (point, times, is_whole) in IMPORT_POINTS {
        for nth in *times {
            let directory = tempfile::tempdir().unwrap();
            child(directory.path(), What::Whole).run(&KillPoint::failpoint(*point, *nth)).unwrap();
            assert_eq!(is_there(directory.path(), What::Whole), *is_whole, "{point}:{nth}");
            // A second import succeeds, or learns that the session exists.
            let said = if *is_whole { "EXISTS" } else { "IMPORTED" };
            child(directory.path(), What::Whole).run(&KillPoint::line(said, 1)).unwrap();
            assert!(is_there(directory.path(), What::Whole));
        }
    }
}

#[test]
fn a_kill_while_the_rest_of_an_import_is_removed_leaves_the_rest_to_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    for point in ["log.import.void", "log.remove"] {
        // Everything is in the database by then.
        child(directory.path(), What::Whole).run(&KillPoint::failpoint("log.import.reveal", 1)).unwrap();
        child(directory.path(), What::Whole).run(&KillPoint::failpoint(point, 1)).unwrap();
    }
    assert!(!is_there(directory.path(), What::Whole));
}

#[test]
fn an_import_that_is_killed_at_any_moment_leaves_nothing_or_all() {
    let directory = tempfile::tempdir().unwrap();
    let mut ends = (0, 0);
    Rounds::seeded(23, 20)
        .run(
            &mut ends,
            |_, round| {
                // About as long as an import takes.
                let times = std::time::Duration::from_millis(20)..std::time::Duration::from_millis(600);
                Ok((child(directory.path(), What::Whole), KillPoint::random_time(&mut round.rng, times)))
            },
            |ends, _, _| {
                let there = is_there(directory.path(), What::Whole);
                if there {
                    // The next round imports it again.
                    let database = rusqlite::Connection::open(directory.path().join("log.db")).unwrap();
                    database
                        .execute("UPDATE session SET id = 'old ' || key WHERE id = 'imported'", [])
                        .unwrap();
                    ends.0 += 1;
                } else {
                    ends.1 += 1;
                }
                Ok::<(), String>(())
            },
        )
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(ends.0 + ends.1 == 20, "{ends:?}");
}
