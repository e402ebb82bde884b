//! Kills and power cuts: every event that a follower received is still there, byte for byte.

use crate::removal::REMOVAL_POINTS;
use crate::support::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use turnstream_log::{Follow, ItemsQuery, Opened, Restored};
use turnstream_model::cursor::{Cursor, Seq};
use turnstream_model::event::ItemState;
use turnstream_model::fold::Fold;
use turnstream_testkit::crash::{KillPoint, Program, Rounds, Seen, role};
use turnstream_testkit::disk::{FaultDisk, PowerCut};
use turnstream_testkit::lawful::{Tail, assert_lawful};

const DIRECTORY: &str = "TURNSTREAM_LOG_TEST_DIRECTORY";
const CHILD: &str = "crash::talking_child";
/// The number of deltas that the child appends before it closes the log. Unlimited if not set.
const DELTAS: &str = "TURNSTREAM_LOG_TEST_DELTAS";

/// The number of the large delta.
const LARGE: u64 = 30;

/// The child of the tests below. It ends the turn that the last child left open, then appends, and prints
/// every frame that a follower receives.
#[test]
fn talking_child() {
    if role().as_deref() != Some("talk") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let Opened { log, abandoned, .. } = open(&PathBuf::from(std::env::var(DIRECTORY).unwrap()));
        let mut appender = if log.sessions().unwrap().is_empty() {
            let mut appender = log.create(&id("s")).await.unwrap();
            append(&mut appender, vec![created("s")]).await;
            appender
        } else {
            log.claim(&id("s")).await.unwrap()
        };
        let (_, head) = log.head(&id("s")).unwrap();
        let mut follower = log.follow(&id("s"), &Cursor { generation: None, seq: head }).unwrap();
        tokio::spawn(async move {
            loop {
                match follower.next().await.unwrap() {
                    Follow::Outcome(_) => {}
                    Follow::Events(events) => lines(&events).iter().for_each(|line| println!("FRAME {line}")),
                    Follow::Closed | Follow::Deleted => return,
                }
            }
        });
        tokio::spawn({
            let mut watch = log.watch_health();
            async move {
                while let Some(health) = watch.changed().await {
                    println!("HEALTH {health:?}");
                }
            }
        });
        for lost in abandoned {
            let item = format!("i{}", &lost.turn.as_str()[1..]);
            let turn = lost.turn.as_str();
            append(&mut appender, vec![item_ended(turn, &item, ItemState::Abandoned), turn_ended(turn)])
                .await;
        }
        // The epoch is new each time, so no earlier turn has this id.
        let (turn, item) = (format!("t{}", appender.epoch()), format!("i{}", appender.epoch()));
        append(&mut appender, vec![turn_started(&turn), item_started(&turn, &item)]).await;
        let deltas = std::env::var(DELTAS).map_or(200_000, |number| number.parse().unwrap());
        for number in 0_u64..deltas {
            let mut text = format!("{number} ");
            if number == LARGE {
                // Larger than a segment, so that it gets its own file.
                text = text.repeat(50_000);
            }
            let receipt = appender.append(vec![delta(&turn, &item, &text)], NOW).await.unwrap();
            if number % 7 == 0 {
                receipt.await.unwrap();
            }
        }
        drop(appender);
        log.close().await;
    });
}

pub(crate) fn child(directory: &Path) -> Program {
    Program::this_test(CHILD, "talk").unwrap().env(DIRECTORY, directory)
}

/// Every frame that the child printed, by seq. A line that the kill cut off is ignored.
pub(crate) fn delivered(seen: &Seen) -> BTreeMap<u64, String> {
    let frames = seen.lines("FRAME ").into_iter().filter(|line| line.ends_with('}'));
    let number = |line: &str| line.split(&[':', ','][..]).nth(1).and_then(|seq| seq.parse().ok());
    frames.filter_map(|line| Some((number(&line)?, line))).collect()
}

/// Opens a directory after a crash. It must not be taken for a restored backup; for the rest see
/// [`verify_copy`].
pub(crate) fn verify(directory: &Path, delivered: &BTreeMap<u64, String>) -> Result<(), String> {
    match verify_copy(directory, delivered)? {
        None => Ok(()),
        Some(restored) => Err(format!("the crash was taken for a restored backup: {restored:?}")),
    }
}

