//! Kills and power cuts: what a follower was given is there afterwards, byte for byte.

use crate::support::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use turnstream_log::{Follow, Opened};
use turnstream_model::cursor::{Cursor, Seq};
use turnstream_model::event::ItemState;
use turnstream_model::fold::Fold;
use turnstream_testkit::crash::{KillPoint, Program, Rounds, Seen, role};
use turnstream_testkit::disk::{FaultDisk, PowerCut};
use turnstream_testkit::lawful::{Tail, assert_lawful};

const DIRECTORY: &str = "TURNSTREAM_LOG_TEST_DIRECTORY";
const CHILD: &str = "crash::talking_child";

/// The child of the tests below: settles what the last one left open, then talks. Every frame that a follower is given
/// is printed.
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
                if let Follow::Events(events) = follower.next().await.unwrap() {
                    for line in lines(&events) {
                        println!("FRAME {line}");
                    }
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
        // The epoch is new each time: a name that no earlier turn has.
        let (turn, item) = (format!("t{}", appender.epoch()), format!("i{}", appender.epoch()));
        append(&mut appender, vec![turn_started(&turn), item_started(&turn, &item)]).await;
        for number in 0..200_000 {
            let receipt =
                appender.append(vec![delta(&turn, &item, &format!("{number} "))], NOW).await.unwrap();
            if number % 7 == 0 {
                receipt.await.unwrap();
            }
        }
    });
}

pub(crate) fn child(directory: &Path) -> Program {
    Program::this_test(CHILD, "talk").unwrap().env(DIRECTORY, directory)
}

/// Every frame the child was seen to give out, by its number. A line that the kill cut is none.
pub(crate) fn delivered(seen: &Seen) -> BTreeMap<u64, String> {
    let frames = seen.lines("FRAME ").into_iter().filter(|line| line.ends_with('}'));
    let number = |line: &str| line.split(&[':', ','][..]).nth(1).and_then(|seq| seq.parse().ok());
    frames.filter_map(|line| Some((number(&line)?, line))).collect()
}

/// Opens what is left, and says whether every delivered frame is in it, unchanged, in a lawful log without holes.
pub(crate) fn verify(directory: &Path, delivered: &BTreeMap<u64, String>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let opened = open(directory);
    let log = opened.log;
    let kept = log.read(&id("s"), Seq(0), usize::MAX).map_err(|error| error.to_string());
    let snapshot = log.snapshot(&id("s"));
    runtime.block_on(log.close());
    let kept = match kept {
        Ok(kept) => kept,
        Err(_) if delivered.is_empty() => return Ok(()),
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
    assert_lawful(kept_lines.iter().map(String::as_str), Tail::Live);
    Ok(())
}

fn rounds(quick: u32, full: u32) -> u32 {
    if std::env::var_os("TURNSTREAM_FULL").is_some() { full } else { quick }
}

#[test]
fn what_was_delivered_before_a_kill_is_there_after_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut delivered_so_far = BTreeMap::new();
    Rounds::seeded(11, rounds(25, 400))
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

#[test]
fn a_kill_at_every_step_of_a_commit_loses_nothing_that_was_delivered() {
    let points = ["log.before_sync", "log.after_sync", "log.published", "log.before_settle", "log.settled"];
    for point in points {
        let directory = tempfile::tempdir().unwrap();
        let mut all = BTreeMap::new();
        for nth in [1, 2, 5] {
            let seen = child(directory.path()).run(&KillPoint::failpoint(point, nth)).unwrap();
            all.extend(delivered(&seen));
            verify(directory.path(), &all).unwrap_or_else(|error| panic!("{point} {nth}: {error}"));
        }
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
        let seen = program.run(&KillPoint::line("FRAME ", u64::from(round) * 37 % 200 + 1)).unwrap();
        delivered_so_far.extend(delivered(&seen));
        let seed = u64::from(round);
        let cut = match round % 4 {
            0 => PowerCut::Nothing,
            1 => PowerCut::Torn(seed),
            2 => PowerCut::Subset(seed),
            _ => PowerCut::Everything,
        };
        disk.power_cut(cut).unwrap();
        // Looked at in a copy: looking writes.
        let copy = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
        }
        verify(copy.path(), &delivered_so_far)
            .unwrap_or_else(|error| panic!("round {round}, {cut:?}: {error}"));
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
    // The damaged commit was never delivered: it was killed before publication.
    verify(directory.path(), &delivered(&seen)).unwrap();
}

fn newest_segment(directory: &Path) -> PathBuf {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let segments = entries.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("segment-"));
    let serial = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap();
        u64::from_le_bytes(bytes[8..16].try_into().unwrap())
    };
    segments.max_by_key(serial).unwrap()
}
