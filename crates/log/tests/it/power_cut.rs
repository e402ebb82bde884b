//! Power cuts during a deletion, a trim or an import. A session is whole, trimmed or gone, never half.
//! Whatever was reported as erased is in no file.

use crate::crash::rounds;
use crate::import::{self, IMPORT_POINTS, What};
use crate::removal::{Expected, REMOVAL_POINTS, half_imported, half_importing, removing, text_of};
use std::path::Path;
use tempfile::TempDir;
use turnstream_log::Restored;
use turnstream_testkit::crash::{KillPoint, Program, Seen};
use turnstream_testkit::disk::{FaultDisk, PowerCut};
use turnstream_testkit::leaks::leaks_below;

/// A child that ended on a disk of its own, and the states that its disk could have after a power cut.
struct Ended {
    _home: TempDir,
    disk: FaultDisk,
    seen: Seen,
}

impl Ended {
    fn at(child: impl Fn(&Path) -> Program, kill: &KillPoint) -> Self {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("data");
        std::fs::create_dir(&directory).unwrap();
        let disk = FaultDisk::new(&directory).unwrap();
        let mut program = child(&directory);
        disk.arm(program.command_mut()).unwrap();
        let seen = program.run(kill).unwrap();
        Self { _home: home, disk, seen }
    }

    /// Checks cuts of all kinds, by default one: the next kind for the next seed. Returns how many changes a
    /// cut can lose at most.
    fn after_cuts(&self, seed: u64, look: impl Fn(&Path, PowerCut)) -> usize {
        let cuts = (0..u64::from(rounds(1, 18))).map(|round| match (seed + round) % 3 {
            0 => PowerCut::Nothing,
            1 => PowerCut::Subset(1_000 * seed + round),
            _ => PowerCut::Torn(1_000 * seed + round),
        });
        for cut in cuts {
            let image = tempfile::tempdir().unwrap();
            self.disk.image(cut, image.path()).unwrap();
            look(image.path(), cut);
        }
        let synced = tempfile::tempdir().unwrap();
        self.disk.image(PowerCut::Nothing, synced.path()).unwrap().forgotten
    }
}

#[test]
fn a_power_cut_at_every_step_of_a_removal_leaves_nothing_half_removed() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let points = REMOVAL_POINTS
        .iter()
        .flat_map(|(point, times)| times.iter().map(|nth| KillPoint::failpoint(*point, *nth)));
    let said = ["DELETED", "TRIMMED", "ERASED"].map(|line| KillPoint::line(line, 1));
    let mut forgotten = 0;
    for (seed, kill) in points.chain(said).enumerate() {
        let ended = Ended::at(removing, &kill);
        forgotten += ended.after_cuts(seed as u64, |image, cut| {
            let when = format!("{kill:?}, {cut:?}");
            if !ended.seen.lines("ERASED").is_empty() {
                let gone = [text_of(0, 1), text_of(0, 2), text_of(0, 3), text_of(1, 1), text_of(1, 2)];
                assert_eq!(leaks_below(image, &gone), Vec::<String>::new(), "{when}");
            }
            // The image is another file than the directory had.
            let expected = Expected::new(&ended.seen, Some(Restored::Copied), when);
            runtime.block_on(expected.judge(image));
        });
    }
    assert!(forgotten > 0, "the cuts took nothing away");
}

#[test]
fn a_power_cut_at_every_step_of_an_import_leaves_nothing_or_all() {
    let points = IMPORT_POINTS.iter().flat_map(|(point, times, is_whole)| {
        times.iter().map(move |nth| (KillPoint::failpoint(*point, *nth), *is_whole))
    });
    let mut forgotten = 0;
    for (seed, (kill, is_whole)) in points.enumerate() {
        // A trimmed session has rows from the start.
        let what = What::Trimmed;
        forgotten += Ended::at(|directory| import::child(directory, what), &kill).after_cuts(
            seed as u64,
            |image, cut| {
                assert_eq!(import::is_there(image, what), is_whole, "{kill:?}, {cut:?}");
                assert_eq!(import::is_there(image, what), is_whole, "{kill:?}, {cut:?}, at the second look");
            },
        );
    }
    assert!(forgotten > 0, "the cuts took nothing away");
}

#[test]
fn an_import_that_a_power_cut_ended_is_in_no_file_when_the_next_start_has_erased() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let ended = Ended::at(half_importing, &KillPoint::line("APPENDED", 1));
    ended.after_cuts(77, |image, cut| {
        assert!(!leaks_below(image, &[half_imported()]).is_empty(), "{cut:?}: what was durable is there");
        runtime.block_on(async {
            let log = crate::support::open(image).log;
            log.erased().await.unwrap();
            assert_eq!(leaks_below(image, &[half_imported()]), Vec::<String>::new(), "{cut:?}");
            log.close().await;
        });
    });
}
