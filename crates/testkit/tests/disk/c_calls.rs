//! A program in C that makes the calls std does not make.

use super::{after, disk, files};
use std::path::Path;
use std::process::Command;
use turnstream_testkit::crash::{Ended, KillPoint, Program};
use turnstream_testkit::disk::{DiskError, FaultDisk, Faults, PowerCut};

fn run(disk: &FaultDisk, what: &str) {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("calls");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/disk/calls.c");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let compiled = Command::new(compiler).arg(source).arg("-o").arg(&program).status().unwrap();
    assert!(compiled.success());
    let mut program = Program::new(&program).arg(disk.directory()).arg(what);
    disk.arm(program.command_mut()).unwrap();
    let seen = program.run(&KillPoint::Exit).unwrap();
    assert!(matches!(seen.ended, Ended::Exited(status) if status.success()), "{seen}");
}

#[test]
fn every_replaced_call_is_seen_so_that_everything_equals_the_real_directory() {
    let (_directory, disk) = disk();
    run(&disk, "all");
    let real = files(disk.directory());
    assert_eq!(real["appended"], b"startend");
    assert_eq!(real["sub/again"], b"xby a child");
    assert_eq!(real["linked"], b"xby a child");
    assert_eq!(real["vectors-appended"], b"long text!");
    assert_eq!(after(&disk, PowerCut::Everything).0, real);
}

#[test]
fn a_sync_of_the_whole_file_system_makes_content_and_names_durable() {
    let (_directory, disk) = disk();
    run(&disk, "syncfs");
    assert_eq!(after(&disk, PowerCut::Nothing).0["file"], b"synced");
}

#[test]
fn space_that_is_allocated_is_used_up_as_if_it_were_written() {
    let (_directory, disk) = disk();
    disk.set(Faults { space: Some(100), ..Faults::none() }).unwrap();
    run(&disk, "allocate");
    assert_eq!((disk.counters().unwrap().bytes, disk.counters().unwrap().full), (100, 3));
    assert_eq!(after(&disk, PowerCut::Everything).0, files(disk.directory()));
}

#[test]
fn a_file_mapped_for_writing_is_an_error_and_not_a_wrong_image() {
    let (_directory, disk) = disk();
    run(&disk, "map");
    let image = tempfile::tempdir().unwrap();
    let error = disk.image(PowerCut::Nothing, image.path()).unwrap_err();
    assert!(matches!(&error, DiskError::Unmodelled { path, .. } if path == "mapped"), "{error}");
}