/// Opens a directory, and checks that every delivered frame is in it, unchanged, in a lawful log without
/// gaps.
fn verify_copy(directory: &Path, delivered: &BTreeMap<u64, String>) -> Result<Option<Restored>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let opened = open(directory);
    let log = opened.log;
    let kept = log.read(&id("s"), Seq(0), usize::MAX).map_err(|error| error.to_string());
    let snapshot = log.snapshot(&id("s"));
    let page = log.items_page(&id("s"), &ItemsQuery { before: None, limit: 50 });
    runtime.block_on(log.close());
    let kept = match kept {
        Ok(kept) => kept,
        Err(_) if delivered.is_empty() => return Ok(opened.restored),
        Err(error) => return Err(error),
    };
    let kept_lines = lines(&kept);
    for (seq, line) in delivered {
        let index = *seq as usize - 1;
        if kept_lines.get(index) != Some(line) {
            return Err(format!(
                "{line} was delivered, kept is {:?} of {}",
                kept_lines.get(index),
                kept.len()
            ));
        }
    }
    if seqs(&kept) != (1..=kept.len() as u64).collect::<Vec<u64>>() {
        return Err("the log has holes".to_owned());
    }
    let events: Vec<_> = kept.iter().map(|event| event.event().unwrap()).collect();
    let snapshot = snapshot.map_err(|error| error.to_string())?;
    if snapshot.state != Fold::of(&events).into_state() {
        return Err("the snapshot is not the fold of the events".to_owned());
    }
    let page = page.map_err(|error| error.to_string())?;
    let newest = snapshot.state.items.iter().rev().take(page.items.len());
    // A page is never empty if there are items. Large items make it short.
    let is_short = page.items.is_empty() && !snapshot.state.items.is_empty();
    if page.head != snapshot.state.seq || is_short || !page.items.iter().eq(newest) {
        return Err("the newest page is not the end of the snapshot".to_owned());
    }
    assert_lawful(kept_lines.iter().map(String::as_str), Tail::Live);
    let begun = kept_lines.iter().filter(|line| line.contains("\"type\":\"item.started\"")).count();
    let database = rusqlite::Connection::open(directory.join("log.db")).unwrap();
    let rows: i64 =
        database.query_row("SELECT count(*) FROM piece WHERE kind = 2", [], |row| row.get(0)).unwrap();
    if rows != begun as i64 {
        return Err(format!("{begun} items began, and {rows} have a row"));
    }
    Ok(opened.restored)
}

pub(crate) fn rounds(quick: u32, full: u32) -> u32 {
    if std::env::var_os("TURNSTREAM_FULL").is_some() { full } else { quick }
}

#[test]
fn what_was_delivered_before_a_kill_is_there_after_it() {
    // The whole log is read after each kill, so the logs are kept short.
    for seed in 0..rounds(1, 10) {
        let directory = tempfile::tempdir().unwrap();
        let mut delivered_so_far = BTreeMap::new();
        Rounds::seeded(11 + u64::from(seed), rounds(25, 40))
            .run(
                &mut delivered_so_far,
                |_, round| Ok((child(directory.path()), KillPoint::line("FRAME ", round.rng.u64(1..400)))),
                |all, _, seen| {
                    all.extend(delivered(seen));
                    verify(directory.path(), all)
                },
            )
            .unwrap_or_else(|error| panic!("{error}"));
        assert!(delivered_so_far.len() > 1_000, "only {} frames were delivered", delivered_so_far.len());
    }
}

/// The failpoints of opening a log, and the counts at which a child is killed there.
const OPENING_POINTS: &[(&str, &[u64])] = &[
    ("log.directory", &[1]),
    ("log.locked", &[1]),
    ("log.open.scanned", &[1]),
    ("log.open.database", &[1]),
    ("log.open.recovered", &[1]),
    ("log.note", &[1, 2]),
    ("log.note.written", &[1, 2]),
    ("log.note.rename", &[1, 2]),
    ("log.note.renamed", &[1, 2]),
    ("log.noted", &[1, 2]),
    ("log.begin", &[1]),
    ("log.open.ready", &[1]),
];

