//! A disk that fails for a while: nothing is lost, nothing is shown too early, it is said, and it heals by itself.

use crate::crash::{child, delivered, verify};
use turnstream_testkit::crash::KillPoint;
use turnstream_testkit::disk::{FaultDisk, Faults};

fn break_and_heal(faults: Faults) {
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
    let seen = running.kill().unwrap();
    verify(&directory, &delivered(&seen)).unwrap();
}

#[test]
fn a_disk_that_cannot_write_is_waited_for_and_told_of() {
    break_and_heal(Faults::broken());
}

#[test]
fn a_full_disk_is_waited_for() {
    break_and_heal(Faults::full());
}

#[test]
fn a_session_hears_that_its_events_had_to_wait() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("data");
    std::fs::create_dir(&directory).unwrap();
    let disk = FaultDisk::new(&directory).unwrap();
    let mut program = child(&directory);
    disk.arm(program.command_mut()).unwrap();
    let mut running = program.start(&KillPoint::Exit).unwrap();
    running.wait_for(&KillPoint::line("FRAME ", 50)).unwrap();
    disk.set(Faults::broken()).unwrap();
    running.wait_for(&KillPoint::line("HEALTH Degraded", 1)).unwrap();
    disk.set(Faults::none()).unwrap();
    running.wait_for(&KillPoint::line("HEALTH Sound", 1)).unwrap();
    running.wait_for(&KillPoint::line("FRAME ", 5_000)).unwrap();
    let seen = running.kill().unwrap();
    let frames = delivered(&seen);
    let codes: Vec<&str> = frames
        .values()
        .filter_map(|line| line.split("\"code\":\"").nth(1))
        .filter_map(|rest| rest.split('"').next())
        .collect();
    assert_eq!(codes[..2], ["degraded", "healed"], "{codes:?}");
}
