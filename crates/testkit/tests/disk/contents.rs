//! Content of files: what a completed sync covers survives every power cut, and only that survives `Nothing`.

use super::{after, child, directory, disk, files, run_to_done};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use turnstream_failpoint::reach;
use turnstream_testkit::crash::{KillPoint, Rounds, role};
use turnstream_testkit::disk::PowerCut;

const CHILD: &str = "contents::writing_child";
const RECORD: usize = 100;

fn record(number: u8) -> Vec<u8> {
    vec![number; RECORD]
}

fn records(numbers: std::ops::RangeInclusive<u8>) -> Vec<u8> {
    numbers.flat_map(record).collect()
}

/// Makes a file whose name is durable, so that the tests below are about its content.
fn durable_file(name: &str) -> File {
    let file = File::create_new(directory().join(name)).unwrap();
    File::open(directory()).unwrap().sync_all().unwrap();
    file
}

#[test]
fn writing_child() {
    match role().as_deref() {
        Some("sync every 10") => write_records(10),
        Some("all calls") => use_every_call(),
        Some("o_dsync") => {
            let path = directory().join("log");
            let mut file =
                File::options().create_new(true).write(true).custom_flags(0o10000).open(path).unwrap();
            File::open(directory()).unwrap().sync_all().unwrap();
            file.write_all(b"synced by its flag").unwrap();
        }
        Some("threads") => {
            let write = |name: &'static str| {
                move || {
                    let mut file = durable_file(name);
                    for number in 1..=200 {
                        file.write_all(&record(number)).unwrap();
                        file.sync_data().unwrap();
                        println!("SYNCED {name} {number}");
                    }
                }
            };
            let threads = ["a", "b", "c"].map(|name| std::thread::spawn(write(name)));
            for thread in threads {
                thread.join().unwrap();
            }
        }
        Some("three sectors") => {
            let mut file = durable_file("log");
            file.write_all(&[1; 512]).unwrap();
            file.sync_all().unwrap();
            file.write_all(&[2; 512]).unwrap();
            file.write_all(&[3; 1536]).unwrap();
        }
        Some("append and sync") => {
            for name in ["log", "moved"] {
                let path = directory().join(name);
                if let Ok(mut file) = File::options().append(true).open(path) {
                    file.write_all(b" appended").unwrap();
                    file.sync_all().unwrap();
                }
            }
            File::open(directory()).unwrap().sync_all().unwrap();
        }
        Some("shrink") => {
            let mut file = durable_file("log");
            file.write_all(b"0123456789").unwrap();
            file.sync_all().unwrap();
            file.set_len(4).unwrap();
        }
        _ => return,
    }
    reach("done");
}

fn write_records(every: u8) {
    let mut file = durable_file("log");
    for number in 1..=100 {
        file.write_all(&record(number)).unwrap();
        reach("written");
        if number % every == 0 {
            file.sync_data().unwrap();
            println!("SYNCED {number}");
        }
    }
}

/// Every way std has to change a file, among them copies that the kernel would do itself.
fn use_every_call() {
    let here = directory();
    std::fs::write(here.join("written"), b"written").unwrap();
    std::fs::copy(here.join("written"), here.join("copied")).unwrap();
    let mut file = File::options().append(true).open(here.join("copied")).unwrap();
    file.write_all(b" and appended").unwrap();
    let parts = [std::io::IoSlice::new(b" in"), std::io::IoSlice::new(b" parts")];
    assert_eq!(file.write_vectored(&parts).unwrap(), 9);
    let mut file = File::options().read(true).write(true).open(here.join("written")).unwrap();
    file.set_len(1000).unwrap();
    file.seek(SeekFrom::Start(500)).unwrap();
    file.write_all(b"in the middle").unwrap();
    file.write_all_at(b"before", 100).unwrap();
    std::fs::create_dir_all(here.join("sub/deeper")).unwrap();
    std::fs::write(here.join("sub/deeper/file"), b"deep").unwrap();
    std::fs::rename(here.join("sub/deeper/file"), here.join("sub/up")).unwrap();
    std::fs::hard_link(here.join("sub/up"), here.join("linked")).unwrap();
    std::fs::write(here.join("gone"), b"gone").unwrap();
    std::fs::remove_file(here.join("gone")).unwrap();
    std::fs::remove_dir(here.join("sub/deeper")).unwrap();
    File::create(here.join("written again")).unwrap().write_all(b"first").unwrap();
    File::create(here.join("written again")).unwrap().write_all(b"2nd").unwrap();
}

#[test]
fn without_unsynced_writes_exactly_the_synced_prefix_is_left() {
    let (_directory, disk) = disk();
    child(&disk, CHILD, "sync every 10").run(&KillPoint::failpoint("written", 37)).unwrap();
    assert_eq!(files(disk.directory())["log"], records(1..=37), "the page cache has all");
    let (left, report) = after(&disk, PowerCut::Nothing);
    assert_eq!(left["log"], records(1..=30));
    assert_eq!((report.durable, report.spared, report.forgotten), (31, 0, 7));
}

