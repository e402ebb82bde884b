//! A disk that fails for a while: nothing is lost or published too early, the outage is reported, and the log
//! recovers by itself.

use crate::crash::{child, delivered, verify};
use crate::support::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use turnstream_log::Follow;
use turnstream_model::cursor::Cursor;
use turnstream_testkit::crash::{KillPoint, Program, role};
use turnstream_testkit::disk::{FaultDisk, Faults};

/// Breaks the disk under a busy child, repairs it, and returns the frames that the child delivered after it
/// continued.
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
    // Far more frames than could have been in progress when the disk broke.
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

const DIRECTORY: &str = "TURNSTREAM_LOG_TEST_DIRECTORY";
const CROWD: usize = 8;

/// The child of the test below: several busy sessions that print the notices they get.
#[test]
fn crowded_child() {
    if role().as_deref() != Some("crowd") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let log = open(&PathBuf::from(std::env::var(DIRECTORY).unwrap())).log;
        tokio::spawn({
            let mut watch = log.watch_health();
            async move {
                while let Some(health) = watch.changed().await {
                    println!("HEALTH {health:?}");
                }
            }
        });
        for number in 0..CROWD {
            let name = format!("s{number}");
            let mut appender = talking(&log, &name).await;
            let mut follower = log.follow(&id(&name), &Cursor::default()).unwrap();
            tokio::spawn(async move {
                while let Follow::Outcome(_) | Follow::Events(_) = next_told(&mut follower, &name).await {}
            });
            tokio::spawn(async move {
                loop {
                    append(&mut appender, vec![delta("t1", "i1", "x")]).await;
                    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
                }
            });
        }
        println!("READY");
        std::future::pending::<()>().await;
    });
}

async fn next_told(follower: &mut turnstream_log::Follower, name: &str) -> Follow {
    let step = follower.next().await.unwrap();
    if let Follow::Events(events) = &step {
        let codes =
            lines(events).into_iter().filter_map(|line| Some(line.split_once("\"code\":\"")?.1.to_owned()));
        codes.for_each(|code| println!("TOLD {name} {}", code.split('"').next().unwrap()));
    }
    step
}

#[test]
fn everyone_who_waited_behind_a_failing_commit_is_told_once() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("data");
    std::fs::create_dir(&directory).unwrap();
    let disk = FaultDisk::new(&directory).unwrap();
    let mut program =
        Program::this_test("faults::crowded_child", "crowd").unwrap().env(DIRECTORY, &directory);
    disk.arm(program.command_mut()).unwrap();
    let mut running = program.start(&KillPoint::Exit).unwrap();
    running.wait_for(&KillPoint::line("READY", 1)).unwrap();
    disk.set(Faults::broken()).unwrap();
    running.wait_for(&KillPoint::line("HEALTH Degraded", 1)).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(400));
    disk.set(Faults::none()).unwrap();
    running.wait_for(&KillPoint::line("TOLD ", 2 * CROWD as u64)).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200));
    let mut told = running.kill().unwrap().lines("TOLD ");
    told.sort();
    let all = (0..CROWD).flat_map(|number| [format!("s{number} degraded"), format!("s{number} healed")]);
    assert_eq!(told, all.collect::<Vec<_>>());
}
