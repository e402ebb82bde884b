//! The fault disk under real child processes: files of std, and SQLite.

#![cfg(target_os = "linux")]
// Helpers of a test may panic, like the test itself.
#![allow(clippy::unwrap_used)]

mod c_calls;
mod contents;
mod faults;
mod names;
mod sqlite;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use turnstream_testkit::crash::{KillPoint, Program, Seen};
use turnstream_testkit::disk::{CutReport, FaultDisk, PowerCut};

const DIRECTORY: &str = "TESTKIT_DISK";

/// In a child: the directory to work in.
fn directory() -> PathBuf {
    std::env::var(DIRECTORY).unwrap().into()
}

fn disk() -> (TempDir, FaultDisk) {
    let directory = tempfile::tempdir().unwrap();
    let disk = FaultDisk::new(directory.path()).unwrap();
    (directory, disk)
}

/// The test `name` as a child on the disk, playing `role`.
fn child(disk: &FaultDisk, name: &str, role: &str) -> Program {
    let mut program = Program::this_test(name, role).unwrap().env(DIRECTORY, disk.directory());
    disk.arm(program.command_mut()).unwrap();
    program
}

/// Runs the child until it stops at the failpoint `done`. Nothing happens between its last step and its
/// end, so the journal is complete.
fn run_to_done(disk: &FaultDisk, name: &str, role: &str) -> Seen {
    let seen = child(disk, name, role).run(&KillPoint::failpoint("done", 1)).unwrap();
    let image = tempfile::tempdir().unwrap();
    // Operations that the disk does not model are an error, which has its own test.
    if disk.image(PowerCut::Everything, image.path()).is_ok() {
        let mut real = files(disk.directory());
        real.retain(|name, _| !name.ends_with("-shm"));
        assert_eq!(files(image.path()), real);
    }
    seen
}

/// What a power cut would leave now: every file with its content.
fn after(disk: &FaultDisk, cut: PowerCut) -> (BTreeMap<String, Vec<u8>>, CutReport) {
    let image = tempfile::tempdir().unwrap();
    let report = disk.image(cut, image.path()).unwrap();
    (files(image.path()), report)
}

/// Every file below a directory by its relative path.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}