/// The failpoints of a running log.
const POINTS: &[(&str, &[u64])] = &[
    ("log.segment.remove", &[1]),
    ("log.next_epoch", &[1]),
    ("log.transacted", &[1, 2, 3, 5]),
    ("log.before_write", &[1, 2, 9]),
    ("log.before_sync", &[1, 2, 9]),
    ("log.after_sync", &[1, 2, 9]),
    ("log.published", &[1, 2, 9]),
    ("log.segment.header", &[1, 2, 4]),
    ("log.segment.rotated", &[1, 2, 4]),
    ("log.segment.discard", &[1]),
    ("log.settle", &[1, 2, 3]),
    ("log.settle.chunks", &[1, 2]),
    ("log.settle.turns", &[1, 2]),
    ("log.settle.index", &[1, 2]),
    ("log.before_settle", &[1, 2, 5]),
    ("log.settled", &[1, 2, 5]),
];

/// The failpoints that only a new directory reaches.
const FIRST_POINTS: &[&str] = &[
    "log.tables",
    "log.up_to_date",
    "log.segment.make",
    "log.segment.synced",
    "log.segment.made",
    "log.create",
];

/// The failpoints that only a closing log reaches, and the count.
const LAST_POINTS: &[(&str, u64)] = &[
    ("log.checkpoint", 1),
    ("log.checkpointed", 1),
    ("log.note", 3),
    ("log.note.written", 3),
    ("log.note.rename", 3),
    ("log.note.renamed", 3),
    ("log.noted", 3),
];

/// Failpoints with tests elsewhere:
///
/// - `restore.rs`: moving a foreign write-ahead log aside
/// - `import.rs`: imports
/// - `search.rs`: filling an index
/// - `removal.rs`: upgrading an older format
/// - `attempts.rs`: the ledger of attempts
///
/// Erasing a failed record leaves what its failure left, or less.
const OTHER_POINTS: &[&str] = &[
    "log.wal.aside",
    "log.segment.erase",
    "log.upgrade",
    "log.backfill",
    "log.import",
    "log.import.appended",
    "log.import.finish",
    "log.import.reveal",
    "log.import.revealed",
    "log.import.void",
    "attempts.commit",
    "attempts.committed",
];

/// Every name that the files in this directory pass to `reach`.
fn failpoints_in(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            failpoints_in(&path, found);
            continue;
        }
        let source = std::fs::read_to_string(&path).unwrap();
        let names = source.split("reach(\"").skip(1).filter_map(|rest| rest.split('"').next());
        found.extend(names.map(str::to_owned));
    }
}

#[test]
fn every_failpoint_of_the_log_has_a_kill() {
    let mut found = BTreeSet::new();
    failpoints_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    let timed = [OPENING_POINTS, POINTS, REMOVAL_POINTS].concat().into_iter().map(|(point, _)| point);
    let last = LAST_POINTS.iter().map(|(point, _)| *point);
    let others = FIRST_POINTS.iter().chain(OTHER_POINTS).copied();
    let killed: BTreeSet<String> = timed.chain(last).chain(others).map(str::to_owned).collect();
    assert_eq!(killed, found);
}

#[test]
fn a_kill_at_every_step_of_the_log_loses_nothing_that_was_delivered() {
    for (point, times) in [OPENING_POINTS, POINTS].concat() {
        let directory = tempfile::tempdir().unwrap();
        let mut all = BTreeMap::new();
        for nth in times {
            // First a child that leaves something to recover, then one that dies at the failpoint.
            for kill in [KillPoint::line("FRAME ", 20), KillPoint::failpoint(point, *nth)] {
                if point == "log.segment.remove" && matches!(kill, KillPoint::Failpoint { .. }) {
                    // A file that was never written to. Whether a kill leaves one is a matter of time.
                    std::fs::write(directory.path().join("segment-1000"), "").unwrap();
                }
                let seen = child(directory.path()).run(&kill).unwrap();
                all.extend(delivered(&seen));
            }
            verify(directory.path(), &all).unwrap_or_else(|error| panic!("{point} {nth}: {error}"));
        }
    }
}