#[test]
fn over_seeded_kills_no_announced_sync_is_lost_by_any_cut() {
    let (_directory, mut disk) = disk();
    let mut forgotten = 0;
    Rounds::seeded(11, 12)
        .run(
            &mut disk,
            |disk, round| {
                let start = |error: turnstream_testkit::disk::DiskError| error.to_string();
                std::fs::remove_file(disk.directory().join("log")).ok();
                disk.settle().map_err(start)?;
                Ok((
                    child(disk, CHILD, "sync every 10"),
                    KillPoint::failpoint("written", round.rng.u64(1..=100)),
                ))
            },
            |disk, round, seen| {
                let synced: u8 = seen.lines("SYNCED ").last().map_or(0, |line| line.parse().unwrap());
                let seed = round.rng.u64(..);
                for cut in
                    [PowerCut::Nothing, PowerCut::Subset(seed), PowerCut::Torn(seed), PowerCut::Everything]
                {
                    let (left, report) = after(disk, cut);
                    forgotten += report.forgotten;
                    if !left["log"].starts_with(&records(1..=synced)) {
                        return Err(format!("{cut:?} lost a record up to {synced}"));
                    }
                    if cut == PowerCut::Nothing && left["log"].len() % (10 * RECORD) != 0 {
                        return Err(format!("{} bytes are no number of syncs", left["log"].len()));
                    }
                }
                Ok(())
            },
        )
        .unwrap();
    assert!(forgotten > 0, "no cut ever had anything to forget");
}

#[test]
fn every_call_of_std_is_seen_so_that_everything_equals_the_real_directory() {
    let (_directory, disk) = disk();
    run_to_done(&disk, CHILD, "all calls");
    assert_eq!(after(&disk, PowerCut::Everything).0, files(disk.directory()));
    assert!(after(&disk, PowerCut::Nothing).0.is_empty());
}

#[test]
fn writes_of_a_file_opened_with_o_dsync_are_durable_at_once() {
    let (_directory, disk) = disk();
    run_to_done(&disk, CHILD, "o_dsync");
    assert_eq!(after(&disk, PowerCut::Nothing).0["log"], b"synced by its flag");
}

#[test]
fn several_threads_each_keep_their_synced_prefix() {
    let (_directory, disk) = disk();
    for nth in [5, 50, 300] {
        for name in ["a", "b", "c"] {
            std::fs::remove_file(disk.directory().join(name)).ok();
        }
        let mut disk = turnstream_testkit::disk::FaultDisk::new(disk.directory()).unwrap();
        let seen = child(&disk, CHILD, "threads").run(&KillPoint::line("SYNCED", nth)).unwrap();
        disk.power_cut(PowerCut::Nothing).unwrap();
        let left = files(disk.directory());
        for line in seen.lines("SYNCED ") {
            let (name, number) = line.split_once(' ').unwrap();
            assert!(left[name].starts_with(&records(1..=number.parse().unwrap())), "{line}");
        }
    }
}

#[test]
fn the_last_write_is_torn_at_a_sector_and_the_ones_before_survive() {
    let (_directory, disk) = disk();
    run_to_done(&disk, CHILD, "three sectors");
    let whole = files(disk.directory())["log"].clone();
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..30 {
        let (left, report) = after(&disk, PowerCut::Torn(seed));
        let kept = report.torn.unwrap();
        assert_eq!(left["log"], whole[..1024 + kept as usize]);
        lengths.insert(kept);
    }
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [512, 1024]);
}

#[test]
fn a_subset_can_keep_a_later_write_and_lose_an_earlier_one() {
    let (_directory, disk) = disk();
    run_to_done(&disk, CHILD, "three sectors");
    let outcomes: std::collections::BTreeSet<Vec<u8>> =
        (0..40).map(|seed| after(&disk, PowerCut::Subset(seed)).0["log"].clone()).collect();
    let hole: Vec<u8> = [vec![1; 512], vec![0; 512], vec![3; 1536]].concat();
    assert!(outcomes.contains(&hole), "no seed made a hole");
    assert_eq!(outcomes.len(), 4, "each of two unsynced writes is kept or lost");
}

#[test]
fn an_unsynced_truncation_is_forgotten() {
    let (_directory, disk) = disk();
    run_to_done(&disk, CHILD, "shrink");
    assert_eq!(after(&disk, PowerCut::Nothing).0["log"], b"0123456789");
    assert_eq!(after(&disk, PowerCut::Everything).0["log"], b"0123");
}

/// The test makes the changes itself that a child could have made just before the kill, without the shim.
#[test]
fn what_a_killed_child_had_not_journalled_yet_is_known_when_the_next_builds_on_it() {
    let (_directory, disk) = disk();
    run_to_done(&disk, CHILD, "shrink");
    let path = disk.directory().join("log");
    File::options().append(true).open(&path).unwrap().write_all(b" more").unwrap();
    run_to_done(&disk, CHILD, "append and sync");
    assert_eq!(after(&disk, PowerCut::Nothing).0["log"], b"0123 more appended");

    std::fs::rename(&path, disk.directory().join("moved")).unwrap();
    run_to_done(&disk, CHILD, "append and sync");
    std::fs::write(&path, b"new").unwrap();
    run_to_done(&disk, CHILD, "append and sync");
    let left = after(&disk, PowerCut::Nothing).0;
    assert_eq!(left["moved"], b"0123 more appended appended appended");
    assert_eq!(left["log"], b"new appended");
    assert_eq!(left, files(disk.directory()));

    std::fs::remove_file(&path).unwrap();
    run_to_done(&disk, CHILD, "append and sync");
    assert_eq!(after(&disk, PowerCut::Nothing).0, files(disk.directory()));
}
