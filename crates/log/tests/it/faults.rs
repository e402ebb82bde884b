//! A disk that fails for a while: nothing is lost, nothing is shown too early, it is said, and it heals by itself.

use crate::crash::{child, delivered, verify};
use std::collections::BTreeMap;
use turnstream_testkit::crash::KillPoint;
use turnstream_testkit::disk::{FaultDisk, Faults};

/// Breaks the disk under a talking child, heals it, and returns what the child delivered once it has gone on.
fn break_and_heal(faults: Faults) -> BTreeMap<u64, String> {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("data");
    std::fs::create_dir(&directory).unwrap();
    let disk = FaultDisk::new(&directory).unwrap();
    let mut program = child(&directory);
    disk.arm(program.command_mut()).unwrap();
    let mut running = program.start(&KillPoint::Exit).unwrap();
    running.wait_for(&KillPoint::line("FRAME ", 50)).unwrap();
    disk.set(faults).unwrap();
    running.wait_for(&KillPoint::line("HEALTH Degraded", 1)).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    disk.set(Faults::none()).unwrap();
    running.wait_for(&KillPoint::line("HEALTH Sound", 1)).unwrap();
    // It goes on: far more than could have been under way when the disk broke.
    running.wait_for(&KillPoint::line("FRAME ", 5_000)).unwrap();
    let delivered = delivered(&running.kill().unwrap());
    verify(&directory, &delivered).unwrap();
    delivered
}

#[test]
fn a_disk_that_cannot_write_is_waited_for_and_told_of() {
    let frames = break_and_heal(Faults::broken());
    let codes: Vec<&str> = frames
        .values()
        .filter_map(|line| line.split("\"code\":\"").nth(1))
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert_eq!(codes[..2], ["degraded", "healed"], "{codes:?}");
}

#[test]
fn a_full_disk_is_waited_for() {
    break_and_heal(Faults::full());
}