#[test]
fn a_kill_while_a_log_is_made_or_closed_loses_nothing_that_was_delivered() {
    for (point, nth) in
        FIRST_POINTS.iter().map(|point| (*point, 1)).chain(OPENING_POINTS.iter().map(|it| (it.0, 1)))
    {
        let directory = tempfile::tempdir().unwrap();
        for kill in [KillPoint::failpoint(point, nth), KillPoint::line("FRAME ", 20)] {
            let seen = child(directory.path()).run(&kill).unwrap();
            verify(directory.path(), &delivered(&seen)).unwrap_or_else(|error| panic!("{point}: {error}"));
        }
    }
    for (point, nth) in LAST_POINTS {
        let directory = tempfile::tempdir().unwrap();
        let mut closing = child(directory.path()).env(DELTAS, "300");
        let mut all = delivered(&closing.run(&KillPoint::failpoint(*point, *nth)).unwrap());
        assert!(all.len() > 250, "{point}: {} frames were delivered", all.len());
        verify(directory.path(), &all).unwrap_or_else(|error| panic!("{point}: {error}"));
        all.extend(delivered(&child(directory.path()).run(&KillPoint::line("FRAME ", 20)).unwrap()));
        verify(directory.path(), &all).unwrap_or_else(|error| panic!("{point}, later: {error}"));
    }
}

#[test]
fn what_was_delivered_before_a_power_cut_is_there_after_it() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("data");
    std::fs::create_dir(&directory).unwrap();
    let mut disk = FaultDisk::new(&directory).unwrap();
    let mut delivered_so_far = BTreeMap::new();
    for round in 0..rounds(8, 60) {
        let mut program = child(&directory);
        disk.arm(program.command_mut()).unwrap();
        // Every fifth child lives long enough for checkpoints.
        let frames = if round % 5 == 4 { 6_000 } else { u64::from(round) * 37 % 200 + 1 };
        let seen = program.run(&KillPoint::line("FRAME ", frames)).unwrap();
        delivered_so_far.extend(delivered(&seen));
        let seed = u64::from(round);
        let cut = match round % 4 {
            0 => PowerCut::Nothing,
            1 => PowerCut::Torn(seed),
            2 => PowerCut::Subset(seed),
            _ => PowerCut::Everything,
        };
        disk.power_cut(cut).unwrap();
        // Checked in a copy, because opening writes to the directory.
        let copy = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
        }
        let restored = verify_copy(copy.path(), &delivered_so_far)
            .unwrap_or_else(|error| panic!("round {round}, {cut:?}: {error}"));
        assert_ne!(
            restored,
            Some(Restored::Older),
            "round {round}, {cut:?}: a power cut is no restored backup"
        );
    }
}

#[test]
fn directories_that_were_made_for_a_log_are_there_after_a_power_cut() {
    for path in ["data", "a/b/data"] {
        let home = tempfile::tempdir().unwrap();
        let mut disk = FaultDisk::new(home.path()).unwrap();
        let directory = disk.directory().join(path);
        let mut program = child(&directory);
        disk.arm(program.command_mut()).unwrap();
        let seen = program.run(&KillPoint::line("FRAME ", 5)).unwrap();
        disk.power_cut(PowerCut::Nothing).unwrap();
        let delivered = delivered(&seen);
        assert!(delivered.len() >= 5, "only {} frames were delivered", delivered.len());
        verify_copy(&directory, &delivered).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}

#[test]
fn a_torn_commit_is_reported_and_never_read() {
    let directory = tempfile::tempdir().unwrap();
    let seen = child(directory.path()).run(&KillPoint::failpoint("log.after_sync", 6)).unwrap();
    let segment = newest_segment(directory.path());
    let mut bytes = std::fs::read(&segment).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[last] ^= 1;
    std::fs::write(&segment, &bytes).unwrap();
    let opened = open(directory.path());
    let torn = opened.torn.clone().expect("a torn commit");
    assert_eq!(torn.0, segment);
    assert!(torn.1 < last as u64);
    drop(opened);
    // The damaged commit was never delivered: the child was killed before publication.
    verify(directory.path(), &delivered(&seen)).unwrap();
}

pub(crate) fn segments(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("segment-")).collect()
}

/// The serial of a segment file; 0 for a file that was never used or not completely created.
pub(crate) fn serial(segment: &Path) -> u64 {
    let bytes = std::fs::read(segment).unwrap();
    bytes.get(8..16).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
}

pub(crate) fn newest_segment(directory: &Path) -> PathBuf {
    segments(directory).into_iter().max_by_key(|path| serial(path)).unwrap()
}
